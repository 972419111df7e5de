//! Detects that no work is left, for `--until-idle`.
//!
//! Every run that has not ended has a due time on its record, written in the same commit as the rest. So the due
//! index lists all of them, whether or not a message exists. A run is waiting if it waits for an approval or an event
//! and its deadline is in the future. Any other run can advance: it is ready, leased, due for a retry, or being rolled
//! back. No work is left when every run in the index is waiting and no other job is due, such as posting an approval
//! card or building evidence. A message to advance a waiting run is a duplicate with no effect. Runs that are started
//! or decided after the check are left to other workers.

use std::time::Duration;

use domain::{Millis, RunRecord, StepState, Timestamp};
use store::{Clock as _, Due, Ledger as _, SqliteStore, StoreError, SystemClock};
use tokio::time::sleep;

/// Balances the delay of a script that waits against load on the store.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// With more open runs than this, the worker does not check further and keeps running.
const OPEN_MAX: u32 = 10_000;

/// A job deferred for longer than this is left to another worker. A received message is invisible for half a minute.
const JOB_DELAY_MAX: Millis = Millis::mins(1);

/// Returns when no work is left.
pub(super) async fn wait_until_idle(store: &SqliteStore) {
    loop {
        match is_idle(store).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => tracing::warn!(event = "idle_check_failed", %error, "idle check failed"),
        }
        sleep(POLL_EVERY).await;
    }
}

async fn is_idle(store: &SqliteStore) -> Result<bool, StoreError> {
    let open = store.due(Timestamp(i64::MAX), OPEN_MAX).await?;
    if open.len() >= OPEN_MAX as usize {
        return Ok(false);
    }
    // An inbox entry has a job, or waits for a run.
    for run in open.iter().filter_map(|due| if let Due::Run(run) = due { Some(run) } else { None }) {
        let record = store.load(run).await?;
        if record.is_some_and(|record| !is_waiting(&record, SystemClock.now())) {
            return Ok(false);
        }
    }
    Ok(store.jobs(SystemClock.now() + JOB_DELAY_MAX).await? == 0)
}

fn is_waiting(record: &RunRecord, now: Timestamp) -> bool {
    match &record.step_state {
        // It may have ended since the index was read.
        _ if record.due_at.is_none() => true,
        StepState::WaitingEvent { deadline, .. } => *deadline > now,
        StepState::WaitingApproval { next_reminder_at, .. } => *next_reminder_at > now,
        StepState::Ready { .. }
        | StepState::Running(_)
        | StepState::Retrying { .. }
        | StepState::Unresolved { .. }
        | StepState::Ended { .. } => false,
    }
}
