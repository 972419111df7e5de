//! How a step ends, and what that does to its run. Shared by the commands that end steps.

use crate::draft::Draft;
use crate::event::{Attempt, EventBody, ReceiptRef};
use crate::failure::Failure;
use crate::id::StepSeq;
use crate::machine::{RunMove, RunStatus, StepMove, StepStatus};
use crate::payload::{Fingerprint, Payload};
use crate::record::{Intent, Lease, Live, Request, Rollback, RollbackEnds, StepRecord, Usage};
use crate::refusal::Refusal;

use super::govern;

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
    pub(super) usage: Option<Usage>,
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
        usage: success.usage.clone(),
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
    if success.acted && success.receipt.is_some() {
        draft.record.effects.done += 1;
        draft.record.acted.add(seq);
    }
    draft.record.cost_microusd = draft.record.cost_microusd.saturating_add(success.cost_microusd);
    let last = draft.plan.step(seq.next()).is_none();
    let undo_it = draft.record.acted.has(seq) && draft.step()?.rollback.is_some();

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
        usage: success.usage,
    }
}

fn follow(draft: &mut Draft<'_>, seq: StepSeq, last: bool, undo_it: bool) -> Result<Advanced, Refusal> {
    match draft.record.cancel.clone() {
        // After the intent a request to stop means: finish, then take back.
        Some(request) if undo_it => {
            start_rollback(
                draft,
                seq,
                Rollback { floor: seq, reason: request.reason, ends: RollbackEnds::Canceled },
            )?;
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

/// Begins to take back, from `from` down.
pub(super) fn start_rollback(
    draft: &mut Draft<'_>,
    from: StepSeq,
    rollback: Rollback,
) -> Result<(), Refusal> {
    govern::withdraw_live(draft, "the run is rolled back")?;
    draft.record.effects.unknown += u32::from(draft.record.live.leaves_unknown());
    draft.move_run(RunMove::RollBack)?;
    draft.record_event(EventBody::RollbackStarted { from, reason: rollback.reason.clone() });
    draft.record.rollback = Some(rollback);
    draft.record.pause = None;
    draft.record.at = from;
    draft.record.live = Live::FRESH;
    Ok(())
}

/// The newest step before `below`, and not before `floor`, that this run acted in and that says how it is
/// taken back. An effect that was found done is somebody else's.
pub(super) fn undo_before(draft: &Draft<'_>, below: StepSeq, floor: StepSeq) -> Option<StepSeq> {
    (floor.0..below.0).rev().map(StepSeq).find(|seq| {
        draft.record.acted.has(*seq) && draft.plan.step(*seq).is_some_and(|step| step.rollback.is_some())
    })
}

fn rolled_back(draft: &mut Draft<'_>, success: Success) -> Result<Advanced, Refusal> {
    let seq = draft.record.at;
    draft.move_step(StepMove::Succeed, Live::Over { status: StepStatus::Succeeded })?;
    let to = StepStatus::Succeeded.after(StepMove::RollBack)?;
    draft.note_step(seq, StepStatus::Succeeded, to);
    draft.record.cost_microusd = draft.record.cost_microusd.saturating_add(success.cost_microusd);
    draft.record.effects.undone += u32::from(success.acted && success.receipt.is_some());
    let event = draft.record_event(EventBody::StepRolledBack {
        attempt: success.attempt.clone(),
        receipt: success.receipt.clone(),
        output: success.fingerprint,
        cost_microusd: success.cost_microusd,
        usage: success.usage.clone(),
    });
    draft.steps.push(step_record(draft, seq, event, success));
    continue_rollback(draft, seq)
}

fn continue_rollback(draft: &mut Draft<'_>, seq: StepSeq) -> Result<Advanced, Refusal> {
    let Some(rollback) = draft.record.rollback.clone() else {
        return Err(Refusal::NothingToRollBack);
    };
    match undo_before(draft, seq, rollback.floor) {
        Some(before) => {
            draft.move_run(RunMove::Continue)?;
            draft.record.at = before;
            draft.record.live = Live::FRESH;
            match draft.record.pause.clone() {
                Some(request) => pause_run(draft, request),
                None => Ok(Advanced::Ready),
            }
        }
        None if rollback.ends == RollbackEnds::Failed => end_failed(draft, rollback.reason),
        None => cancel_run(draft, rollback.reason),
    }
}

/// Everything that could be taken back is; the run failed all the same.
fn end_failed(draft: &mut Draft<'_>, reason: String) -> Result<Advanced, Refusal> {
    draft.record.live = Live::Over { status: StepStatus::Succeeded };
    draft.move_run(RunMove::Fail)?;
    let effects = draft.record.effects;
    draft.record_event(EventBody::RunFailed { reason, effects });
    Ok(Advanced::Over(draft.record.status))
}

/// The current step failed for good.
pub(super) fn fail_step(draft: &mut Draft<'_>, failure: Failure) -> Result<Advanced, Refusal> {
    let number = draft.record.live.attempt();
    let body = EventBody::StepFailed { number, failure: failure.clone() };
    if draft.record.is_undoing() {
        return pause_step(draft, failure, None);
    }
    fail_run(draft, &failure, body)
}

/// The current step failed for good; `body` is how the chain tells it. An undoing that fails asks an
/// operator instead: the effect stands, and somebody must know.
pub(super) fn fail_with(
    draft: &mut Draft<'_>,
    failure: Failure,
    body: EventBody,
) -> Result<Advanced, Refusal> {
    if draft.record.is_undoing() {
        draft.record_event(body);
        let open = draft.record.live.open().cloned();
        return pause_step(draft, failure, open);
    }
    fail_run(draft, &failure, body)
}

/// The current step fails, and with it the run, once everything it did that says how is taken back.
pub(super) fn fail_run(
    draft: &mut Draft<'_>,
    failure: &Failure,
    body: EventBody,
) -> Result<Advanced, Refusal> {
    let seq = draft.record.at;
    govern::withdraw_live(draft, "the step has failed")?;
    draft.record.effects.unknown += u32::from(draft.record.live.leaves_unknown());
    draft.move_step(StepMove::Fail, Live::Over { status: StepStatus::FailedTerminal })?;
    let back = undo_before(draft, seq, StepSeq(0));
    if back.is_none() {
        draft.move_run(RunMove::Fail)?;
    }
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
        usage: None,
    });
    let Some(from) = back else { return Ok(Advanced::Over(draft.record.status)) };
    let reason = format!("{}: {}", failure.code, failure.message);
    start_rollback(draft, from, Rollback { floor: StepSeq(0), reason, ends: RollbackEnds::Failed })?;
    Ok(Advanced::Ready)
}

/// Stops the run where it stands.
pub(super) fn cancel_run(draft: &mut Draft<'_>, reason: String) -> Result<Advanced, Refusal> {
    govern::withdraw_live(draft, "the run was stopped")?;
    draft.record.effects.unknown += u32::from(draft.record.live.leaves_unknown());
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
    match draft.record.live.clone() {
        // Nobody answers for a run that stands still; it asks again when it goes on.
        Live::WaitingApproval { approval, attempt, open, .. } => {
            govern::withdraw(draft, &approval, "the run was paused")?;
            draft.move_step(StepMove::Reopen, Live::Ready { attempt, authorised: open, approved: None })?;
        }
        // An event that comes meanwhile is kept. The wait opens anew when the run goes on, with all of its time.
        Live::WaitingEvent { .. } => draft.move_step(StepMove::Reopen, Live::FRESH)?,
        Live::Ready { .. }
        | Live::Running(_)
        | Live::Retrying { .. }
        | Live::Unresolved { .. }
        | Live::Over { .. } => {}
    }
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
pub(super) fn pause_step(
    draft: &mut Draft<'_>,
    failure: Failure,
    open: Option<Intent>,
) -> Result<Advanced, Refusal> {
    govern::withdraw_live(draft, "the step cannot go on")?;
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
