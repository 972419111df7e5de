//! The caller, the health check and the workers.

use axum::Json;
use store::Store;

use crate::problem::ApiError;
use crate::role_guard::{Operator, Viewer};
use api_types::{Health, Me, WorkerInfo, Workers};

/// Returns no details, because the route is public.
pub(crate) async fn health() -> Json<Health> {
    Json(Health { status: "ok".to_owned() })
}

pub(crate) async fn me<S: Store>(Viewer { caller, .. }: Viewer<S>) -> Json<Me> {
    let crate::Caller { tenant, person, roles, credential, .. } = caller;
    Json(Me { tenant, person, roles, credential })
}

/// Workers serve all tenants, so a tenant can only read them.
pub(crate) async fn workers<S: Store>(
    Operator { handle, .. }: Operator<S>,
) -> Result<Json<Workers>, ApiError> {
    let now = handle.now();
    let workers = handle.workers().await?;
    Ok(Json(Workers { workers: workers.into_iter().map(|worker| WorkerInfo::new(worker, now)).collect() }))
}
