//! A refusal, as people read it.

use domain::Refusal;
use domain::machine::{IllegalRunMove, RunMove};

use crate::time::moment;

/// A refusal, with moments as people read them and moves as they call them.
pub fn refusal_in_words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Held { owner, until } => {
            format!("the current step is held by {owner} until {}", moment(*until))
        }
        Refusal::NotBefore { at } => format!("the next attempt is due at {}", moment(*at)),
        Refusal::Run(IllegalRunMove { from, by }) => format!("a run that is {from} cannot {}", verb(*by)),
        Refusal::Lapsed { approval, at } => {
            format!("approval {approval} lapsed at {}; nobody can answer it any more", moment(*at))
        }
        other => other.to_string(),
    }
}

/// What a move is called by whoever asks for it.
fn verb(by: RunMove) -> &'static str {
    match by {
        RunMove::Claim => "be worked on",
        RunMove::OpenWait => "wait for an event",
        RunMove::OpenGate => "ask a person",
        RunMove::Continue | RunMove::Resume => "go on",
        RunMove::Complete => "be completed",
        RunMove::Retry => "be tried again",
        RunMove::Fail => "fail",
        RunMove::Cancel => "be canceled",
        RunMove::Pause => "be paused",
        RunMove::RollBack => "be rolled back",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{RunStatus, Timestamp};

    #[test]
    fn a_moment_in_a_refusal_is_told_as_people_read_it() {
        let words = refusal_in_words(&Refusal::NotBefore { at: Timestamp(0) });
        assert_eq!(words, "the next attempt is due at 1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_move_that_is_not_allowed_is_told_in_words() {
        let moved = RunStatus::WaitingEvent.after(RunMove::OpenGate).unwrap_err();
        assert_eq!(refusal_in_words(&moved.into()), "a run that is waiting_event cannot ask a person");
    }
}
