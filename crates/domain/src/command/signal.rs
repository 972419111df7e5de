//! Signal: an external event reaches a run. It ends the wait for it exactly once. An event that arrives before its wait
//! is buffered.

use crate::draft::{Draft, SignalChange};
use crate::event::EventBody;
use crate::id::{EventName, StepSeq};
use crate::machine::{RunStatus, RunTransition};
use crate::record::{BUFFERED_SIGNALS_MAX, BufferedSignal, Signal, StepState};
use crate::refusal::Refusal;
use crate::time::Timestamp;

use super::Command;
use super::ending::{self, AfterStep, PerformedEffect, Success};

/// Delivers an event to a run.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliverSignal {
    /// The event. The command sets its `buffered` field.
    pub signal: Signal,
    /// The recorded delivery with the same id, if there is one.
    pub known: Option<Signal>,
}

/// The result of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalResult {
    /// It ended the wait.
    Woke(AfterStep),
    /// It is buffered until its wait opens.
    Buffered,
    /// It was delivered before; nothing changed.
    Duplicate,
}

impl Command for DeliverSignal {
    type Output = SignalResult;

    fn decide(self, draft: &mut Draft<'_>) -> Result<SignalResult, Refusal> {
        // A repeated delivery succeeds even after the run has ended.
        if let Some(known) = self.known {
            return check_repeated(&known, self.signal);
        }
        draft.ensure_active()?;
        if let Some(deadline) = deadline_of(draft, &self.signal.event) {
            // The timer may fire late, because no worker runs. The wait is over all the same.
            if deadline <= draft.now() {
                return Err(Refusal::WaitExpired { event: self.signal.event, at: deadline });
            }
            let signal = Signal { buffered: false, ..self.signal };
            draft.signals.push(SignalChange::Record(Box::new(signal.clone())));
            return deliver(draft, signal).map(SignalResult::Woke);
        }
        buffer(draft, self.signal)
    }
}

/// The deadline of the current step, if it waits for `event`.
fn deadline_of(draft: &Draft<'_>, event: &EventName) -> Option<Timestamp> {
    match &draft.record.step_state {
        StepState::WaitingEvent { event: awaited, deadline, .. } if awaited == event => Some(*deadline),
        _ => None,
    }
}

/// One id names one event. Accepting another event under the same id would drop it silently.
fn check_repeated(known: &Signal, signal: Signal) -> Result<SignalResult, Refusal> {
    if known.event == signal.event && known.fingerprint == signal.fingerprint {
        return Ok(SignalResult::Duplicate);
    }
    Err(Refusal::SignalConflict { signal: signal.id })
}

/// Ends the wait of the current step with `signal`.
pub(super) fn deliver(draft: &mut Draft<'_>, signal: Signal) -> Result<AfterStep, Refusal> {
    let body =
        EventBody::EventDelivered { event: signal.event, signal: signal.id, payload: signal.fingerprint };
    let success = Success {
        output: signal.payload,
        fingerprint: signal.fingerprint,
        attempt: None,
        receipt: None,
        effect: PerformedEffect::None,
        cost_microusd: 0,
        usage: None,
    };
    // A buffered event can end the first step; a queued run starts running first.
    if draft.record.status == RunStatus::Queued {
        draft.move_run(RunTransition::Claim)?;
    }
    ending::close_step(draft, success, body)
}

fn buffer(draft: &mut Draft<'_>, signal: Signal) -> Result<SignalResult, Refusal> {
    let awaited_later =
        !draft.record.is_rolling_back() && draft.plan.awaits(&signal.event, first_unopened(draft));
    if !awaited_later {
        return Err(Refusal::NotAwaited { event: signal.event });
    }
    let buffered = draft.record.buffered_signals.len();
    if buffered >= BUFFERED_SIGNALS_MAX {
        return Err(Refusal::BufferFull { buffered });
    }
    let entry = BufferedSignal { event: signal.event.clone(), signal: signal.id.clone() };
    draft.record.buffered_signals.push(entry);
    draft.record_event(EventBody::EventBuffered {
        event: signal.event.clone(),
        signal: signal.id.clone(),
        payload: signal.fingerprint,
    });
    draft.signals.push(SignalChange::Record(Box::new(Signal { buffered: true, ..signal })));
    Ok(SignalResult::Buffered)
}

/// The first step whose wait can still open.
fn first_unopened(draft: &Draft<'_>) -> StepSeq {
    match draft.record.step_state {
        StepState::Ready { .. } => draft.record.at,
        _ => draft.record.at.next(),
    }
}
