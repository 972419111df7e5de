//! Whether anything is left to do.
//!
//! Every run that can still move has a due time on its record, written in the same commit as the rest of it.
//! So the due index, read to its end, finds all of them, whether or not there is a message for them. A run in it
//! is at rest if it waits for a person or an event and its deadline is not over; any other can move by itself:
//! it is ready, held, due for another attempt, or being taken back. Nothing is left to do when every run in the
//! index is at rest and no other job is due: people may still have to be shown something, and the evidence of
//! a run that is over may not be there yet. A message to walk a run at rest is one that came twice, and whoever
//! gets it finds nothing to do. What is started or answered after the look is for another worker.

use std::time::Duration;

use domain::{Live, Millis, RunRecord, Timestamp};
use store::{Clock as _, Ledger as _, SqliteStore, StoreError, SystemClock};
use tokio::time::sleep;

/// Often enough for a script that waits for us, seldom enough for the store.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// With more open runs than this nobody can say that nothing is left, and the worker stays.
const OPEN_MAX: u32 = 10_000;

/// An job that is put off for longer than this is for another worker, or for another day: what somebody has
/// in hand is hidden for half a minute.
const SOON: Millis = Millis::mins(1);

/// Returns when nothing is left to do.
pub(super) async fn idle(store: &SqliteStore) {
    loop {
        match is_idle(store).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "could not see whether anything is left to do"),
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn is_idle(store: &SqliteStore) -> Result<bool, StoreError> {
    let open = store.due(Timestamp(i64::MAX), OPEN_MAX).await?;
    if open.len() >= OPEN_MAX as usize {
        return Ok(false);
    }
    for run in &open {
        let record = store.load(run).await?;
        if record.is_some_and(|record| !is_at_rest(&record, SystemClock.now())) {
            return Ok(false);
        }
    }
    Ok(store.jobs(SystemClock.now() + SOON).await? == 0)
}

fn is_at_rest(record: &RunRecord, now: Timestamp) -> bool {
    match &record.live {
        // It may have moved since the index was read.
        _ if record.due_at.is_none() => true,
        Live::WaitingEvent { deadline, .. } => *deadline > now,
        Live::WaitingApproval { nudge_at, .. } => *nudge_at > now,
        Live::Ready { .. }
        | Live::Running(_)
        | Live::Retrying { .. }
        | Live::Unresolved { .. }
        | Live::Over { .. } => false,
    }
}
