//! Execution: a worker advances a run step by step, under a lease on each step.
//!
//! `advance` is the loop. `bind` turns a step into an exact action. `perform` calls the tool and renews the lease.

pub(crate) mod advance;
pub(crate) mod bind;
mod perform;

use crate::governance::GovernanceService;

pub use advance::{AdvanceLimits, Shutdown};

crate::core::service! {
    /// Advances runs.
    ExecutionService
}

impl<'e, S> ExecutionService<'e, S> {
    fn governance(self) -> GovernanceService<'e, S> {
        GovernanceService::new(self.core)
    }
}
