//! The console as a browser meets it: the real router, on the embedded store.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acting;
mod entering;
mod guarding;
mod looking;
mod scene;
