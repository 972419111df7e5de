//! How a step ends, and what that does to its run. Shared by the commands that end steps.

use crate::draft::Draft;
use crate::event::{Attempt, EventBody, ReceiptRef};
use crate::failure::Failure;
use crate::id::StepSeq;
use crate::machine::{RunMove, RunStatus, StepMove, StepStatus};
use crate::payload::{Fingerprint, Payload};
use crate::record::{Intent, Lease, Live, Request, Rollback, StepRecord};
use crate::refusal::Refusal;

/// What follows the end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advanced {
    /// Another step, or another undoing, is ready.
    Ready,
    /// The run is over.
    Over(RunStatus),
    /// The run waits for an operator.
    Paused,
}

/// What a step gave.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Success {
    pub(super) output: Payload,
    pub(super) fingerprint: Fingerprint,
    pub(super) attempt: Option<Attempt>,
    pub(super) receipt: Option<ReceiptRef>,
    /// Whether the effect is this run's own, rather than found in an earlier receipt.
    pub(super) acted: bool,
    pub(super) cost_microusd: u64,
}

/// A tool call, or the undoing of one, succeeded.
pub(super) fn succeed(draft: &mut Draft<'_>, success: Success) -> Result<Advanced, Refusal> {
    if draft.record.is_undoing() {
        return rolled_back(draft, success);
    }
    // A call without an effect can be thrown away, so a request to stop is honoured; an effect cannot.
    if let (Some(request), None) = (draft.record.cancel.clone(), &success.receipt) {
        return cancel_run(draft, request.reason);
    }
    let body = EventBody::StepSucceeded {
        attempt: success.attempt.clone(),
        output: success.fingerprint,
        receipt: success.receipt.clone(),
        cost_microusd: success.cost_microusd,
    };
    close_step(draft, success, body)
}

/// The current step ends as succeeded, whatever kind of step it is; `body` is how the chain tells it.
pub(super) fn close_step(
    draft: &mut Draft<'_>,
    success: Success,
    body: EventBody,
) -> Result<Advanced, Refusal> {
    let seq = draft.record.at;
    draft.move_step(StepMove::Succeed, Live::Over { status: StepStatus::Succeeded })?;
    draft.record.effects.done += u32::from(success.acted && success.receipt.is_some());
    draft.record.cost_microusd = draft.record.cost_microusd.saturating_add(success.cost_microusd);
    let last = draft.plan.step(seq.next()).is_none();
    let undo_it = success.receipt.is_some() && draft.step()?.rollback.is_some();

    // The step's own event also tells what the run does, unless a request decides that.
    match (&draft.record.cancel, last) {
        (Some(_), _) if undo_it => {}
        (_, true) => draft.move_run(RunMove::Complete)?,
        (Some(_), false) => {}
        (None, false) => draft.move_run(RunMove::Continue)?,
    }
    let event = draft.record_event(body);
    draft.steps.push(step_record(draft, seq, event, success));
    follow(draft, seq, last, undo_it)
}

fn step_record(draft: &Draft<'_>, seq: StepSeq, event: u32, success: Success) -> StepRecord {
    StepRecord {
        seq,
        undo: draft.record.is_undoing(),
        status: if draft.record.is_undoing() { StepStatus::RolledBack } else { StepStatus::Succeeded },
        event,
        op: draft.stamp.op.clone(),
        output: Some(success.output),
        fingerprint: Some(success.fingerprint),
        receipt: success.receipt.map(|receipt| receipt.key),
        cost_microusd: success.cost_microusd,
    }
}

fn follow(draft: &mut Draft<'_>, seq: StepSeq, last: bool, undo_it: bool) -> Result<Advanced, Refusal> {
    match draft.record.cancel.clone() {
        // After the intent a request to stop means: finish, then take back.
        Some(request) if undo_it => {
            start_rollback(draft, seq, seq, request.reason)?;
            return Ok(Advanced::Ready);
        }
        Some(request) if !last => {
            draft.record.at = seq.next();
            draft.record.live = Live::FRESH;
            return cancel_run(draft, request.reason);
        }
        // Everything is done and nothing can be taken back: the request came too late.
        Some(_) | None => {}
    }
    if last {
        return Ok(Advanced::Over(draft.record.status));
    }
    draft.record.at = seq.next();
    draft.record.live = Live::FRESH;
    match draft.record.pause.clone() {
        Some(request) => pause_run(draft, request),
        None => Ok(Advanced::Ready),
    }
}

/// Begins to take back, from `from` down to `floor`.
pub(super) fn start_rollback(
    draft: &mut Draft<'_>,
    from: StepSeq,
    floor: StepSeq,
    reason: String,
) -> Result<(), Refusal> {
    draft.record.effects.unknown += u32::from(draft.record.live.open().is_some());
    draft.move_run(RunMove::RollBack)?;
    draft.record_event(EventBody::RollbackStarted { from, reason: reason.clone() });
    draft.record.rollback = Some(Rollback { floor, reason });
    draft.record.pause = None;
    draft.record.at = from;
    draft.record.live = Live::FRESH;
    Ok(())
}

