//! Drives a tool as the engine does: observe, propose, perform, and retry where that is safe.

use std::time::Duration;

use connectors::{LookUpResult, Observed, ProposalRequest, Tool, ToolCall, ToolOutcome};
use domain::command::EffectOutcome::MayHaveHappened;
use domain::{Action, EffectClass, Failure, Fence, Millis, RunId, RunKey, StepId, TenantId};
use serde_json::Value;

/// More attempts than any call here needs.
const ATTEMPTS_MAX: u32 = 4;

pub(crate) fn run(id: &str) -> RunKey {
    RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new(id).unwrap() }
}

pub(crate) fn step() -> StepId {
    StepId::new("step").unwrap()
}

async fn observe(tool: &dyn Tool, request: &ProposalRequest<'_>) -> Observed {
    if tool.observes() { tool.observe(request).await } else { Observed::NotNeeded }
}

/// Observes, then proposes from the observed state.
pub(crate) async fn propose_in(
    run: &RunKey,
    tool: &dyn Tool,
    with: &Value,
    reverts: bool,
) -> Result<Action, Failure> {
    let step = step();
    let request = |observed| ProposalRequest {
        run,
        step: &step,
        reverts,
        has_rollback: true,
        fields: with.clone(),
        observed,
    };
    let observed = match observe(tool, &request(None)).await {
        Observed::NotNeeded => None,
        Observed::Found(found) => Some(found),
        Observed::Retryable { failure, .. } | Observed::Terminal(failure) => return Err(failure),
    };
    let action = tool.propose(request(observed.as_ref()))?;
    assert_eq!(action.check(), Ok(()), "the action must be valid");
    assert_eq!(tool.propose(request(observed.as_ref())).as_ref(), Ok(&action), "a proposal must be pure");
    assert_eq!(tool.effect_class(with), Some(action.class), "`effect_class` must match the proposed class");
    Ok(action)
}

pub(crate) async fn propose(tool: &dyn Tool, with: &Value) -> Result<Action, Failure> {
    propose_in(&run("run-1"), tool, with, false).await
}

pub(crate) async fn attempt(tool: &dyn Tool, action: &Action, again: bool) -> ToolOutcome {
    attempt_within(tool, action, again, Duration::from_mins(1)).await
}

pub(crate) async fn attempt_within(
    tool: &dyn Tool,
    action: &Action,
    again: bool,
    time_left: Duration,
) -> ToolOutcome {
    let (run, step) = (run("run-1"), step());
    tool.perform(ToolCall { run: &run, step: &step, action, fence: Fence(1), time_left, again }).await
}

pub(crate) async fn look_up(tool: &dyn Tool, action: &Action) -> LookUpResult {
    let (run, step, time_left) = (run("run-1"), step(), Duration::from_mins(1));
    let call = ToolCall { run: &run, step: &step, action, fence: Fence(2), time_left, again: true };
    tool.look_up(call).await
}

/// The end of a retried call.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) outcome: ToolOutcome,
    /// How often an operator had to allow another attempt.
    pub(crate) operator_decisions: u32,
}

/// Retries a call as the engine does. Where a retry is not known to be safe, an operator allows it.
pub(crate) async fn retry(tool: &dyn Tool, action: &Action) -> Ending {
    let (mut open, mut operator_decisions) = (false, 0);
    for _ in 0..ATTEMPTS_MAX {
        let outcome = attempt(tool, action, open).await;
        let ToolOutcome::Retryable { certainty, .. } = &outcome else {
            return Ending { outcome, operator_decisions };
        };
        open |= *certainty == MayHaveHappened;
        operator_decisions += u32::from(open && action.class == EffectClass::Opaque);
    }
    panic!("{} does not finish", action.tool)
}

pub(crate) fn classify(outcome: &ToolOutcome) -> &'static str {
    match outcome {
        ToolOutcome::Done(_) => "done",
        ToolOutcome::Terminal(_) => "terminal",
        ToolOutcome::Retryable { certainty: MayHaveHappened, .. } => "may have happened",
        ToolOutcome::Retryable { .. } => "did not happen",
    }
}

/// The failure, and the requested delay.
pub(crate) fn failure(outcome: &ToolOutcome) -> (&Failure, Option<Millis>) {
    match outcome {
        ToolOutcome::Terminal(failure) => (failure, None),
        ToolOutcome::Retryable { failure, retry_after, .. } => (failure, *retry_after),
        ToolOutcome::Done(done) => panic!("{done:?}"),
    }
}
