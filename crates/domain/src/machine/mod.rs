//! The two machines, each one table.

mod run;
mod step;

pub use run::{IllegalRunMove, RunMove, RunStatus};
pub use step::{IllegalStepMove, StepMove, StepStatus};