fn rolled_back(draft: &mut Draft<'_>, success: Success) -> Result<Advanced, Refusal> {
    let seq = draft.record.at;
    draft.move_step(StepMove::Succeed, Live::Over { status: StepStatus::Succeeded })?;
    let to = StepStatus::Succeeded.after(StepMove::RollBack)?;
    draft.note_step(seq, StepStatus::Succeeded, to);
    draft.record.effects.undone += u32::from(success.acted && success.receipt.is_some());
    let event = draft.record_event(EventBody::StepRolledBack {
        attempt: success.attempt.clone(),
        receipt: success.receipt.clone(),
        output: success.fingerprint,
    });
    draft.steps.push(step_record(draft, seq, event, success));
    continue_rollback(draft, seq)
}

fn continue_rollback(draft: &mut Draft<'_>, seq: StepSeq) -> Result<Advanced, Refusal> {
    let Some(rollback) = draft.record.rollback.clone() else {
        return Err(Refusal::NothingToRollBack);
    };
    match draft.plan.undo_before(seq, rollback.floor) {
        Some(before) => {
            draft.move_run(RunMove::Continue)?;
            draft.record.at = before;
            draft.record.live = Live::FRESH;
            Ok(Advanced::Ready)
        }
        None => cancel_run(draft, rollback.reason),
    }
}

/// The current step failed for good. An undoing that fails asks an operator instead: the effect stands,
/// and somebody must know.
pub(super) fn fail_step(draft: &mut Draft<'_>, failure: Failure) -> Result<Advanced, Refusal> {
    let number = draft.record.live.attempt();
    if draft.record.is_undoing() {
        return pause_step(draft, failure, None);
    }
    let body = EventBody::StepFailed { number, failure };
    fail_run(draft, body)
}

/// The current step and its run fail; `body` is how the chain tells it.
pub(super) fn fail_run(draft: &mut Draft<'_>, body: EventBody) -> Result<Advanced, Refusal> {
    let seq = draft.record.at;
    draft.move_step(StepMove::Fail, Live::Over { status: StepStatus::FailedTerminal })?;
    draft.move_run(RunMove::Fail)?;
    let event = draft.record_event(body);
    draft.steps.push(StepRecord {
        seq,
        undo: false,
        status: StepStatus::FailedTerminal,
        event,
        op: draft.stamp.op.clone(),
        output: None,
        fingerprint: None,
        receipt: None,
        cost_microusd: 0,
    });
    Ok(Advanced::Over(draft.record.status))
}

/// Stops the run where it stands.
pub(super) fn cancel_run(draft: &mut Draft<'_>, reason: String) -> Result<Advanced, Refusal> {
    draft.record.effects.unknown += u32::from(draft.record.live.open().is_some());
    if draft.record.is_undoing() {
        draft.record.live = Live::Over { status: StepStatus::Succeeded };
    } else if !draft.record.live.status().is_over() {
        draft.move_step(StepMove::Cancel, Live::Over { status: StepStatus::Canceled })?;
    }
    draft.move_run(RunMove::Cancel)?;
    let effects = draft.record.effects;
    draft.record_event(EventBody::RunCanceled { reason, effects });
    Ok(Advanced::Over(draft.record.status))
}

/// Puts the run before an operator.
pub(super) fn pause_run(draft: &mut Draft<'_>, request: Request) -> Result<Advanced, Refusal> {
    draft.move_run(RunMove::Pause)?;
    draft.record_event(EventBody::RunPaused { reason: request.reason.clone() });
    draft.record.pause = Some(request);
    Ok(Advanced::Paused)
}

/// Nobody knows whether the effect happened: a person decides.
pub(super) fn pause_unresolved(draft: &mut Draft<'_>, failure: Failure) -> Result<Advanced, Refusal> {
    let open = match &draft.record.live {
        Live::Running(Lease { intent, .. }) => intent.clone(),
        live => live.open().cloned(),
    };
    pause_step(draft, failure, open)
}

/// The current step waits for a person, with the effect that nobody can account for, if there is one.
fn pause_step(draft: &mut Draft<'_>, failure: Failure, open: Option<Intent>) -> Result<Advanced, Refusal> {
    let attempt = draft.record.live.attempt();
    let reason = format!("{}: {}", failure.code, failure.message);
    let live = Live::Unresolved { attempt, failure: failure.clone(), open: open.clone() };
    draft.move_step(StepMove::Retry, live)?;
    draft.move_run(RunMove::Pause)?;
    let body = match open {
        Some(intent) => EventBody::OutcomeUnknown {
            receipt: ReceiptRef { key: intent.key, action: intent.action },
            failure,
        },
        None => EventBody::RunPaused { reason: reason.clone() },
    };
    draft.record_event(body);
    draft.record.pause = Some(Request { by: draft.stamp.by.id.clone(), reason, at: draft.stamp.now });
    Ok(Advanced::Paused)
}

/// How a held step was worked on, for the chain.
pub(super) fn attempt_of(lease: &Lease) -> Attempt {
    Attempt { number: lease.attempt, worker: lease.owner.clone(), fence: lease.fence, since: lease.since }
}
