//! Once a minute somebody looks for what nobody has looked at: retries and waits that are due, answers that
//! are overdue, runs whose message was lost or whose worker died.

use std::future::{Ready, ready};

use domain::{Cause, Initiator, Timestamp};
use engine::{Engine, EngineError};
use store::{Store, StoreError};

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepReport {
    /// How many messages were sent that had been left behind.
    pub sent: u32,
    /// How many runs were woken.
    pub woken: u32,
}

/// Wakes every run that is due. A run that two sweeps wake at once moves once.
///
/// Before that, `send_left_behind` sends what the store has kept and not sent, and says how much that was; a
/// store that keeps nothing back has [`nothing_left_behind`].
pub async fn sweep<S: Store>(
    engine: &Engine<S>,
    send_left_behind: impl AsyncFnOnce(&S, Timestamp) -> Result<u32, StoreError>,
) -> Result<SweepReport, EngineError> {
    let sent = send_left_behind(engine.store(), engine.now()).await?;
    let woken = engine.sweep(&Initiator::new(Cause::System, "sweep")).await?;
    Ok(SweepReport { sent, woken })
}

/// For a store that sends its messages as it commits.
pub fn nothing_left_behind<S: Store>(_store: &S, _now: Timestamp) -> Ready<Result<u32, StoreError>> {
    ready(Ok(0))
}
