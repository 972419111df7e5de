//! The dispatch switch of the tenant, and backout.
//!
//! A tenant can have more runs than one request can handle. A request handles a batch, and its response has a cursor
//! for the next one.

use axum::Json;
use axum::extract::State;
use domain::TenantId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::{Cursor, Store};

use crate::Shared;
use crate::extract::{JsonBody, QueryParams};
use crate::page::{CursorSecret, List};
use crate::problem::ApiError;
use crate::role_guard::{Admin, Viewer};
use api_types::{BackOutRequest, BackedOut, Dispatch, DispatchStarted, StopDispatch, Stopped};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContinueQuery {
    cursor: Option<String>,
}

/// An operation of several requests.
struct Operation<'w> {
    name: &'static str,
    secret: &'w CursorSecret,
    tenant: &'w TenantId,
}

impl Operation<'_> {
    /// The progress in the cursor of the request.
    fn progress<T: DeserializeOwned>(&self, query: &ContinueQuery) -> Result<Option<T>, ApiError> {
        let Some(cursor) = &query.cursor else { return Ok(None) };
        let unknown = || {
            ApiError::bad_request("the cursor does not belong to this operation")
                .remedy("send `next` of the previous response, or start without a cursor")
        };
        let opened = self.list().open(cursor).map_err(|_| unknown())?;
        serde_json::from_str(opened.as_str()).map(Some).map_err(|_| unknown())
    }

    /// The cursor for the next request.
    fn next<T: Serialize>(&self, progress: Option<&T>) -> Option<String> {
        // An empty cursor is rejected by the next request.
        let text = progress.map(|progress| serde_json::to_string(progress).unwrap_or_default());
        text.map(|text| self.list().encode_cursor(&Cursor::new(text)))
    }

    fn list(&self) -> List<'_> {
        List { secret: self.secret, tenant: self.tenant, name: self.name, filter: String::new() }
    }
}

pub(crate) async fn show<S: Store>(Viewer { handle, .. }: Viewer<S>) -> Result<Json<Dispatch>, ApiError> {
    Ok(Json(handle.dispatch().await?.into()))
}

pub(crate) async fn stop<S: Store>(
    Admin { handle, .. }: Admin<S>,
    JsonBody(StopDispatch { reason }): JsonBody<StopDispatch>,
) -> Result<Json<Stopped>, ApiError> {
    Ok(Json(handle.stop_dispatch(&reason).await?.into()))
}

pub(crate) async fn start<S: Store>(
    State(api): State<Shared<S>>,
    Admin { handle, .. }: Admin<S>,
    QueryParams(query): QueryParams<ContinueQuery>,
) -> Result<Json<DispatchStarted>, ApiError> {
    let operation = Operation { name: "start", secret: &api.cursors, tenant: handle.tenant_id() };
    let (enqueued, rest) = handle.start_part(operation.progress(&query)?).await?;
    let all_tenants = handle.dispatch().await?.fleet.map(Stopped::from);
    Ok(Json(DispatchStarted { enqueued, all_tenants, next: operation.next(rest.as_ref()) }))
}

/// Cancels every unfinished run, or counts them.
pub(crate) async fn back_out<S: Store>(
    State(api): State<Shared<S>>,
    Admin { handle, .. }: Admin<S>,
    QueryParams(query): QueryParams<ContinueQuery>,
    JsonBody(BackOutRequest { reason, dry_run }): JsonBody<BackOutRequest>,
) -> Result<Json<BackedOut>, ApiError> {
    let name = if dry_run { "count" } else { "backout" };
    let operation = Operation { name, secret: &api.cursors, tenant: handle.tenant_id() };
    if dry_run {
        let (counted, rest) = handle.count_part(operation.progress(&query)?).await?;
        return Ok(Json(BackedOut::dry_run(counted).with_cursor(operation.next(rest.as_ref()))));
    }
    let (backout, rest) = handle.back_out_part(&reason, operation.progress(&query)?).await?;
    Ok(Json(BackedOut::from(backout).with_cursor(operation.next(rest.as_ref()))))
}
