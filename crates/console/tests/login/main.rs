//! Logging in with an identity provider, as a browser goes through it: the real routers on a port, and an issuer on
//! another.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod browser;
mod flow;
mod issuer;
mod refusals;
mod scene;
