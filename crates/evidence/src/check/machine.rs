//! Replays the chain through the state machines of the run and the step.
//!
//! Two transitions have no event of their own: a step becomes ready when the previous step succeeds, and a worker claims
//! it. Every other transition must start at the current status.

use domain::event::{RunStatusChange, StepStatusChange};
use domain::machine::{RunTransition, StepTransition};
use domain::{ApprovalStatus, Event, EventBody, Fence, RunStatus, StepSeq, StepStatus};

use crate::bundle::{BundleStep, BundleStepKind};
use crate::error::VerifyError;

/// The state of the run and its steps after some events.
pub(super) struct Replay<'a> {
    plan: &'a [BundleStep],
    /// Absent before admission.
    pub(super) run: Option<RunStatus>,
    pub(super) steps: Vec<StepStatus>,
    /// Whether a rollback is in progress.
    undoing: bool,
    /// The fence of the last intent.
    fence: Fence,
}

/// Replays all `events`.
pub(super) fn replay<'a>(plan: &'a [BundleStep], events: &[Event]) -> Result<Replay<'a>, VerifyError> {
    let mut replay = Replay {
        plan,
        run: None,
        steps: vec![StepStatus::Pending; plan.len()],
        undoing: false,
        fence: Fence(0),
    };
    for event in events {
        replay.apply(event)?;
    }
    Ok(replay)
}

impl Replay<'_> {
    fn apply(&mut self, event: &Event) -> Result<(), VerifyError> {
        let n = event.n;
        if self.run.is_some_and(RunStatus::is_terminal) {
            return Err(VerifyError::AfterEnd { n });
        }
        if (n == 0) != matches!(event.body, EventBody::RunAdmitted { .. }) {
            return Err(VerifyError::Admission { n });
        }
        if event.rollback != self.undoing {
            return Err(VerifyError::Direction { n });
        }
        let step = self.plan.get(event.seq.index()).ok_or(VerifyError::OffPlan { n })?;
        self.move_run(event)?;
        self.move_step(event, step)?;
        self.check_lease(event, step)?;
        self.undoing |= matches!(event.body, EventBody::RollbackStarted { .. });
        Ok(())
    }

    fn move_run(&mut self, event: &Event) -> Result<(), VerifyError> {
        let legal = |transition: &RunStatusChange| match (self.run, transition.from) {
            (None, None) => transition.to == RunStatus::Queued,
            (Some(last), Some(from)) => reachable_without_event(last, from) && is_legal(from, transition.to),
            (None, Some(_)) | (Some(_), None) => false,
        };
        match &event.run {
            Some(transition) if legal(transition) => self.run = Some(transition.to),
            Some(transition) => return Err(VerifyError::RunStatusChange { n: event.n, to: transition.to }),
            None if self.run.is_none() => return Err(VerifyError::Admission { n: event.n }),
            None => {}
        }
        Ok(())
    }

    fn move_step(&mut self, event: &Event, step: &BundleStep) -> Result<(), VerifyError> {
        let n = event.n;
        let to = event.step.as_ref().map(|transition| transition.to);
        if !matches_status(&event.body, event.rollback, to, step.kind) {
            return Err(VerifyError::StepEnding { n, step: step.id.clone() });
        }
        let Some(StepStatusChange { seq, id, from, to }) = &event.step else { return Ok(()) };
        if *seq != event.seq || *id != step.id {
            return Err(VerifyError::OffPlan { n });
        }
        let legal = StepTransition::ALL.iter().any(|by| from.after(*by) == Ok(*to));
        if !legal || !self.step_reachable_without_event(*seq, *from) {
            return Err(VerifyError::StepStatusChange { n, step: id.clone(), to: *to });
        }
        self.steps[seq.index()] = *to;
        Ok(())
    }

    /// Checks that a worker can have held the step, or its rollback, at an event that needs a lease.
    fn check_lease(&mut self, event: &Event, step: &BundleStep) -> Result<(), VerifyError> {
        let (EventBody::EffectIntended { fence, .. } | EventBody::LeaseExpired { fence, .. }) = &event.body
        else {
            return Ok(());
        };
        // The current holder has a larger fence than every earlier holder.
        if *fence <= self.fence {
            return Err(VerifyError::Fence { n: event.n });
        }
        if matches!(event.body, EventBody::EffectIntended { .. }) {
            self.fence = *fence;
        }
        // During a rollback, a step stays succeeded until its own effect is undone.
        let (run, at) = if event.rollback {
            (RunStatus::RollingBack, StepStatus::Succeeded)
        } else {
            (RunStatus::Running, StepStatus::Running)
        };
        if !self.run.is_some_and(|last| reachable_without_event(last, run))
            || !self.step_reachable_without_event(event.seq, at)
        {
            return Err(VerifyError::NotHeld { n: event.n, step: step.id.clone() });
        }
        self.run = Some(run);
        self.steps[event.seq.index()] = at;
        Ok(())
    }

    /// Whether the step at `seq` can reach `to` without an event.
    fn step_reachable_without_event(&self, seq: StepSeq, to: StepStatus) -> bool {
        let last = self.steps[seq.index()];
        let earlier_done = self.steps[..seq.index()].iter().all(|step| *step == StepStatus::Succeeded);
        let active = match last {
            StepStatus::Pending if earlier_done => StepStatus::Ready,
            last => last,
        };
        let call = self.plan[seq.index()].kind == BundleStepKind::Call;
        let claimed = call && active.after(StepTransition::Claim) == Ok(to);
        to == last || (!self.undoing && (to == active || claimed))
    }
}

