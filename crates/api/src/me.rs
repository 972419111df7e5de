//! Who asks, and whether anybody answers.

use axum::Json;
use store::Store;

use crate::at::Viewer;
use api_types::{Health, Me};

/// The server answers. Nothing more is said: anybody may ask.
pub(crate) async fn health() -> Json<Health> {
    Json(Health { status: "ok".to_owned() })
}

/// Who asks.
pub(crate) async fn show<S: Store>(Viewer { caller, .. }: Viewer<S>) -> Json<Me> {
    let crate::Caller { tenant, person, roles, credential } = caller;
    Json(Me { tenant, person, roles, credential })
}
