//! End-to-end tests on a local AWS.
//!
//! The tests deploy and start the real programs, and kill some of them. External systems are fakes that speak the same
//! protocols. The tests observe what an operator can observe: replies, the ledger, the buckets.
#![cfg(feature = "aws")]
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod env;
mod gateway;
mod process;
mod proxy;
mod roles;
mod server;
mod storm;
mod wait;
mod zip;

pub use env::{DeployedEnv, ExternalSystems, TENANT, TRACEPARENT, TestConfig};
pub use gateway::{Api, Function, Gateway, Reply};
pub use process::WorkerProcess;
pub use proxy::{RecordedRequests, RecordingProxy};
pub use roles::{Grant, allows, granted};
pub use server::ServerProcess;
pub use storm::{
    DeadLetterReport, EvidenceReport, Progress, ProgressCounts, QueueCounts, Report, RunSeconds, SendReport,
    Storm, storm,
};
pub use wait::{TIMEOUT, wait_until};
