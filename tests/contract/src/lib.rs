//! A house with two tenants, to knock at.
//!
//! Each tenant has a person for each role, with a key, and one run for each way in which a run can stand. Tests send
//! requests straight to the router; the program beside this serves the same house to tools from outside.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod house;
mod reply;
mod samples;

pub use house::{House, Runs, Told, Watch};
pub use reply::Reply;
pub use samples::{OWN_KEY, Place, body_for};
