//! Wait: the runtime opens a wait for an event, or puts a question to a person. No worker executes either.

use crate::approval::Subject;
use crate::draft::{Draft, SignalChange};
use crate::event::EventBody;
use crate::failure::bounded;
use crate::machine::{RunMove, StepMove};
use crate::plan::{Patience, Work};
use crate::record::{Live, Signal};
use crate::refusal::Refusal;

use super::Command;
use super::ending::Advanced;
use super::govern::{self, Wish};
use super::signal;

/// What a person can take in before a click, and what a record can carry.
const QUESTION_CHARS_MAX: usize = 1_000;

/// The current step waits for its event, unless the event came early.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenWait {
    /// The kept delivery of the event that came first, if the record names one.
    pub early: Option<Signal>,
}

/// The current step asks a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenGate {
    /// What they are asked, with every expression bound.
    pub message: String,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// The step waits.
    Waiting,
    /// What it would have waited for was already there.
    Ended(Advanced),
}

impl Command for OpenWait {
    type Answer = Opened;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Opened, Refusal> {
        ready(draft)?;
        let Work::Wait { event, timeout, on_timeout } = &draft.step()?.work else {
            return Err(Refusal::WrongWork { expected: "a wait" });
        };
        let kept = draft.record.early.iter().position(|early| early.event == *event);
        match (kept, self.early) {
            (Some(index), Some(signal)) if draft.record.early[index].signal == signal.id => {
                draft.record.early.remove(index);
                draft.signals.push(SignalChange::Use(signal.id.clone()));
                signal::deliver(draft, signal).map(Opened::Ended)
            }
            (Some(_), _) => Err(Refusal::WrongWork { expected: "a wait whose event is not there yet" }),
            (None, _) => {
                let deadline = draft.now() + *timeout;
                let live = Live::WaitingEvent { event: event.clone(), deadline, on_timeout: *on_timeout };
                draft.move_step(StepMove::OpenWait, live)?;
                draft.move_run(RunMove::OpenWait)?;
                draft.record_event(EventBody::WaitOpened { event: event.clone(), deadline });
                Ok(Opened::Waiting)
            }
        }
    }
}

impl Command for OpenGate {
    type Answer = Opened;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Opened, Refusal> {
        ready(draft)?;
        let Work::Gate { expires_after, on_reject, demand, .. } = &draft.step()?.work else {
            return Err(Refusal::WrongWork { expected: "an approval gate" });
        };
        let message = bounded(&self.message, QUESTION_CHARS_MAX);
        let wish = Wish {
            subject: Subject::Question { message },
            demand: demand.clone(),
            on_reject: *on_reject,
            patience: Some(Patience { expires_after: *expires_after, ..draft.plan.patience }),
        };
        govern::ask(draft, wish, (0, None))?;
        Ok(Opened::Waiting)
    }
}

fn ready(draft: &Draft<'_>) -> Result<(), Refusal> {
    draft.open()?;
    match draft.record.live {
        _ if draft.record.status == crate::RunStatus::Paused => {
            Err(Refusal::Paused { run: draft.record.key.clone() })
        }
        Live::Ready { .. } => Ok(()),
        _ => Err(Refusal::WrongWork { expected: "a step that is ready" }),
    }
}
