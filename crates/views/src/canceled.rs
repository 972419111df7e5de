//! Who wanted a run stopped, and why.

use domain::{Cause, Event, EventBody, RunStatus};

use crate::Seen;
use crate::json::CanceledDocument;
use crate::time::moment;

/// Who stopped the run; nothing, unless it is canceled. A worker that gets round to a wish is not who had it.
pub fn canceled(seen: &Seen) -> Option<CanceledDocument> {
    if seen.view.record.status != RunStatus::Canceled {
        return None;
    }
    let events = seen.view.events.as_deref().unwrap_or_default();
    let told = events.iter().rev().filter_map(|event| Some((event, wish(&event.body)?)));
    let by_people = told.clone().find(|(event, _)| event.by.cause == Cause::User);
    let told = by_people.or_else(|| told.clone().next()).map(|(event, reason)| of_event(event, reason));
    told.or_else(|| of_record(seen))
}

/// Why the run is to stop, if that is what an event says.
fn wish(body: &EventBody) -> Option<&str> {
    match body {
        EventBody::RunCanceled { reason, .. }
        | EventBody::CancelRequested { reason }
        | EventBody::RollbackStarted { reason, .. } => Some(reason),
        _ => None,
    }
}

fn of_event(event: &Event, reason: &str) -> CanceledDocument {
    CanceledDocument { by: event.by.id.clone(), reason: reason.to_owned(), at: moment(event.at) }
}

/// What the record says, where the chain cannot be believed.
fn of_record(seen: &Seen) -> Option<CanceledDocument> {
    let request = seen.view.record.cancel.as_ref()?;
    Some(CanceledDocument { by: request.by.clone(), reason: request.reason.clone(), at: moment(request.at) })
}

impl CanceledDocument {
    /// `by ada at 2026-11-15T03:35:23.120Z: not today`.
    pub(crate) fn line(&self) -> String {
        let Self { by, reason, at } = self;
        let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        format!("by {by} at {at}{why}")
    }
}
