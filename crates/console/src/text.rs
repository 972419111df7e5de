//! Text as a person may see it.

use std::fmt::Write as _;

use domain::{ApprovalStatus, Millis, RunStatus, StepStatus, Timestamp, WorkerStatus};
use maud::{Markup, Render, html};
use slack::escape::is_unseen;
use views::time::{distance, moment};

/// Somebody's text: escaped, on one line, and with whatever cannot be seen written out.
pub(crate) struct Seen<'a>(pub(crate) &'a str);

/// The same for a text of several lines.
pub(crate) struct Lines<'a>(pub(crate) &'a str);

impl Render for Seen<'_> {
    fn render_to(&self, buffer: &mut String) {
        visible(self.0, false).as_str().render_to(buffer);
    }
}

impl Render for Lines<'_> {
    fn render_to(&self, buffer: &mut String) {
        visible(self.0, true).as_str().render_to(buffer);
    }
}

/// `text` with whatever cannot be seen written out. It is not escaped.
pub(crate) fn visible(text: &str, lines: bool) -> String {
    let mut seen = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) && !(lines && c == '\n') {
            // Writing to a `String` does not fail.
            let _written = write!(seen, "⟨U+{:04X}⟩", u32::from(c));
        } else {
            seen.push(c);
        }
    }
    seen
}

/// A status by word, colour and shape.
pub(crate) fn status(status: RunStatus) -> Markup {
    let (kind, shape) = match status {
        RunStatus::Queued => ("idle", "○"),
        RunStatus::Running => ("moving", "●"),
        RunStatus::WaitingApproval => ("asks", "◆"),
        RunStatus::WaitingEvent => ("asks", "◇"),
        RunStatus::Paused => ("asks", "‖"),
        RunStatus::RollingBack => ("moving", "↺"),
        RunStatus::FailedRetryable => ("warns", "△"),
        RunStatus::Succeeded => ("good", "✓"),
        RunStatus::FailedTerminal => ("bad", "✕"),
        RunStatus::Canceled => ("idle", "–"),
    };
    badge(kind, shape, status.as_str())
}

/// The same for a step.
pub(crate) fn step_status(status: StepStatus) -> Markup {
    let (kind, shape) = match status {
        StepStatus::Pending => ("idle", "·"),
        StepStatus::Ready => ("idle", "○"),
        StepStatus::Running => ("moving", "●"),
        StepStatus::WaitingApproval => ("asks", "◆"),
        StepStatus::WaitingEvent => ("asks", "◇"),
        StepStatus::FailedRetryable => ("warns", "△"),
        StepStatus::Succeeded => ("good", "✓"),
        StepStatus::FailedTerminal => ("bad", "✕"),
        StepStatus::Canceled => ("idle", "–"),
        StepStatus::RolledBack => ("idle", "↺"),
    };
    badge(kind, shape, status.as_str())
}

/// The same for a request for approval.
pub(crate) fn approval_status(status: ApprovalStatus) -> Markup {
    let (kind, shape) = match status {
        ApprovalStatus::Requested => ("asks", "◆"),
        ApprovalStatus::Approved => ("good", "✓"),
        ApprovalStatus::Rejected => ("bad", "✕"),
        ApprovalStatus::Expired => ("warns", "△"),
        ApprovalStatus::Canceled => ("idle", "–"),
    };
    badge(kind, shape, status.as_str())
}

/// The same for a worker.
pub(crate) fn standing(standing: WorkerStatus) -> Markup {
    let (kind, shape) = match standing {
        WorkerStatus::Idle => ("good", "○"),
        WorkerStatus::Executing => ("moving", "●"),
        WorkerStatus::Errored => ("bad", "✕"),
        WorkerStatus::Draining => ("asks", "‖"),
        WorkerStatus::Offline => ("warns", "△"),
        WorkerStatus::Left => ("idle", "–"),
    };
    badge(kind, shape, standing.as_str())
}

/// A word with its colour and its shape.
pub(crate) fn badge(kind: &str, shape: &str, word: &str) -> Markup {
    html! {
        span class={ "status " (kind) } { span aria-hidden="true" { (shape) } " " (word.replace('_', " ")) }
    }
}

/// How far a moment is away, with the moment itself for whoever wants to know it.
pub(crate) fn when(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(moment(at)) title=(moment(at)) { (distance(at, now)) } }
}

/// A length of time, or what stands for none.
pub(crate) fn length(length: Option<Millis>) -> String {
    length.map_or_else(|| "–".to_owned(), views::time::length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_somebody_wrote_is_markup_and_nothing_in_it_is_unseen() {
        let shown = html! { (Seen("<b>\u{202e}\n")) }.into_string();
        assert_eq!(shown, "&lt;b&gt;⟨U+202E⟩⟨U+000A⟩");
        assert_eq!(html! { (Lines("a\n\u{200b}")) }.into_string(), "a\n⟨U+200B⟩");
    }
}
