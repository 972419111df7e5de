//! The caller, and the health check.

use axum::Json;
use store::Store;

use crate::role_guard::Viewer;
use api_types::{Health, Me};

/// Returns no details, because the route is public.
pub(crate) async fn health() -> Json<Health> {
    Json(Health { status: "ok".to_owned() })
}

pub(crate) async fn show<S: Store>(Viewer { caller, .. }: Viewer<S>) -> Json<Me> {
    let crate::Caller { tenant, person, roles, credential } = caller;
    Json(Me { tenant, person, roles, credential })
}
