//! Posting a note, a comment or a message at most once.
//!
//! # Guarantee
//! Every post carries a mark that is derived from its idempotency key, and the post can be found by that mark.
//! *Found* is certain. *Not found* is never certain: ServiceNow, GitHub and Slack offer no way to fence out a worker
//! that lost its lease. Waiting does not help: a process that freezes between checking its clock and writing to its
//! socket writes when it thaws, however long that takes. The look-up class requires that certainty, so these tools
//! declare the opaque class and use the mark where it proves something:
//! * When a reply is lost, the same attempt searches for the mark. If it is there, the post is done and no operator
//!   is asked.
//! * When an operator decides to try again ([`ToolCall::again`]), the tool searches first and does not post twice.
//! * [`Tool::look_up`](crate::Tool::look_up) answers *found* or *unclear*, never *absent*.

use std::time::Duration;

use async_trait::async_trait;
use domain::{Digest, Failure, IdempotencyKey, RunKey, StepId};
use tokio::time::{Instant, sleep_until};

use crate::api::ApiError;
use crate::tool::{LookUpResult, ToolCall, ToolOutcome, ToolResult};

/// Searches after a lost reply. A post that takes longer to appear is left to an operator.
const SEARCHES_MAX: u32 = 3;

/// The pause between two searches; these systems show a write within a second.
const SEARCH_PAUSE: Duration = Duration::from_millis(500);

#[async_trait]
pub(crate) trait MarkedPost: Sync {
    async fn post(&self, call: &ToolCall<'_>, until: Instant) -> Result<ToolResult, ApiError>;

    /// Searches for the post by its mark.
    async fn find(&self, call: &ToolCall<'_>, until: Instant) -> Result<Option<ToolResult>, ApiError>;
}

/// Posts, unless an earlier attempt did.
pub(crate) async fn perform(tool: &impl MarkedPost, call: &ToolCall<'_>) -> ToolOutcome {
    let until = Instant::now() + call.time_left;
    if !call.again {
        return post(tool, call, until).await;
    }
    match tool.find(call, until).await {
        Ok(Some(done)) => ToolOutcome::Done(done),
        Ok(None) => post(tool, call, until).await.after_open_attempt(),
        Err(error) => ToolOutcome::from(error).after_open_attempt(),
    }
}

async fn post(tool: &impl MarkedPost, call: &ToolCall<'_>, until: Instant) -> ToolOutcome {
    // The last quarter of the time is for the search after a lost reply.
    let post_until = Instant::now() + until.saturating_duration_since(Instant::now()) / 4 * 3;
    match tool.post(call, post_until).await {
        Ok(done) => ToolOutcome::Done(done),
        Err(error) if error.is_open() => {
            find_after_lost_reply(tool, call, until).await.map_or_else(|| error.into(), ToolOutcome::Done)
        }
        Err(error) => error.into(),
    }
}

async fn find_after_lost_reply(
    tool: &impl MarkedPost,
    call: &ToolCall<'_>,
    until: Instant,
) -> Option<ToolResult> {
    for search in 0..SEARCHES_MAX {
        if search > 0 {
            sleep_until(until.min(Instant::now() + SEARCH_PAUSE)).await;
        }
        if let Ok(Some(done)) = tool.find(call, until).await {
            return Some(done);
        }
    }
    None
}

/// Searches for the post. A missing post may still arrive, so the result is never *absent*.
pub(crate) async fn look_up(tool: &impl MarkedPost, call: &ToolCall<'_>) -> LookUpResult {
    match tool.find(call, Instant::now() + call.time_left).await {
        Ok(Some(done)) => LookUpResult::Found(done),
        Ok(None) => LookUpResult::Unclear(Failure::new(
            "NOT_FOUND_YET",
            format!(
                "the post is not in {} so far, and an earlier request may still arrive",
                call.action.target
            ),
        )),
        Err(error) => LookUpResult::Unclear(error.failure().clone()),
    }
}

/// Identifies `text` in this step of this run. Two runs may post the same text.
pub(crate) fn digest(text: &str, run: &RunKey, step: &StepId) -> Digest {
    let parts = [text, run.tenant.as_str(), run.run.as_str(), step.as_str()];
    Digest::of_parts("countersign/marked-post/v1", &parts)
}

/// The mark of the post with this key: half of a digest.
pub(crate) fn mark(key: &IdempotencyKey) -> String {
    Digest::of_parts("countersign/mark/v1", &[key.as_str()]).to_string()[..32].to_owned()
}
