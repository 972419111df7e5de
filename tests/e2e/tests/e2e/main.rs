//! The product on a local AWS. One binary, because each would link the AWS SDK again.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod dev;
mod drain;
mod grants;
mod health;
mod lifecycle;
mod secrets;
mod serve;
mod storm;
mod tenants;
