//! Text, times and status badges in HTML.

use std::fmt::Write as _;

use domain::{ApprovalStatus, Millis, RunStatus, StepStatus, Timestamp, WorkerStatus};
use maud::{Markup, Render, html};
use slack::escape::is_invisible;
use views::time::{relative, timestamp};

/// The first character of a code point, as in `⟨U+200B⟩`.
const CODE_OPENS: char = '⟨';

/// Untrusted text on one line: escaped, with invisible characters as code points.
pub(crate) struct InlineText<'a>(pub(crate) &'a str);

/// The same for text with line breaks.
pub(crate) struct MultilineText<'a>(pub(crate) &'a str);

/// The text of an approval card, in which invisible characters are code points already.
pub(crate) struct CardText<'a>(pub(crate) &'a str);

impl Render for CardText<'_> {
    fn render_to(&self, buffer: &mut String) {
        // The bracket of a code point counts as invisible, so each part between brackets is rendered.
        for (n, part) in self.0.split(CODE_OPENS).enumerate() {
            if n > 0 {
                buffer.push(CODE_OPENS);
            }
            visible(part, true).as_str().render_to(buffer);
        }
    }
}

impl Render for InlineText<'_> {
    fn render_to(&self, buffer: &mut String) {
        visible(self.0, false).as_str().render_to(buffer);
    }
}

impl Render for MultilineText<'_> {
    fn render_to(&self, buffer: &mut String) {
        visible(self.0, true).as_str().render_to(buffer);
    }
}

/// `text` with invisible characters as code points. It is not escaped.
pub(crate) fn visible(text: &str, lines: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) && !(lines && c == '\n') {
            // Writing to a `String` does not fail.
            let _written = write!(shown, "⟨U+{:04X}⟩", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The badge of a run status.
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

pub(crate) fn worker_status(status: WorkerStatus) -> Markup {
    let (kind, shape) = match status {
        WorkerStatus::Idle => ("good", "○"),
        WorkerStatus::Executing => ("moving", "●"),
        WorkerStatus::Errored => ("bad", "✕"),
        WorkerStatus::Draining => ("asks", "‖"),
        WorkerStatus::Offline => ("warns", "△"),
        WorkerStatus::Stopped => ("idle", "–"),
    };
    badge(kind, shape, status.as_str())
}

/// A word with a color and a shape, so that color is not the only cue.
pub(crate) fn badge(kind: &str, shape: &str, word: &str) -> Markup {
    html! {
        span class={ "status " (kind) } { span aria-hidden="true" { (shape) } " " (word.replace('_', " ")) }
    }
}

/// A relative time, with the timestamp as its title.
pub(crate) fn relative_time(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(timestamp(at)) title=(timestamp(at)) { (relative(at, now)) } }
}

/// A duration, or a dash.
pub(crate) fn optional_duration(duration: Option<Millis>) -> String {
    duration.map_or_else(|| "–".to_owned(), views::time::duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_is_escaped_and_visible() {
        let shown = html! { (InlineText("<b>\u{202e}\n")) }.into_string();
        assert_eq!(shown, "&lt;b&gt;⟨U+202E⟩⟨U+000A⟩");
        assert_eq!(html! { (MultilineText("a\n\u{200b}")) }.into_string(), "a\n⟨U+200B⟩");
    }
}
