//! Once a minute somebody looks for what nobody has looked at: retries and waits that are due, answers that
//! are overdue, runs whose message was lost or whose worker died.

use domain::{Cause, Initiator};
use engine::{Engine, EngineError, Swept};
use store::Store;

/// Sends what was left behind and wakes every run that is due. A run that two sweeps wake at once moves once.
pub async fn sweep<S: Store>(engine: &Engine<S>) -> Result<Swept, EngineError> {
    engine.sweep(&Initiator::new(Cause::System, "sweep")).await
}
