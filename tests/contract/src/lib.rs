//! A test environment with two tenants.
//!
//! Each tenant has a user with an API key for each role, and runs in different states. The tests send requests to the
//! router directly. The binary of this crate serves the same environment to external tools.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod env;
mod reply;
mod samples;

pub use env::{ContractEnv, Runs, TestTenant};
pub use reply::Reply;
pub use samples::{OWN_KEY, PathValue, body_for};
