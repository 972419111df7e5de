//! The story that the chain tells, held against the tables of the run and the step.
//!
//! Two moves make no event of their own, because nobody need know of them before something comes of them:
//! a step becomes ready when the one before it succeeded, and a worker takes it. Whatever else an event
//! says, it must begin where the story stood.

use domain::event::{RunTransition, StepTransition};
use domain::machine::{RunMove, StepMove};
use domain::{ApprovalStatus, Event, EventBody, Fence, RunStatus, StepSeq, StepStatus};

use crate::bundle::{Kind, Step};
use crate::fault::Fault;

/// Where the story stands.
pub(super) struct Stand<'a> {
    plan: &'a [Step],
    /// Absent before the admission.
    pub(super) run: Option<RunStatus>,
    /// The status of each step, as far as events tell.
    pub(super) steps: Vec<StepStatus>,
    /// Whether effects are being taken back.
    undoing: bool,
    /// The fence of the newest intent.
    fence: Fence,
}

/// Where the story ends, if it could happen.
pub(super) fn walk<'a>(plan: &'a [Step], events: &[Event]) -> Result<Stand<'a>, Fault> {
    let mut stand = Stand {
        plan,
        run: None,
        steps: vec![StepStatus::Pending; plan.len()],
        undoing: false,
        fence: Fence(0),
    };
    for event in events {
        stand.follow(event)?;
    }
    Ok(stand)
}

impl Stand<'_> {
    fn follow(&mut self, event: &Event) -> Result<(), Fault> {
        let n = event.n;
        if self.run.is_some_and(RunStatus::is_terminal) {
            return Err(Fault::AfterEnd { n });
        }
        if (n == 0) != matches!(event.body, EventBody::RunAdmitted { .. }) {
            return Err(Fault::Admission { n });
        }
        if event.undo != self.undoing {
            return Err(Fault::TakingBack { n });
        }
        let step = self.plan.get(event.seq.index()).ok_or(Fault::OffPlan { n })?;
        self.move_run(event)?;
        self.move_step(event, step)?;
        self.hold(event, step)?;
        self.undoing |= matches!(event.body, EventBody::RollbackStarted { .. });
        Ok(())
    }

    fn move_run(&mut self, event: &Event) -> Result<(), Fault> {
        let fits = |transition: &RunTransition| match (self.run, transition.from) {
            (None, None) => transition.to == RunStatus::Queued,
            (Some(last), Some(from)) => quietly(last, from) && leads(from, transition.to),
            (None, Some(_)) | (Some(_), None) => false,
        };
        match &event.run {
            Some(transition) if fits(transition) => self.run = Some(transition.to),
            Some(transition) => return Err(Fault::RunTransition { n: event.n, to: transition.to }),
            None if self.run.is_none() => return Err(Fault::Admission { n: event.n }),
            None => {}
        }
        Ok(())
    }

    fn move_step(&mut self, event: &Event, step: &Step) -> Result<(), Fault> {
        let n = event.n;
        let to = event.step.as_ref().map(|transition| transition.to);
        if !fits(&event.body, event.undo, to, step.kind) {
            return Err(Fault::StepEnding { n, step: step.id.clone() });
        }
        let Some(StepTransition { seq, id, from, to }) = &event.step else { return Ok(()) };
        if *seq != event.seq || *id != step.id {
            return Err(Fault::OffPlan { n });
        }
        let legal = StepMove::ALL.iter().any(|by| from.after(*by) == Ok(*to));
        if !legal || !self.step_quietly(*seq, *from) {
            return Err(Fault::StepTransition { n, step: id.clone(), to: *to });
        }
        self.steps[seq.index()] = *to;
        Ok(())
    }

    /// What only a holder brings about is refused where nobody can have held the step, or its undoing.
    fn hold(&mut self, event: &Event, step: &Step) -> Result<(), Fault> {
        let (EventBody::EffectIntended { fence, .. } | EventBody::LeaseExpired { fence, .. }) = &event.body
        else {
            return Ok(());
        };
        // Whoever holds the step now holds it under a larger fence than anybody who acted before.
        if *fence <= self.fence {
            return Err(Fault::Fence { n: event.n });
        }
        if matches!(event.body, EventBody::EffectIntended { .. }) {
            self.fence = *fence;
        }
        // While effects are taken back, a step stays succeeded until its own is.
        let (run, at) = if event.undo {
            (RunStatus::RollingBack, StepStatus::Succeeded)
        } else {
            (RunStatus::Running, StepStatus::Running)
        };
        if !self.run.is_some_and(|last| quietly(last, run)) || !self.step_quietly(event.seq, at) {
            return Err(Fault::NotHeld { n: event.n, step: step.id.clone() });
        }
        self.run = Some(run);
        self.steps[event.seq.index()] = at;
        Ok(())
    }

    /// Whether the step at `seq` can have come to `to` without an event.
    fn step_quietly(&self, seq: StepSeq, to: StepStatus) -> bool {
        let last = self.steps[seq.index()];
        let earlier_done = self.steps[..seq.index()].iter().all(|step| *step == StepStatus::Succeeded);
        let active = match last {
            StepStatus::Pending if earlier_done => StepStatus::Ready,
            last => last,
        };
        let call = self.plan[seq.index()].kind == Kind::Call;
        let claimed = call && active.after(StepMove::Claim) == Ok(to);
        to == last || (!self.undoing && (to == active || claimed))
    }
}

