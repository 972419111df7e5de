//! The contract of the REST API.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod approvals;
mod concurrency;
mod dispatch;
mod document;
mod events;
mod governance;
mod matrix;
mod not_started;
mod oidc;
mod parsing;
mod policy;
mod runs;
mod slack_roles;
mod tenant;
mod threats;
mod workers;
