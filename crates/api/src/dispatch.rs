//! Dispatch: the switch of the tenant, and ending what is under way.
//!
//! A tenant may have more runs than can be dealt with while somebody waits for an answer. A request does a piece of it,
//! and its answer has a cursor to go on with.

use axum::Json;
use axum::extract::State;
use domain::TenantId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::{Cursor, Store};

use crate::Shared;
use crate::at::{Admin, Viewer};
use crate::extract::{Asked, Sent};
use crate::page::{CursorSecret, List};
use crate::problem::Problem;
use api_types::{BackOut, BackedOut, Dispatch, DispatchStarted, StopDispatch, Stopped};

/// What a request goes on with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GoingOn {
    cursor: Option<String>,
}

/// Something that takes several requests.
struct Work<'w> {
    name: &'static str,
    secret: &'w CursorSecret,
    tenant: &'w TenantId,
}

impl Work<'_> {
    /// How far it is, as an answer before said.
    fn so_far<T: DeserializeOwned>(&self, going_on: &GoingOn) -> Result<Option<T>, Problem> {
        let Some(cursor) = &going_on.cursor else { return Ok(None) };
        let unknown = || {
            Problem::bad_request("the cursor is not one that was given here")
                .remedy("take `next` of the answer before, or begin without a cursor")
        };
        let opened = self.list().open(cursor).map_err(|_| unknown())?;
        serde_json::from_str(opened.as_str()).map(Some).map_err(|_| unknown())
    }

    /// How far it is, as the next request says it.
    fn next<T: Serialize>(&self, so_far: Option<&T>) -> Option<String> {
        // What cannot be written is no cursor, and is refused when it is brought.
        let text = so_far.map(|so_far| serde_json::to_string(so_far).unwrap_or_default());
        text.map(|text| self.list().seal(&Cursor::new(text)))
    }

    fn list(&self) -> List<'_> {
        List { secret: self.secret, tenant: self.tenant, name: self.name, filter: String::new() }
    }
}

/// How the switch stands.
pub(crate) async fn show<S: Store>(Viewer { handle, .. }: Viewer<S>) -> Result<Json<Dispatch>, Problem> {
    Ok(Json(handle.dispatch().await?.into()))
}

/// Nothing is begun any more.
pub(crate) async fn stop<S: Store>(
    Admin { handle, .. }: Admin<S>,
    Sent(StopDispatch { reason }): Sent<StopDispatch>,
) -> Result<Json<Stopped>, Problem> {
    Ok(Json(handle.stop_dispatch(&reason).await?.into()))
}

/// What waits goes on.
pub(crate) async fn start<S: Store>(
    State(api): State<Shared<S>>,
    Admin { handle, .. }: Admin<S>,
    Asked(going_on): Asked<GoingOn>,
) -> Result<Json<DispatchStarted>, Problem> {
    let work = Work { name: "start", secret: &api.cursors, tenant: handle.tenant_id() };
    let (announced, rest) = handle.start_some(work.so_far(&going_on)?).await?;
    let all = handle.dispatch().await?.fleet.map(Stopped::from);
    Ok(Json(DispatchStarted { announced, all, next: work.next(rest.as_ref()) }))
}

/// Ends every run that is under way, or says how many those are.
pub(crate) async fn back_out<S: Store>(
    State(api): State<Shared<S>>,
    Admin { handle, .. }: Admin<S>,
    Asked(going_on): Asked<GoingOn>,
    Sent(BackOut { reason, dry_run }): Sent<BackOut>,
) -> Result<Json<BackedOut>, Problem> {
    let name = if dry_run { "count" } else { "backout" };
    let work = Work { name, secret: &api.cursors, tenant: handle.tenant_id() };
    if dry_run {
        let (counted, rest) = handle.count_some(work.so_far(&going_on)?).await?;
        return Ok(Json(BackedOut::would_be(counted).going_on(work.next(rest.as_ref()))));
    }
    let (told, rest) = handle.back_out_some(&reason, work.so_far(&going_on)?).await?;
    Ok(Json(BackedOut::from(told).going_on(work.next(rest.as_ref()))))
}
