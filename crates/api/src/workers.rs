//! The workers of the fleet. They serve every tenant, so a tenant may look at them and no more.

use axum::Json;
use store::Store;

use crate::at::Operator;
use crate::problem::Problem;
use api_types::{Worker, Workers};

/// Which workers there are.
pub(crate) async fn list<S: Store>(Operator { handle, .. }: Operator<S>) -> Result<Json<Workers>, Problem> {
    let now = handle.now();
    let workers = handle.workers().await?;
    Ok(Json(Workers { workers: workers.into_iter().map(|worker| Worker::seen_at(worker, now)).collect() }))
}
