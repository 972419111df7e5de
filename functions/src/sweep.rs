//! Once a minute somebody looks for what nobody has looked at: retries and waits that are due, answers that
//! are overdue, runs whose message was lost or whose worker died.

use domain::{Cause, Initiator};
use engine::{Engine, EngineError};
use store::Store;

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepReport {
    /// How many runs were woken.
    pub woken: u32,
}

/// Wakes every run that is due. A run that two sweeps wake at once moves once.
pub async fn sweep<S: Store>(engine: &Engine<S>) -> Result<SweepReport, EngineError> {
    let woken = engine.sweep(&Initiator::new(Cause::System, "sweep")).await?;
    Ok(SweepReport { woken })
}
