//! The sweep: once a minute it finds due retries and waits, overdue approvals, and runs whose message was lost or whose
//! worker died.

use domain::{Cause, Initiator};
use engine::{Engine, EngineError, SweepResult};
use store::Store;

/// Sends outstanding messages and wakes every due run. A run that two sweeps wake at the same time advances once.
pub async fn sweep<S: Store>(engine: &Engine<S>) -> Result<SweepResult, EngineError> {
    engine.operations().sweep(&Initiator::new(Cause::System, "sweep")).await
}