/// Whether a run can have come from `last` to `to` without an event.
fn quietly(last: RunStatus, to: RunStatus) -> bool {
    to == last || last.after(RunMove::Claim) == Ok(to)
}

/// Whether one event can lead from `from` to `to`: by one move, or, where a step ends in the same commit
/// that takes it up, by one more.
fn leads(from: RunStatus, to: RunStatus) -> bool {
    let taken_up = from.after(RunMove::Claim).ok();
    let mut begins = std::iter::once(from).chain(taken_up);
    begins.any(|begin| RunMove::ALL.iter().any(|by| begin.after(*by) == Ok(to)))
}

/// Whether what happened can leave a step of this kind there, or where it was.
fn fits(body: &EventBody, undo: bool, to: Option<StepStatus>, kind: Kind) -> bool {
    match to {
        Some(to) => leaves(body, undo, to, kind),
        None => !ends(body, undo),
    }
}

/// Whether what happened always ends a step.
fn ends(body: &EventBody, undo: bool) -> bool {
    use EventBody as B;
    match body {
        B::StepSucceeded { .. } | B::StepRolledBack { .. } | B::StepFailed { .. } => true,
        // An undoing that is denied waits for an operator.
        B::ActionDenied { .. } => !undo,
        _ => false,
    }
}

/// Whether what happened can leave a step of this kind at `to`.
fn leaves(body: &EventBody, undo: bool, to: StepStatus, kind: Kind) -> bool {
    use EventBody as B;
    use StepStatus as S;
    match to {
        // That is where it was before anything happened to it.
        S::Pending => false,
        S::Ready => matches!(body, B::ApprovalVoted { .. } | B::RunPaused { .. } | B::RunResumed { .. }),
        S::Running => matches!(body, B::EffectIntended { .. }),
        S::WaitingApproval => matches!(body, B::ApprovalRequested { .. }),
        S::WaitingEvent => matches!(body, B::WaitOpened { .. }),
        S::FailedRetryable => {
            matches!(body, B::AttemptFailed { .. } | B::OutcomeUnknown { .. } | B::RunPaused { .. })
        }
        S::Succeeded => succeeds(body, kind),
        S::FailedTerminal => fails(body),
        S::Canceled => matches!(body, B::RunCanceled { .. }),
        S::RolledBack => undo && matches!(body, B::StepRolledBack { .. }),
    }
}

/// Whether what happened can be the success of a step of this kind: nobody but people opens a gate.
fn succeeds(body: &EventBody, kind: Kind) -> bool {
    use EventBody as B;
    match kind {
        Kind::Call => matches!(body, B::StepSucceeded { .. }),
        Kind::Wait => matches!(body, B::EventDelivered { .. } | B::TimedOut { .. }),
        Kind::Gate => matches!(body, B::ApprovalVoted { status: ApprovalStatus::Approved, .. }),
    }
}

fn fails(body: &EventBody) -> bool {
    use EventBody as B;
    match body {
        B::StepFailed { .. } | B::ActionDenied { .. } | B::ApprovalExpired { .. } | B::TimedOut { .. } => {
            true
        }
        B::ApprovalVoted { status, .. } => *status == ApprovalStatus::Rejected,
        _ => false,
    }
}
