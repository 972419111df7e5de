//! Compares outcomes, costs and compensations with the chain.

use domain::payload::Fingerprint;
use domain::{Event, EventBody, IdempotencyKey, ModelUsage, StepStatus};
use serde_json::json;

use crate::bundle::{Costs, EvidenceBundle, StepOutcome, compensation_log};
use crate::error::VerifyError;

pub(super) fn check(bundle: &EvidenceBundle, events: &[Event]) -> Result<(), VerifyError> {
    super::check_ascending(
        "outcomes",
        bundle.outcomes.iter().map(|outcome| (outcome.seq, outcome.rollback)),
    )?;
    for outcome in &bundle.outcomes {
        check_outcome(outcome, events)?;
    }
    // Each outcome has its own event, so equal counts mean that none is missing.
    let expected = events.iter().filter(|event| final_status(event).is_some()).count();
    let found = bundle.outcomes.len();
    if expected != found {
        return Err(VerifyError::Outcomes { expected, found });
    }
    Ok(())
}

/// Checks that costs and compensations follow from the outcomes and the failed attempts.
pub(super) fn check_sums(bundle: &EvidenceBundle, events: &[Event]) -> Result<(), VerifyError> {
    if bundle.costs != Costs::new(&bundle.steps, &bundle.outcomes, &bundle.receipts, events) {
        return Err(VerifyError::Costs);
    }
    if bundle.compensations == compensation_log(bundle) { Ok(()) } else { Err(VerifyError::Compensations) }
}

/// The final status of a step, if the event ends one.
fn final_status(event: &Event) -> Option<StepStatus> {
    let to = event.step.as_ref()?.to;
    matches!(to, StepStatus::Succeeded | StepStatus::FailedTerminal | StepStatus::RolledBack).then_some(to)
}

fn check_outcome(outcome: &StepOutcome, events: &[Event]) -> Result<(), VerifyError> {
    let differs = |what| VerifyError::Outcome { what, seq: outcome.seq.0 };
    let index = usize::try_from(outcome.event).unwrap_or(usize::MAX);
    let event = events.get(index).ok_or_else(|| differs("event"))?;
    let StepEnd { output, receipt, cost } = StepEnd::from(event);
    let conditions = [
        ("event", event.seq == outcome.seq && event.rollback == outcome.rollback),
        ("status", final_status(event) == Some(outcome.status)),
        ("output", output == outcome.output),
        ("receipt", receipt == outcome.receipt.as_ref()),
        ("cost", cost == (outcome.cost_microusd, outcome.usage.as_ref())),
    ];
    super::check_all(&conditions, differs)
}

/// The result that an event records for the step it ends.
struct StepEnd<'a> {
    output: Option<Fingerprint>,
    receipt: Option<&'a IdempotencyKey>,
    /// Cost and usage.
    cost: (u64, Option<&'a ModelUsage>),
}

impl<'a> From<&'a Event> for StepEnd<'a> {
    fn from(event: &'a Event) -> Self {
        let without_cost = |output| Self { output, receipt: None, cost: (0, None) };
        match &event.body {
            EventBody::StepSucceeded { output, receipt, cost_microusd, usage, .. }
            | EventBody::StepRolledBack { output, receipt, cost_microusd, usage, .. } => Self {
                output: Some(*output),
                receipt: receipt.as_ref().map(|receipt| &receipt.key),
                cost: (*cost_microusd, usage.as_ref()),
            },
            EventBody::EventDelivered { payload, .. } => without_cost(Some(*payload)),
            // The output of these steps is derived from the event.
            EventBody::ApprovalVoted { vote, .. } if vote.approve => {
                without_cost(Some(Fingerprint::of(&json!({ "approved": true, "by": vote.person }))))
            }
            EventBody::TimedOut { .. } if final_status(event) == Some(StepStatus::Succeeded) => {
                without_cost(Some(Fingerprint::of(&json!({ "timed_out": true }))))
            }
            _ => without_cost(None),
        }
    }
}
