//! The outcomes of the steps, what they cost and what became of their effects, held against the chain.

use domain::payload::Fingerprint;
use domain::{Event, EventBody, IdempotencyKey, StepStatus, Usage};
use serde_json::json;

use crate::bundle::{Bundle, Costs, Outcome, log_of};
use crate::fault::Fault;

/// Refuses outcomes that the chain tells otherwise.
pub(super) fn check(bundle: &Bundle, events: &[Event]) -> Result<(), Fault> {
    super::ascending("outcomes", bundle.outcomes.iter().map(|outcome| (outcome.seq, outcome.undo)))?;
    for outcome in &bundle.outcomes {
        told(outcome, events)?;
    }
    // Each outcome has an event of its own, so as many of the one as of the other leave none out.
    let (told, found) =
        (events.iter().filter(|event| ending(event).is_some()).count(), bundle.outcomes.len());
    if told != found {
        return Err(Fault::Outcomes { told, found });
    }
    Ok(())
}

/// Refuses sums that do not follow from the outcomes.
pub(super) fn check_sums(bundle: &Bundle) -> Result<(), Fault> {
    if bundle.costs != Costs::of(&bundle.steps, &bundle.outcomes, &bundle.receipts) {
        return Err(Fault::Costs);
    }
    if bundle.compensations == log_of(bundle) { Ok(()) } else { Err(Fault::Compensations) }
}

/// How the event ends a step, if it leaves a record of that.
fn ending(event: &Event) -> Option<StepStatus> {
    let to = event.step.as_ref()?.to;
    matches!(to, StepStatus::Succeeded | StepStatus::FailedTerminal | StepStatus::RolledBack).then_some(to)
}

fn told(outcome: &Outcome, events: &[Event]) -> Result<(), Fault> {
    let differs = |what| Fault::Outcome { what, seq: outcome.seq.0 };
    let index = usize::try_from(outcome.event).unwrap_or(usize::MAX);
    let event = events.get(index).ok_or_else(|| differs("event"))?;
    let Told { output, receipt, cost } = Told::by(event);
    let facts = [
        ("event", event.seq == outcome.seq && event.undo == outcome.undo),
        ("status", ending(event) == Some(outcome.status)),
        ("output", output == outcome.output),
        ("receipt", receipt == outcome.receipt.as_ref()),
        ("cost", cost == (outcome.cost_microusd, outcome.usage.as_ref())),
    ];
    super::all(&facts, differs)
}

/// What an event tells of the step it ends.
struct Told<'a> {
    output: Option<Fingerprint>,
    receipt: Option<&'a IdempotencyKey>,
    /// What it cost and what for.
    cost: (u64, Option<&'a Usage>),
}

impl<'a> Told<'a> {
    fn by(event: &'a Event) -> Self {
        let free = |output| Self { output, receipt: None, cost: (0, None) };
        match &event.body {
            EventBody::StepSucceeded { output, receipt, cost_microusd, usage, .. }
            | EventBody::StepRolledBack { output, receipt, cost_microusd, usage, .. } => Self {
                output: Some(*output),
                receipt: receipt.as_ref().map(|receipt| &receipt.key),
                cost: (*cost_microusd, usage.as_ref()),
            },
            EventBody::EventDelivered { payload, .. } => free(Some(*payload)),
            // What these give is made of what the event says.
            EventBody::ApprovalVoted { vote, .. } if vote.approve => free(Some(Fingerprint::of(
                &json!({ "approved": true, "by": vote.person, "reason": vote.reason }),
            ))),
            EventBody::TimedOut { .. } if ending(event) == Some(StepStatus::Succeeded) => {
                free(Some(Fingerprint::of(&json!({ "timed_out": true }))))
            }
            _ => free(None),
        }
    }
}
