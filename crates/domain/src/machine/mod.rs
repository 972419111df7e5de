//! The state machines of runs and steps. Each is one table.

mod run;
mod step;

pub use run::{IllegalRunMove, RunMove, RunStatus};
pub use step::{IllegalStepMove, StepMove, StepStatus};
