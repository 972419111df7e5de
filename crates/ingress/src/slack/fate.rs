//! What has become of what somebody asked for, in words for Slack.

use ::slack::escape::{Bound, mrkdwn};
use domain::{Fate, RunId};

/// More than an arrival keeps of a reason, with room for what is written out.
const WHY_UNITS_MAX: usize = 1_024;

/// What is told of `run` by the fate of what came in to start it. Ids stand between backticks, as everywhere here.
pub(super) fn became(run: &RunId, fate: &Fate) -> String {
    match fate {
        Fate::Waiting => {
            format!("`{run}` has not begun: it was taken in, and waits for a worker or its ticket.")
        }
        Fate::Begun => format!("`{run}` has begun; `/countersign run {run}` says how it stands."),
        Fate::Joined { run: other } => format!(
            "`{run}` was not started: `{other}` has its ticket, and answers for it; `/countersign run {other}` \
             says how that one stands."
        ),
        Fate::Unwanted { .. } => format!("`{run}` was not started: no workflow wanted what came in."),
        Fate::Refused { why, .. } => {
            format!("`{run}` was not started: {}", mrkdwn(why, Bound::plain(WHY_UNITS_MAX)))
        }
    }
}
