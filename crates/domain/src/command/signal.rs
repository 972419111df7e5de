//! Signal: an event from outside reaches a run. It wakes the step that waits for it, once; if that wait is
//! not open yet, the event is kept for it.

use crate::draft::{Draft, SignalChange};
use crate::event::EventBody;
use crate::record::{EARLY_MAX, Early, Live, Signal};
use crate::refusal::Refusal;

use super::Command;
use super::ending::{self, Advanced, Success};

/// An event for a run.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliverSignal {
    /// What came. Its `kept` is set here.
    pub signal: Signal,
    /// The delivery of the same id that is already recorded.
    pub known: Option<Signal>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// It ended the wait.
    Woke(Advanced),
    /// It is kept for a wait that is not open yet.
    Kept,
    /// It had been delivered before; nothing changed.
    Duplicate,
}

impl Command for DeliverSignal {
    type Answer = Delivered;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Delivered, Refusal> {
        // A repetition is answered like the first delivery, even after the run is over.
        if let Some(known) = self.known {
            return repeated(&known, self.signal);
        }
        draft.open()?;
        let awaited =
            matches!(&draft.record.live, Live::WaitingEvent { event, .. } if *event == self.signal.event);
        if awaited {
            let signal = Signal { kept: false, ..self.signal };
            draft.signals.push(SignalChange::Record(Box::new(signal.clone())));
            return deliver(draft, signal).map(Delivered::Woke);
        }
        keep(draft, self.signal)
    }
}

/// A delivery that came before. Under one id there is one event, or a second one would be lost in silence.
fn repeated(known: &Signal, again: Signal) -> Result<Delivered, Refusal> {
    if known.event == again.event && known.fingerprint == again.fingerprint {
        return Ok(Delivered::Duplicate);
    }
    Err(Refusal::SignalConflict { signal: again.id })
}

/// Ends the wait at the current step with `signal`.
pub(super) fn deliver(draft: &mut Draft<'_>, signal: Signal) -> Result<Advanced, Refusal> {
    let body =
        EventBody::EventDelivered { event: signal.event, signal: signal.id, payload: signal.fingerprint };
    let success = Success {
        output: signal.payload,
        fingerprint: signal.fingerprint,
        attempt: None,
        receipt: None,
        acted: false,
        cost_microusd: 0,
        usage: None,
    };
    // A wait that was never open cannot go straight to done without its run having been at work.
    if draft.record.status == crate::RunStatus::Queued {
        draft.move_run(crate::machine::RunMove::Claim)?;
    }
    ending::close_step(draft, success, body)
}

fn keep(draft: &mut Draft<'_>, signal: Signal) -> Result<Delivered, Refusal> {
    let still_to_come = !draft.record.is_undoing() && draft.plan.awaits(&signal.event, first_open(draft));
    if !still_to_come {
        return Err(Refusal::NotAwaited { event: signal.event });
    }
    let kept = draft.record.early.len();
    if kept >= EARLY_MAX {
        return Err(Refusal::TooManyEarly { kept });
    }
    draft.record.early.push(Early { event: signal.event.clone(), signal: signal.id.clone() });
    draft.record_event(EventBody::EventKept {
        event: signal.event.clone(),
        signal: signal.id.clone(),
        payload: signal.fingerprint,
    });
    draft.signals.push(SignalChange::Record(Box::new(Signal { kept: true, ..signal })));
    Ok(Delivered::Kept)
}

/// The first step whose wait may still be opened.
fn first_open(draft: &Draft<'_>) -> crate::StepSeq {
    match draft.record.live {
        Live::Ready { .. } => draft.record.at,
        _ => draft.record.at.next(),
    }
}
