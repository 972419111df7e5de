//! Fuzzers for everything that reads untrusted bytes.
//!
//! A [`FuzzTarget`] executes one input and checks properties of the result. [`run`] replays the corpus, then mutates it. Stable
//! Rust has no coverage instrumentation, so the result guides the search: an input with a new kind of result joins the
//! corpus. The same seed gives the same inputs.
#![expect(clippy::unwrap_used, reason = "a fuzzer fails by panicking")]

mod mutate;
mod run;
mod targets;

pub use run::{FuzzReport, Limits, SEED, run};
pub use targets::{FuzzTarget, TARGETS};
