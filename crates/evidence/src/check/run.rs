//! The run as the bundle describes it, held against the chain.

use domain::{Event, EventBody, RunId, RunStatus, StepStatus};

use super::machine::Stand;
use crate::bundle::{Bundle, Run};
use crate::fault::Fault;

/// Refuses a run that the chain tells otherwise.
pub(super) fn check(bundle: &Bundle, events: &[Event], stand: &Stand<'_>) -> Result<(), Fault> {
    let run = &bundle.run;
    admitted(run, events)?;
    ended(run, events, stand)?;
    steps_ended(bundle, stand)
}

fn admitted(run: &Run, events: &[Event]) -> Result<(), Fault> {
    let Some(Event { at, body: EventBody::RunAdmitted { workflow, version, plan, trigger, .. }, .. }) =
        events.first()
    else {
        return Err(Fault::Admission { n: 0 });
    };
    let facts = [
        ("id", run.run == RunId::derive(&run.tenant, &run.trigger.reference)),
        ("workflow", run.workflow == *workflow && run.version == *version),
        ("plan", run.plan == *plan),
        ("trigger", run.trigger == *trigger),
        ("time of admission", run.created_at == *at),
    ];
    super::all(&facts, |what| Fault::Run { what })
}

fn ended(run: &Run, events: &[Event], stand: &Stand<'_>) -> Result<(), Fault> {
    if !run.status.is_terminal() {
        return Err(Fault::NotOver { status: run.status });
    }
    let again =
        |event: &&Event| matches!(event.body, EventBody::LeaseExpired { .. } | EventBody::RunResumed { .. });
    let resumes = events.iter().filter(again).count();
    let facts = [
        ("status", stand.run == Some(run.status)),
        ("time of completion", events.last().is_some_and(|event| event.at == run.completed_at)),
        ("duration", run.duration_ms == run.completed_at - run.created_at),
        ("count of resumptions", usize::try_from(run.resumes) == Ok(resumes)),
    ];
    super::all(&facts, |what| Fault::Run { what })
}

/// A run succeeded if and only if all of its steps did, and failed only if one of them did.
fn steps_ended(bundle: &Bundle, stand: &Stand<'_>) -> Result<(), Fault> {
    let mut steps = bundle.steps.iter().zip(&stand.steps);
    match bundle.run.status {
        RunStatus::Succeeded => match steps.find(|(_, status)| **status != StepStatus::Succeeded) {
            Some((step, status)) => Err(Fault::NotSucceeded { step: step.id.clone(), status: *status }),
            None => Ok(()),
        },
        RunStatus::FailedTerminal if !stand.steps.contains(&StepStatus::FailedTerminal) => {
            Err(Fault::NotFailed)
        }
        _ => Ok(()),
    }
}
