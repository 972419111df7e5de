//! Admission: an event or a request becomes a run.
//!
//! ```text
//! InboundEvent ──accept──▶ InboxEntry ──process_entry──▶ StartRun ──admit──▶ run
//! ```
//!
//! `inbox` stores what arrived. `admit` creates the run. `concurrency` decides whether the run's concurrency key is free.
//! `start` is the only module that uses all three, so that none of them calls another.

mod admit;
mod concurrency;
mod connection_test;
mod inbox;
mod occurrences;
mod request;
mod schedule;
mod start;
mod workflows;

pub use inbox::{AcceptResult, InboundEvent};
pub use request::{StartApplied, StartOutcome, StartResult, StartRun};

crate::core::service! {
    /// Turns events and requests into runs.
    AdmissionService
}
