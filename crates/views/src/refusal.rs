//! A refusal, as people read it.

use domain::Refusal;
use domain::machine::{IllegalRunMove, RunMove};

/// A refusal, with moves as people call them.
pub fn refusal_in_words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Run(IllegalRunMove { from, by }) => format!("a run that is {from} cannot {}", verb(*by)),
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
    use domain::RunStatus;

    #[test]
    fn a_move_that_is_not_allowed_is_told_in_words() {
        let moved = RunStatus::WaitingEvent.after(RunMove::OpenGate).unwrap_err();
        assert_eq!(refusal_in_words(&moved.into()), "a run that is waiting_event cannot ask a person");
    }
}
