//! Login with an identity provider: the real routers on one port, a fake issuer on another.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod browser;
mod env;
mod flow;
mod issuer;
mod refusals;
