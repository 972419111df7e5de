//! Journeys: the whole of it on a local AWS.
//!
//! Real programs are deployed and started, and some of them killed; the systems outside are simulated and speak
//! the same protocols. What is looked at is what an operator could look at: replies, the ledger, the buckets.
#![cfg(feature = "aws")]
#![expect(clippy::panic, clippy::unwrap_used, reason = "a journey fails by panicking")]

mod account;
mod gateway;
mod patience;
mod process;
mod roles;
mod running;
mod storm;
mod witness;
mod zip;

pub use account::{Account, LED_HERE, Outside, Site, TENANT};
pub use gateway::{Api, Function, Gateway, Reply};
pub use patience::{PATIENCE, until};
pub use process::WorkerProcess;
pub use roles::{Grant, allows, granted};
pub use running::Running;
pub use storm::{Dead, Evidence, Progress, Queues, Report, Seconds, Seen, Sending, Storm, storm};
pub use witness::{Asked, Witness};
