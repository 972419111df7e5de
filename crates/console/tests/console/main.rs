//! The console's router, on the embedded store.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod actions;
mod env;
mod pages;
mod security;
mod sessions;
