//! Deterministic simulation with fault injection.
//!
//! The real engine, the real worker loop and the real SQLite statements run in one thread under virtual
//! time. Every I/O call (ledger, queue, blobs, external systems) passes a fault layer that numbers it. A
//! flow first runs without faults, which counts its calls. It then runs again once for every call and kind
//! of fault, and short flows also for every pair of faults. After each run an oracle compares the ledger
//! with the effects in the fake external service: no effect may be lost or happen twice.
//!
//! All randomness comes from a seed, so a failure can be repeated with that seed.

mod clock;
mod fault;
mod flow;
mod grid;
mod oracle;
mod scenario;
mod service;

pub use fault::{FaultKind, FaultPoint};
pub use flow::{FLOWS, Flow};
pub use grid::{FlowReport, Report, Size, Sweep, Violation, simulate};
pub use scenario::{Scenario, Skew};
