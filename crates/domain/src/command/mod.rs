//! The commands, one file each.
//!
//! A command is a value that states what its caller wants and knows. [`Command::decide`] runs on a [`Draft`] of the
//! run's record. It moves the draft to the next state, or refuses. The engine writes nothing until it commits the
//! draft, so a refusal has no effect.

mod admit;
mod cancel;
mod claim;
mod ending;
mod fail;
mod finish;
mod govern;
mod pause;
mod postpone;
mod remind;
mod renew;
mod resume;
mod retry;
mod roll_back;
mod signal;
mod take_over;
mod time_out;
mod vote;
mod wait;
mod wake;

pub use admit::{Admit, Inherited, admit};
pub use cancel::{BackOut, Cancel, CancelResult};
pub use claim::{AttemptMode, Claim, ClaimResult, Grant};
pub use ending::AfterStep;
pub use fail::Fail;
pub use finish::Finish;
pub use govern::PolicyEvaluation;
pub use pause::Pause;
pub use postpone::Postpone;
pub use remind::RemindApprovers;
pub use renew::{Renew, RenewResult};
pub use resume::Resume;
pub use retry::{EffectOutcome, Retry, RetryResult};
pub use roll_back::RollBack;
pub use signal::{DeliverSignal, SignalResult};
pub use take_over::TakeOver;
pub use time_out::TimeOut;
pub use vote::{RecordVote, VoteResult};
pub use wait::{OpenGate, OpenWait, WaitResult};
pub use wake::{Wake, WakeReason};

use crate::draft::Draft;
use crate::refusal::Refusal;

/// A change that a caller requests of a run.
pub trait Command {
    /// The result of a command that is not refused.
    type Output;

    /// Moves `draft` to the next state, or refuses. Drop the draft after a refusal.
    fn decide(self, draft: &mut Draft<'_>) -> Result<Self::Output, Refusal>;
}
