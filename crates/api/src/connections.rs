//! Connections to external systems.

use axum::Json;
use axum::http::HeaderMap;
use axum::response::Response;
use domain::{ConnectionName, Role};
use engine::ConnectionUpdate;
use store::Store;

use crate::extract::{JsonBody, PathParam};
use crate::problem::ApiError;
use crate::role_guard::{Admin, Operator, Viewer};
use crate::runs::{idempotency_key, request_key, started_run};
use api_types::{Connection, Connections, SetConnection};

pub(crate) async fn list<S: Store>(
    Viewer { handle, caller }: Viewer<S>,
) -> Result<Json<Connections>, ApiError> {
    let is_admin = caller.roles.allow(Role::Admin);
    let connections = handle.connections().await?.into_values();
    let connections = connections.map(|resolved| Connection::new(resolved, is_admin)).collect();
    Ok(Json(Connections { connections }))
}

pub(crate) async fn show<S: Store>(
    Viewer { handle, caller }: Viewer<S>,
    PathParam(name): PathParam<ConnectionName>,
) -> Result<Json<Connection>, ApiError> {
    let is_admin = caller.roles.allow(Role::Admin);
    Ok(Json(Connection::new(handle.connection(&name).await?, is_admin)))
}

/// Adds or replaces a connection.
pub(crate) async fn set<S: Store>(
    Admin { handle, .. }: Admin<S>,
    JsonBody(request): JsonBody<SetConnection>,
) -> Result<Json<Connection>, ApiError> {
    let SetConnection { name, kind, base_url, environment, credential, workspace, options, version: seen } =
        request;
    let connection =
        domain::Connection { kind, base_url, environment, credential, workspace, options, version: 0 };
    let set = handle.set_connection(ConnectionUpdate { name, connection, seen }).await?;
    Ok(Json(Connection::new(set, true)))
}

/// Starts a run that tests a connection.
pub(crate) async fn test<S: Store>(
    Operator { handle, caller }: Operator<S>,
    PathParam(name): PathParam<ConnectionName>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let key = request_key(&caller.credential, idempotency_key(&headers)?)?;
    Ok(started_run(handle.test_connection(&name, key).await?))
}

/// Removes a connection that an admin has set.
pub(crate) async fn remove<S: Store>(
    Admin { handle, .. }: Admin<S>,
    PathParam(name): PathParam<ConnectionName>,
) -> Result<Json<Connection>, ApiError> {
    let connection = handle.remove_connection(&name).await?;
    let removed = engine::ResolvedConnection { name, connection, by_operator: false };
    Ok(Json(Connection::new(removed, true)))
}
