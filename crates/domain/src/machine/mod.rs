//! The state machines of runs and steps. Each is one table.

mod run;
mod step;

pub use run::{IllegalRunMove, RunStatus, RunTransition};
pub use step::{IllegalStepMove, StepStatus, StepTransition};
