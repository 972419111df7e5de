//! How a step ends, and what its run does next. Shared by the commands that end steps.

use crate::draft::Draft;
use crate::effect::Reversibility;
use crate::event::{Attempt, EventBody, ReceiptRef};
use crate::failure::Failure;
use crate::id::StepSeq;
use crate::machine::{RunStatus, RunTransition, StepStatus, StepTransition};
use crate::payload::{Fingerprint, Payload};
use crate::receipt::Receipt;
use crate::record::{
    Charge, Intent, Lease, ModelUsage, OperatorRequest, Rollback, RollbackEnds, StepRecord, StepState,
};
use crate::refusal::Refusal;

use super::govern;

/// The state of the run after a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterStep {
    /// Another step, or the rollback of one, is ready.
    Ready,
    /// The run ended.
    Ended(RunStatus),
    /// The run waits for an operator.
    Paused,
}

/// The effect of a step of this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PerformedEffect {
    /// The step has no effect, or reused the receipt of another run.
    None,
    /// The external system already was in the requested state, so a rollback has nothing to restore.
    Unchanged,
    /// The external system was changed.
    Changed,
}

impl PerformedEffect {
    pub(super) fn of(receipt: &Receipt) -> Self {
        match receipt.reversibility {
            Reversibility::NoEffect => Self::Unchanged,
            Reversibility::Inverse | Reversibility::Compensable | Reversibility::Irreversible(_) => {
                Self::Changed
            }
        }
    }
}

/// The result of a successful step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Success {
    pub(super) output: Payload,
    pub(super) fingerprint: Fingerprint,
    pub(super) attempt: Option<Attempt>,
    pub(super) receipt: Option<ReceiptRef>,
    pub(super) effect: PerformedEffect,
    pub(super) cost_microusd: u64,
    pub(super) usage: Option<ModelUsage>,
}

