//! The proof by simulation.
//!
//! The real engine, the real worker loop and the real SQLite statements run in one thread under virtual
//! time. Every I/O call — to the ledger, the queue, the blobs, and to the world outside — passes a fault
//! layer that gives it a number. A flow is first run without faults, which counts its calls; then it is
//! run again for every call and every kind of fault, and for short flows for every pair. After each run an
//! oracle that has watched the world outside checks that nothing was lost and nothing happened twice.
//!
//! Everything that is left to chance comes from a seed, so a failure is repeated by its number.

mod clock;
mod fault;
mod flow;
mod grid;
mod oracle;
mod scenario;
mod world;

pub use fault::{Kind, Point};
pub use flow::{FLOWS, Flow};
pub use grid::{FlowReport, Report, Sweep, Violation, simulate};
pub use scenario::{Scenario, Skew};
