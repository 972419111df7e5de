//! Properties of all plans and runs.
//!
//! A scenario is two random plans and a random list of operations: work, failures, expired leases, requests, votes,
//! deliveries, repetitions, old fences and clock jumps. It runs in a [`env::LedgerEnv`], which enforces the
//! conditions of a store, and every commit is checked.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a property fails by panicking")]

// The name that other crates use.
extern crate countersign_domain as domain;

mod approvals;
mod audit;
mod card_routes;
mod chain;
mod classes;
mod effects;
mod endings;
mod env;
mod json;
mod plans;
mod regressions;
mod runs;
mod scenario;
mod schedule;
mod transitions;
mod validation;

use proptest::test_runner::Config;

/// Each property takes a second or two in a debug build. `PROPTEST_CASES` overrides the number of cases.
fn cases() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}
