//! Fixtures: a run and its commands.

#[path = "../support/mod.rs"]
mod support;

use countersign_store::{Ledger, Write};
use domain::{Command, Decision, DecisionContext, Draft, OpId, RunRecord};
use serde_json::json;

pub(crate) use support::{admission_with, error_chain, plan};
pub(crate) use testkit::acme as tenant;

/// Starts a run with the idempotency key `request`.
pub(crate) async fn start_run<L: Ledger>(store: &L, request: &str) -> RunRecord {
    let admission = admission_with(request, json!({ "request": request }));
    let record = admission.decision.record.clone();
    assert_eq!(store.admit(admission).await.unwrap(), Write::Committed);
    record
}

/// The decision for `command`.
pub(crate) fn decide(record: RunRecord, command: impl Command) -> Decision {
    let op = OpId::new(&format!("op-{}", record.version)).unwrap();
    let plan = plan();
    let mut draft =
        Draft::new(record, &plan, DecisionContext { op, ..testkit::ledger::context(testkit::ledger::NOON) });
    command.decide(&mut draft).unwrap();
    draft.close()
}
