//! One file per command.
//!
//! A command is a value: what somebody wants, with what they know. It is decided on a [`Draft`], which is
//! the record as it stands, and either moves the draft along or refuses. Nothing is written until the
//! engine commits the draft, so a refusal leaves no trace.

mod admit;
mod answer;
mod cancel;
mod claim;
mod ending;
mod fail;
mod finish;
mod govern;
mod nudge;
mod pause;
mod postpone;
mod renew;
mod resume;
mod retry;
mod roll_back;
mod signal;
mod take_over;
mod time_out;
mod wait;
mod wake;

pub use admit::{Admit, admit};
pub use answer::{Answer, Answered, may_answer};
pub use cancel::{BackOut, Cancel, Canceling};
pub use claim::{Claim, Claimed, Grant, Mode};
pub use ending::Advanced;
pub use fail::Fail;
pub use finish::Finish;
pub use govern::Governed;
pub use nudge::Nudge;
pub use pause::Pause;
pub use postpone::Postpone;
pub use renew::{Renew, Renewed};
pub use resume::Resume;
pub use retry::{Certainty, Retried, Retry};
pub use roll_back::RollBack;
pub use signal::{DeliverSignal, Delivered};
pub use take_over::TakeOver;
pub use time_out::TimeOut;
pub use wait::{OpenGate, OpenWait, Opened};
pub use wake::{Wake, Woken};

use crate::draft::Draft;
use crate::refusal::Refusal;

/// Something somebody wants of a run.
pub trait Command {
    /// What they are told when it is granted.
    type Answer;

    /// Moves `draft` along, or refuses. A refused draft must be dropped.
    fn decide(self, draft: &mut Draft<'_>) -> Result<Self::Answer, Refusal>;
}
