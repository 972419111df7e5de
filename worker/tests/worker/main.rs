//! The worker on an embedded store. One binary, because each would compile the worker again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod brownout;
mod dispatch;
mod health;
mod jobs;
mod queues;
mod registry;
mod support;
mod tenants;
