//! Runs.

use axum::Json;
use axum::extract::Path;
use domain::RunId;
use serde_json::Value;
use store::Store;
use telling::hint::Hints;
use telling::{Seen, run_json};

use crate::at::Viewer;
use crate::problem::Problem;

/// Everything about a run.
pub(crate) async fn show<S: Store>(
    Viewer { desk, .. }: Viewer<S>,
    Path(run): Path<String>,
) -> Result<Json<Value>, Problem> {
    let run = RunId::new(&run).map_err(|_| Problem::not_found("run"))?;
    let seen = Seen::at(&desk, &run, Hints::plain()).await?;
    Ok(Json(run_json(&seen)))
}
