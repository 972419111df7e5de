//! Compares the run record with the chain.

use domain::{Event, EventBody, RunId, RunStatus, StepStatus};

use super::machine::Replay;
use crate::bundle::{BundleRun, EvidenceBundle};
use crate::error::VerifyError;

pub(super) fn check(
    bundle: &EvidenceBundle,
    events: &[Event],
    replay: &Replay<'_>,
) -> Result<(), VerifyError> {
    let run = &bundle.run;
    check_admission(run, events)?;
    check_end(run, events, replay)?;
    check_steps(bundle, replay)
}

fn check_admission(run: &BundleRun, events: &[Event]) -> Result<(), VerifyError> {
    let Some(Event { at, body: EventBody::RunAdmitted { workflow, version, plan, trigger, .. }, .. }) =
        events.first()
    else {
        return Err(VerifyError::Admission { n: 0 });
    };
    let conditions = [
        ("id", run.run == RunId::derive(&run.tenant, &run.trigger.reference)),
        ("workflow", run.workflow == *workflow && run.version == *version),
        ("plan", run.plan == *plan),
        ("trigger", run.trigger == *trigger),
        ("admission time", run.created_at == *at),
    ];
    super::check_all(&conditions, |what| VerifyError::Run { what })
}

fn check_end(run: &BundleRun, events: &[Event], replay: &Replay<'_>) -> Result<(), VerifyError> {
    if !run.status.is_terminal() {
        return Err(VerifyError::NotFinished { status: run.status });
    }
    let is_resume =
        |event: &&Event| matches!(event.body, EventBody::LeaseExpired { .. } | EventBody::RunResumed { .. });
    let resumes = events.iter().filter(is_resume).count();
    let conditions = [
        ("status", replay.run == Some(run.status)),
        ("completion time", events.last().is_some_and(|event| event.at == run.completed_at)),
        ("duration", run.duration_ms == run.completed_at - run.created_at),
        ("number of resumes", usize::try_from(run.resumes) == Ok(resumes)),
    ];
    super::check_all(&conditions, |what| VerifyError::Run { what })
}

/// A run succeeded if and only if all steps succeeded, and failed only if a step failed.
fn check_steps(bundle: &EvidenceBundle, replay: &Replay<'_>) -> Result<(), VerifyError> {
    let mut steps = bundle.steps.iter().zip(&replay.steps);
    match bundle.run.status {
        RunStatus::Succeeded => match steps.find(|(_, status)| **status != StepStatus::Succeeded) {
            Some((step, status)) => Err(VerifyError::NotSucceeded { step: step.id.clone(), status: *status }),
            None => Ok(()),
        },
        RunStatus::FailedTerminal if !replay.steps.contains(&StepStatus::FailedTerminal) => {
            Err(VerifyError::NotFailed)
        }
        _ => Ok(()),
    }
}
