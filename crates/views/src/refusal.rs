//! Refusals in words.

use domain::Refusal;
use domain::machine::{IllegalRunMove, RunMove};

/// The text of a refusal, with run transitions in words.
pub fn refusal_in_words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Run(IllegalRunMove { from, by }) => format!("a run that is {from} cannot {}", verb(*by)),
        other => other.to_string(),
    }
}

fn verb(by: RunMove) -> &'static str {
    match by {
        RunMove::Claim => "be claimed",
        RunMove::OpenWait => "wait for an event",
        RunMove::OpenGate => "wait for approval",
        RunMove::Continue | RunMove::Resume => "continue",
        RunMove::Complete => "be completed",
        RunMove::Retry => "be retried",
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
    fn illegal_transition_is_rendered_in_words() {
        let moved = RunStatus::WaitingEvent.after(RunMove::OpenGate).unwrap_err();
        assert_eq!(refusal_in_words(&moved.into()), "a run that is waiting_event cannot wait for approval");
    }
}
