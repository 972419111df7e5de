//! The status of an inbox entry as text for Slack.

use ::slack::escape::{TextLimit, mrkdwn};
use domain::{InboxStatus, RunId};

/// Longer than a stored reason, with room for escapes.
const REASON_UNITS_MAX: usize = 1_024;

/// Describes `run` by the status of the inbox entry that starts it.
pub(super) fn describe(run: &RunId, status: &InboxStatus) -> String {
    match status {
        InboxStatus::Pending => {
            format!("`{run}` has not started: it waits for a worker or for its concurrency key.")
        }
        InboxStatus::Started => format!("`{run}` has started; `/countersign run {run}` shows its status."),
        InboxStatus::Joined { run: other } => format!(
            "`{run}` was not started: it joined `{other}`, which holds the same concurrency key; `/countersign run {other}` \
             shows its status."
        ),
        InboxStatus::Unmatched { .. } => format!("`{run}` was not started: no workflow matches the event."),
        InboxStatus::Rejected { reason, .. } => {
            format!("`{run}` was not started: {}", mrkdwn(reason, TextLimit::plain(REASON_UNITS_MAX)))
        }
    }
}
