//! Who canceled a run, and why.

use domain::{Cause, Event, EventBody, RunStatus};

use crate::RunSnapshot;
use crate::json::CanceledDocument;
use crate::time::{in_seconds, rfc3339_millis};

/// The user who canceled the run; none unless the run is canceled. The worker that carries out the request is named
/// only if no user is.
pub fn canceled(snapshot: &RunSnapshot) -> Option<CanceledDocument> {
    if snapshot.view.record.status != RunStatus::Canceled {
        return None;
    }
    let events = snapshot.view.events.as_deref().unwrap_or_default();
    let requests = events.iter().rev().filter_map(|event| Some((event, cancel_reason(&event.body)?)));
    let by_user = requests.clone().find(|(event, _)| event.by.cause == Cause::User);
    let request = by_user.or_else(|| requests.clone().next());
    request.map(|(event, reason)| from_event(event, reason)).or_else(|| from_record(snapshot))
}

/// The reason, if the event cancels the run or requests that.
fn cancel_reason(body: &EventBody) -> Option<&str> {
    match body {
        EventBody::RunCanceled { reason, .. }
        | EventBody::CancelRequested { reason }
        | EventBody::RollbackStarted { reason, .. } => Some(reason),
        _ => None,
    }
}

fn from_event(event: &Event, reason: &str) -> CanceledDocument {
    CanceledDocument { by: event.by.id.clone(), reason: reason.to_owned(), at: rfc3339_millis(event.at) }
}

/// The record's copy of the request, for a run whose chain does not verify.
fn from_record(snapshot: &RunSnapshot) -> Option<CanceledDocument> {
    let request = snapshot.view.record.cancel.as_ref()?;
    Some(CanceledDocument {
        by: request.by.clone(),
        reason: request.reason.clone(),
        at: rfc3339_millis(request.at),
    })
}

impl CanceledDocument {
    /// `by ada at 2026-11-15T03:35:23Z: wrong host`.
    pub(crate) fn line(&self) -> String {
        let Self { by, reason, at } = self;
        let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        format!("by {by} at {}{why}", in_seconds(at))
    }
}
