//! What has become of what somebody asked for, in words for Slack.

use ::slack::escape::{Bound, mrkdwn};
use domain::{InboxStatus, RunId};

/// More than an entry keeps of a reason, with room for what is written out.
const WHY_UNITS_MAX: usize = 1_024;

/// What is told of `run` by the status of what came in to start it. Ids stand between backticks, as everywhere here.
pub(super) fn became(run: &RunId, status: &InboxStatus) -> String {
    match status {
        InboxStatus::Pending => {
            format!("`{run}` has not begun: it was taken in, and waits for a worker or its ticket.")
        }
        InboxStatus::Started => format!("`{run}` has begun; `/countersign run {run}` says how it stands."),
        InboxStatus::Joined { run: other } => format!(
            "`{run}` was not started: `{other}` has its ticket, and answers for it; `/countersign run {other}` \
             says how that one stands."
        ),
        InboxStatus::Unmatched { .. } => format!("`{run}` was not started: no workflow wanted what came in."),
        InboxStatus::Rejected { reason, .. } => {
            format!("`{run}` was not started: {}", mrkdwn(reason, Bound::plain(WHY_UNITS_MAX)))
        }
    }
}