/// A tool call, or the rollback of one, succeeded.
pub(super) fn succeed(draft: &mut Draft<'_>, success: Success) -> Result<AfterStep, Refusal> {
    if draft.record.is_rolling_back() {
        return close_undo(draft, success);
    }
    // The result of a call without an effect can be discarded, so a request to cancel takes effect here.
    if let (Some(request), None) = (draft.record.cancel.clone(), &success.receipt) {
        let number = draft.record.step_state.attempt();
        charge(draft, number, Some(Charge { cost_microusd: success.cost_microusd, usage: success.usage }));
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

/// Records the cost of an attempt that does not end the step, if it has one.
pub(super) fn charge(draft: &mut Draft<'_>, number: u32, charge: Option<Charge>) {
    let is_metered = |charge: &Charge| charge.cost_microusd > 0 || charge.usage.is_some();
    let Some(Charge { cost_microusd, usage }) = charge.filter(is_metered) else { return };
    draft.record.cost_microusd = draft.record.cost_microusd.saturating_add(cost_microusd);
    draft.record_event(EventBody::AttemptCharged { number, cost_microusd, usage });
}

/// Ends the current step, of any kind, as succeeded, with `body` as its event.
pub(super) fn close_step(
    draft: &mut Draft<'_>,
    success: Success,
    body: EventBody,
) -> Result<AfterStep, Refusal> {
    let seq = draft.record.at;
    forget_rejection(draft);
    draft.move_step(StepTransition::Succeed, StepState::Ended { status: StepStatus::Succeeded })?;
    draft.record.effects.done += u32::from(success.effect != PerformedEffect::None);
    if success.effect == PerformedEffect::Changed {
        draft.record.acted.add(seq);
    }
    draft.record.cost_microusd = draft.record.cost_microusd.saturating_add(success.cost_microusd);
    let last = draft.plan.step(seq.next()).is_none();
    let is_undoable = draft.record.acted.has(seq) && draft.step()?.rollback.is_some();

    // The step's event also carries the run's transition, unless a request to cancel decides it.
    match (&draft.record.cancel, last) {
        (Some(_), _) if is_undoable => {}
        (_, true) => draft.move_run(RunTransition::Complete)?,
        (Some(_), false) => {}
        (None, false) => draft.move_run(RunTransition::Continue)?,
    }
    let event = draft.record_event(body);
    draft.steps.push(step_record(draft, seq, event, success));
    advance_run(draft, seq, last, is_undoable)
}

/// A rejection concerns the step that ended. An undo keeps the rejection: it may come from the undone run,
/// which does not record the step.
fn forget_rejection(draft: &mut Draft<'_>) {
    if draft.record.undone_run().is_none() {
        draft.record.rejected = None;
    }
}

fn step_record(draft: &Draft<'_>, seq: StepSeq, event: u32, success: Success) -> StepRecord {
    StepRecord {
        seq,
        rollback: draft.record.is_rolling_back(),
        status: if draft.record.is_rolling_back() { StepStatus::RolledBack } else { StepStatus::Succeeded },
        event,
        op: draft.context.op.clone(),
        output: Some(success.output),
        fingerprint: Some(success.fingerprint),
        receipt: success.receipt.map(|receipt| receipt.key),
        cost_microusd: success.cost_microusd,
        usage: success.usage,
    }
}

fn advance_run(
    draft: &mut Draft<'_>,
    seq: StepSeq,
    last: bool,
    is_undoable: bool,
) -> Result<AfterStep, Refusal> {
    match draft.record.cancel.clone() {
        // The effect was already intended when cancel was requested: it is finished, then rolled back.
        Some(request) if is_undoable => {
            start_rollback(
                draft,
                seq,
                Rollback { floor: seq, reason: request.reason, ends: RollbackEnds::Canceled },
            )?;
            return Ok(AfterStep::Ready);
        }
        Some(request) if !last => {
            draft.record.at = seq.next();
            draft.record.step_state = StepState::FRESH;
            return cancel_run(draft, request.reason);
        }
        // The last step is done and has no rollback: the request came too late.
        Some(_) | None => {}
    }
    if last {
        return Ok(AfterStep::Ended(draft.record.status));
    }
    draft.record.at = seq.next();
    draft.record.step_state = StepState::FRESH;
    match draft.record.pause.clone() {
        Some(request) => pause_run(draft, request),
        None => Ok(AfterStep::Ready),
    }
}

/// Starts to roll back, from step `from` down.
pub(super) fn start_rollback(
    draft: &mut Draft<'_>,
    from: StepSeq,
    rollback: Rollback,
) -> Result<(), Refusal> {
    govern::withdraw_live(draft, "the run is rolled back")?;
    draft.record.effects.unknown += u32::from(draft.record.step_state.leaves_unknown());
    draft.move_run(RunTransition::RollBack)?;
    draft.record_event(EventBody::RollbackStarted { from, reason: rollback.reason.clone() });
    draft.record.rollback = Some(rollback);
    draft.record.rejected = None;
    draft.record.pause = None;
    draft.record.at = from;
    draft.record.step_state = StepState::FRESH;
    Ok(())
}

/// The newest step in `floor..below` that has a rollback and whose effect this run performed. Effects found done are
/// not undone: another run performed them.
pub(super) fn next_undo(draft: &Draft<'_>, below: StepSeq, floor: StepSeq) -> Option<StepSeq> {
    (floor.0..below.0).rev().map(StepSeq).find(|seq| {
        draft.record.acted.has(*seq) && draft.plan.step(*seq).is_some_and(|step| step.rollback.is_some())
    })
}

fn close_undo(draft: &mut Draft<'_>, success: Success) -> Result<AfterStep, Refusal> {
    let seq = draft.record.at;
    forget_rejection(draft);
    draft.move_step(StepTransition::Succeed, StepState::Ended { status: StepStatus::Succeeded })?;
    let to = StepStatus::Succeeded.after(StepTransition::RollBack)?;
    draft.record_step_transition(seq, StepStatus::Succeeded, to);
    draft.record.cost_microusd = draft.record.cost_microusd.saturating_add(success.cost_microusd);
    draft.record.effects.undone += u32::from(success.effect != PerformedEffect::None);
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

fn continue_rollback(draft: &mut Draft<'_>, seq: StepSeq) -> Result<AfterStep, Refusal> {
    let Some(rollback) = draft.record.rollback.clone() else {
        return Err(Refusal::NothingToRollBack);
    };
    match next_undo(draft, seq, rollback.floor) {
        Some(before) => {
            draft.move_run(RunTransition::Continue)?;
            draft.record.at = before;
            draft.record.step_state = StepState::FRESH;
            match draft.record.pause.clone() {
                Some(request) => pause_run(draft, request),
                None => Ok(AfterStep::Ready),
            }
        }
        None if rollback.ends == RollbackEnds::Failed => end_failed(draft, rollback.reason),
        None => cancel_run(draft, rollback.reason),
    }
}

/// The rollback of a failed run is complete.
fn end_failed(draft: &mut Draft<'_>, reason: String) -> Result<AfterStep, Refusal> {
    draft.record.step_state = StepState::Ended { status: StepStatus::Succeeded };
    draft.move_run(RunTransition::Fail)?;
    let effects = draft.record.effects;
    draft.record_event(EventBody::RunFailed { reason, effects });
    Ok(AfterStep::Ended(draft.record.status))
}

/// The current step failed permanently.
pub(super) fn fail_step(draft: &mut Draft<'_>, failure: Failure) -> Result<AfterStep, Refusal> {
    let number = draft.record.step_state.attempt();
    let body = EventBody::StepFailed { number, failure: failure.clone() };
    if draft.record.is_rolling_back() {
        return pause_step(draft, failure, None);
    }
    fail_run(draft, &failure, body)
}

/// The current step failed permanently, with `body` as its event. A failed rollback pauses the run instead: the effect
/// remains, and an operator must decide.
pub(super) fn fail_step_with(
    draft: &mut Draft<'_>,
    failure: Failure,
    body: EventBody,
) -> Result<AfterStep, Refusal> {
    if draft.record.is_rolling_back() {
        draft.record_event(body);
        let open = draft.record.step_state.open().cloned();
        return pause_step(draft, failure, open);
    }
    fail_run(draft, &failure, body)
}

/// Fails the current step. The run fails too, after a rollback of its earlier effects.
pub(super) fn fail_run(
    draft: &mut Draft<'_>,
    failure: &Failure,
    body: EventBody,
) -> Result<AfterStep, Refusal> {
    let seq = draft.record.at;
    govern::withdraw_live(draft, "the step has failed")?;
    draft.record.effects.unknown += u32::from(draft.record.step_state.leaves_unknown());
    draft.move_step(StepTransition::Fail, StepState::Ended { status: StepStatus::FailedTerminal })?;
    let undo_from = next_undo(draft, seq, StepSeq(0));
    if undo_from.is_none() {
        draft.move_run(RunTransition::Fail)?;
    }
    let event = draft.record_event(body);
    draft.steps.push(StepRecord {
        seq,
        rollback: false,
        status: StepStatus::FailedTerminal,
        event,
        op: draft.context.op.clone(),
        output: None,
        fingerprint: None,
        receipt: None,
        cost_microusd: 0,
        usage: None,
    });
    let Some(from) = undo_from else { return Ok(AfterStep::Ended(draft.record.status)) };
    let reason = format!("{}: {}", failure.code, failure.message);
    start_rollback(draft, from, Rollback { floor: StepSeq(0), reason, ends: RollbackEnds::Failed })?;
    Ok(AfterStep::Ready)
}

/// Stops the run at its current step.
pub(super) fn cancel_run(draft: &mut Draft<'_>, reason: String) -> Result<AfterStep, Refusal> {
    govern::withdraw_live(draft, "the run was canceled")?;
    draft.record.effects.unknown += u32::from(draft.record.step_state.leaves_unknown());
    if draft.record.is_rolling_back() {
        draft.record.step_state = StepState::Ended { status: StepStatus::Succeeded };
    } else if !draft.record.step_state.status().is_terminal() {
        draft.move_step(StepTransition::Cancel, StepState::Ended { status: StepStatus::Canceled })?;
    }
    draft.move_run(RunTransition::Cancel)?;
    let effects = draft.record.effects;
    draft.record_event(EventBody::RunCanceled { reason, effects });
    Ok(AfterStep::Ended(draft.record.status))
}

/// Pauses the run until an operator decides.
pub(super) fn pause_run(draft: &mut Draft<'_>, request: OperatorRequest) -> Result<AfterStep, Refusal> {
    match draft.record.step_state.clone() {
        // A paused run has no open approval; it requests another one when it resumes.
        StepState::WaitingApproval { approval, attempt, open, .. } => {
            govern::withdraw(draft, &approval, "the run was paused")?;
            draft.move_step(
                StepTransition::Reopen,
                StepState::Ready { attempt, authorized: open, approved: None },
            )?;
        }
        // Events that arrive meanwhile are buffered. The wait starts again, with its full timeout, on resume.
        StepState::WaitingEvent { .. } => draft.move_step(StepTransition::Reopen, StepState::FRESH)?,
        StepState::Ready { .. }
        | StepState::Running(_)
        | StepState::Retrying { .. }
        | StepState::Unresolved { .. }
        | StepState::Ended { .. } => {}
    }
    draft.move_run(RunTransition::Pause)?;
    draft.record_event(EventBody::RunPaused { reason: request.reason.clone() });
    draft.record.pause = Some(request);
    Ok(AfterStep::Paused)
}

/// The outcome of the effect is unknown: an operator decides.
pub(super) fn pause_unresolved(draft: &mut Draft<'_>, failure: Failure) -> Result<AfterStep, Refusal> {
    let open = match &draft.record.step_state {
        StepState::Running(Lease { intent, .. }) => intent.clone(),
        step_state => step_state.open().cloned(),
    };
    pause_step(draft, failure, open)
}

/// Pauses the run at the current step. `open` is the effect whose outcome is unknown, if there is one.
pub(super) fn pause_step(
    draft: &mut Draft<'_>,
    failure: Failure,
    open: Option<Intent>,
) -> Result<AfterStep, Refusal> {
    govern::withdraw_live(draft, "the step cannot continue")?;
    let attempt = draft.record.step_state.attempt();
    let reason = format!("{}: {}", failure.code, failure.message);
    let step_state = StepState::Unresolved { attempt, failure: failure.clone(), open: open.clone() };
    draft.move_step(StepTransition::Retry, step_state)?;
    draft.move_run(RunTransition::Pause)?;
    let body = match open {
        Some(intent) => EventBody::OutcomeUnknown {
            receipt: ReceiptRef { key: intent.key, action: intent.action },
            failure,
        },
        None => EventBody::RunPaused { reason: reason.clone() },
    };
    draft.record_event(body);
    draft.record.pause =
        Some(OperatorRequest { by: draft.context.by.id.clone(), reason, at: draft.context.now });
    Ok(AfterStep::Paused)
}

/// The attempt that `lease` was held for, as an event records it.
pub(super) fn attempt_of(lease: &Lease) -> Attempt {
    Attempt { number: lease.attempt, worker: lease.owner.clone(), fence: lease.fence, since: lease.since }
}
