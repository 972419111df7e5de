//! Fixtures: a run and its first commit.

use std::error::Error;

use countersign_store::Admission;
use domain::command::{Admit, admit};
use domain::payload::Fingerprint;
use domain::plan::{Call, Environment, Work};
use domain::{
    Cause, IdempotencyKey, Initiator, OpId, Payload, Plan, PlannedStep, Stamp, StepId, TenantId, Timestamp,
    ToolName, WorkflowName, WorkspaceId,
};
use serde_json::Value;

/// Renders an error and its causes.
pub(crate) fn error_chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

pub(crate) fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}

/// A plan with one step.
pub(crate) fn plan() -> Plan {
    let call = Call { tool: ToolName::new("http.request").unwrap(), with: Value::Null };
    let step = PlannedStep::new(StepId::new("call").unwrap(), Work::Call(call));
    Plan::new(WorkflowName::new("embedded").unwrap(), Environment::Dev, vec![step])
}

/// The first commit of a run with the idempotency key `request`.
pub(crate) fn admission_with(request: &str, input: Value) -> Admission {
    let command = Admit {
        tenant: tenant(),
        workspace: WorkspaceId::new("main").unwrap(),
        trigger_kind: "api".to_owned(),
        record: None,
        trace: None,
        key: IdempotencyKey::new(request).unwrap(),
        input: Fingerprint::of(&input),
    };
    Admission { decision: admit(command, &plan(), stamp()), input: Payload::Inline(input), hold: None }
}

pub(crate) fn stamp() -> Stamp {
    Stamp {
        op: OpId::new("op").unwrap(),
        now: Timestamp(1_750_000_000_000),
        by: Initiator::new(Cause::System, "worker"),
    }
}
