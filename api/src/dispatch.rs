//! Dispatch: the switch of the tenant, and ending what is under way.

use axum::Json;
use store::Store;

use crate::at::{Admin, Viewer};
use crate::extract::Sent;
use crate::problem::Problem;
use crate::wire::{BackOut, BackedOut, Dispatch, DispatchStarted, StopDispatch, Stopped};

/// How the switch stands.
pub(crate) async fn show<S: Store>(Viewer { desk, .. }: Viewer<S>) -> Result<Json<Dispatch>, Problem> {
    Ok(Json(desk.dispatch().await?.into()))
}

/// Nothing is begun any more.
pub(crate) async fn stop<S: Store>(
    Admin { desk, .. }: Admin<S>,
    Sent(StopDispatch { reason }): Sent<StopDispatch>,
) -> Result<Json<Stopped>, Problem> {
    Ok(Json(desk.stop_dispatch(&reason).await?.into()))
}

/// What waits goes on.
pub(crate) async fn start<S: Store>(Admin { desk, .. }: Admin<S>) -> Result<Json<DispatchStarted>, Problem> {
    let announced = desk.start_dispatch().await?;
    let all = desk.dispatch().await?.fleet.map(Stopped::from);
    Ok(Json(DispatchStarted { announced, all }))
}

/// Ends every run that is under way, or says how many those are.
pub(crate) async fn back_out<S: Store>(
    Admin { desk, .. }: Admin<S>,
    Sent(BackOut { reason, dry_run }): Sent<BackOut>,
) -> Result<Json<BackedOut>, Problem> {
    if dry_run {
        return Ok(Json(BackedOut::would_be(desk.under_way().await?)));
    }
    Ok(Json(desk.backout(&reason).await?.into()))
}
