//! Execution: a worker advances a run step by step, under a lease on each step.
//!
//! `advance` is the loop. `bind` turns a step into an exact action. `perform` calls the tool and renews the lease.
//! `sweep` wakes runs whose due time has passed.

pub(crate) mod advance;
pub(crate) mod bind;
mod perform;
mod sweep;

pub use advance::{AdvanceLimits, AdvanceResult, Shutdown};
pub use sweep::SweepResult;
