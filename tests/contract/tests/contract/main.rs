//! What the API promises to whoever calls it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod arrived;
mod dispatch;
mod document;
mod matrix;
mod oidc;
mod parsing;
mod policy;
mod settled;
mod story;
mod threats;
mod tickets;
mod workers;
