//! The AWS Lambda functions: `webhook`, `slack` and `sweep`.
//!
//! The request handlers are in the `ingress` crate; this crate adapts them to the Lambda runtime.

#[cfg(feature = "lambda")]
pub mod lambda;

use domain::{Cause, Initiator};
use engine::{Engine, EngineError, SweepResult};
use store::Store;

/// Finds due retries and waits, overdue approvals, and runs whose message was lost or whose worker died. Sends outstanding
/// messages and wakes every due run. A run that two sweeps wake at the same time advances once.
pub async fn sweep<S: Store>(engine: &Engine<S>) -> Result<SweepResult, EngineError> {
    engine.operations().sweep(&Initiator::new(Cause::System, "sweep")).await
}
