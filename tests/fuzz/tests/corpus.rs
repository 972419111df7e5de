//! Every stored input is executed, with a few mutations of each.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use countersign_fuzz::{FuzzTarget, Limits, SEED, TARGETS, run};

fn replay(name: &str) {
    let target: &'static FuzzTarget = TARGETS.iter().find(|target| target.name == name).unwrap();
    let limits = Limits { seed: SEED, executions: target.executions / 20, time: Duration::MAX };
    let failures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus");
    run(target, limits, &failures).unwrap();
}

#[test]
fn workflow() {
    replay("workflow");
}

#[test]
fn template() {
    replay("template");
}

#[test]
fn policy() {
    replay("policy");
}

#[test]
fn webhook() {
    replay("webhook");
}

#[test]
fn slack() {
    replay("slack");
}

#[test]
fn bundle() {
    replay("bundle");
}

#[test]
fn envelope() {
    replay("envelope");
}

#[test]
fn checkpoint() {
    replay("checkpoint");
}

#[test]
fn cursor() {
    replay("cursor");
}