/// Whether a run can get from `last` to `to` without an event.
fn reachable_without_event(last: RunStatus, to: RunStatus) -> bool {
    to == last || last.after(RunTransition::Claim) == Ok(to)
}

/// Whether one event can lead from `from` to `to`: by one transition, or by a claim and one transition if the step ends
/// in the commit that claims it.
fn is_legal(from: RunStatus, to: RunStatus) -> bool {
    let claimed = from.after(RunTransition::Claim).ok();
    let mut starts = std::iter::once(from).chain(claimed);
    starts.any(|start| RunTransition::ALL.iter().any(|by| start.after(*by) == Ok(to)))
}

/// Whether the event can leave a step of this kind in status `to`, or unchanged if there is none.
fn matches_status(body: &EventBody, rollback: bool, to: Option<StepStatus>, kind: BundleStepKind) -> bool {
    match to {
        Some(to) => can_lead_to(body, rollback, to, kind),
        None => !always_ends_step(body, rollback),
    }
}

/// Whether the event always ends a step.
fn always_ends_step(body: &EventBody, rollback: bool) -> bool {
    use EventBody as B;
    match body {
        B::StepSucceeded { .. } | B::StepRolledBack { .. } | B::StepFailed { .. } => true,
        // A denied rollback waits for an operator.
        B::ActionDenied { .. } => !rollback,
        _ => false,
    }
}

/// Whether the event can change a step of this kind to `to`.
fn can_lead_to(body: &EventBody, rollback: bool, to: StepStatus, kind: BundleStepKind) -> bool {
    use EventBody as B;
    use StepStatus as S;
    match to {
        // The initial status.
        S::Pending => false,
        S::Ready => matches!(body, B::ApprovalVoted { .. } | B::RunPaused { .. } | B::RunResumed { .. }),
        S::Running => matches!(body, B::EffectIntended { .. }),
        S::WaitingApproval => matches!(body, B::ApprovalRequested { .. }),
        S::WaitingEvent => matches!(body, B::WaitOpened { .. }),
        S::FailedRetryable => {
            matches!(body, B::AttemptFailed { .. } | B::OutcomeUnknown { .. } | B::RunPaused { .. })
        }
        S::Succeeded => can_succeed(body, kind),
        S::FailedTerminal => can_fail(body),
        S::Canceled => matches!(body, B::RunCanceled { .. }),
        S::RolledBack => rollback && matches!(body, B::StepRolledBack { .. }),
    }
}

/// Whether the event can be the success of a step of this kind. Only an approval completes a gate.
fn can_succeed(body: &EventBody, kind: BundleStepKind) -> bool {
    use EventBody as B;
    match kind {
        BundleStepKind::Call => matches!(body, B::StepSucceeded { .. }),
        BundleStepKind::Wait => matches!(body, B::EventDelivered { .. } | B::TimedOut { .. }),
        BundleStepKind::Gate => matches!(body, B::ApprovalVoted { status: ApprovalStatus::Approved, .. }),
    }
}

fn can_fail(body: &EventBody) -> bool {
    use EventBody as B;
    match body {
        B::StepFailed { .. } | B::ActionDenied { .. } | B::ApprovalExpired { .. } | B::TimedOut { .. } => {
            true
        }
        B::ApprovalVoted { status, .. } => *status == ApprovalStatus::Rejected,
        _ => false,
    }
}
