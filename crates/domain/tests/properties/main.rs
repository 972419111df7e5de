//! What holds for every plan and whatever happens to its runs.
//!
//! A story is two random plans and a random list of wishes: work, failures, silence, requests, answers,
//! deliveries, repetitions, old fences and a clock that jumps. It is told in a small [`world`] that keeps
//! the conditions a store keeps, and every commit is held against the rules.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a property fails by panicking")]

// The name by which everybody else speaks of it.
extern crate countersign_domain as domain;

mod approvals;
mod chain;
mod classes;
mod effects;
mod endings;
mod flaws;
mod json;
mod plans;
mod runs;
mod schedule;
mod story;
mod transitions;
mod world;

use proptest::test_runner::Config;

/// So many cases that each property takes a second or two in a debug build. `PROPTEST_CASES` overrules it.
fn cases() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}
