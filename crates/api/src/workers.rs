//! The workers. They serve all tenants, so a tenant can only read them.

use axum::Json;
use store::Store;

use crate::problem::ApiError;
use crate::role_guard::Operator;
use api_types::{WorkerInfo, Workers};

pub(crate) async fn list<S: Store>(Operator { handle, .. }: Operator<S>) -> Result<Json<Workers>, ApiError> {
    let now = handle.now();
    let workers = handle.workers().await?;
    Ok(Json(Workers { workers: workers.into_iter().map(|worker| WorkerInfo::new(worker, now)).collect() }))
}
