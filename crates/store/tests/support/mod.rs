//! Fixtures: a run and its first commit.

use std::error::Error;

use countersign_store::Admission;
use domain::Plan;
use serde_json::Value;
use testkit::ledger;

/// Renders an error and its causes.
pub(crate) fn error_chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// A plan with one step.
pub(crate) fn plan() -> Plan {
    ledger::calls(1)
}

/// The first commit of a run with the idempotency key `request`.
pub(crate) fn admission_with(request: &str, input: Value) -> Admission {
    ledger::admission_with("acme", request, &plan(), input)
}
