//! `github.comment`: posts a comment on an issue or a pull request, with a hidden mark.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Action, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiError, ApiRequest};
use crate::fields::{Fields, invalid};
use crate::marked_post::{self, MarkedPost};
use crate::tool::{self, LookUpResult, Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};

use super::delete_comment;
use super::issue::Issue;

pub(super) const NAME: &str = "github.comment";

/// Increase it when the meaning of the fields changes.
const CONTRACT: u32 = 1;

/// GitHub accepts 65,536 characters; half of that is already a very long comment.
const TEXT_BYTES_MAX: usize = 32 * 1024;

/// GitHub lists comments oldest first; the search starts at the last page.
const PER_PAGE: u64 = 30;

/// The newest 300 comments are searched. If a lost reply is buried deeper, an operator decides.
const PAGES_MAX: u64 = 10;

#[derive(Debug)]
pub(super) struct Comment(pub(super) Arc<Api>);

struct NewComment {
    issue: Issue,
    text: String,
}

impl NewComment {
    fn parse(with: Value) -> Result<Self, Failure> {
        let mut fields = Fields::parse(with, &["repo", "number", "text"])?;
        // The text of an action ends with the mark, which needs the extra bytes.
        Ok(Self {
            issue: Issue::take(&mut fields)?,
            text: fields.required_text("text", TEXT_BYTES_MAX + 64)?,
        })
    }

    /// Without its id the comment cannot be deleted, so there is no inverse.
    fn done(&self, comment: &Value, how: &str) -> ToolResult {
        let id = comment["id"].as_u64();
        let repo = self.issue.repo.to_string();
        let inverse =
            |id| json!({ "tool": delete_comment::NAME, "with": { "repo": repo, "comment_id": id } });
        ToolResult {
            output: json!({ "comment_id": id, "url": comment["html_url"] }),
            response: json!({ "how": how, "comment_id": id }),
            inverse: id.map(inverse),
            ..ToolResult::default()
        }
    }

    /// Compares words, which include the mark; GitHub may change line ends.
    fn matches(&self, comment: &Value) -> bool {
        let body = comment["body"].as_str().unwrap_or_default();
        body.split_whitespace().eq(self.text.split_whitespace())
    }
}

fn mark(key: &IdempotencyKey) -> String {
    format!("<!-- countersign:{} -->", marked_post::mark(key))
}

#[async_trait]
impl MarkedPost for Comment {
    async fn post(&self, call: &ToolCall<'_>, until: Instant) -> Result<ToolResult, ApiError> {
        let draft = NewComment::parse(call.action.fields.clone()).map_err(ApiError::Terminal)?;
        let number = draft.issue.number.to_string();
        let path = draft.issue.repo.path(&["issues", &number, "comments"]);
        let response = self.0.send(ApiRequest::post(&path, json!({ "body": draft.text })), until).await?;
        match response.value["id"].as_u64() {
            Some(_) => Ok(draft.done(&response.value, "written")),
            // The comment exists, but undoing it needs its id. The search finds the id.
            None => Err(ApiError::no_reply(true, self.0.host(), "the reply does not contain the comment id")),
        }
    }

    async fn find(&self, call: &ToolCall<'_>, until: Instant) -> Result<Option<ToolResult>, ApiError> {
        let draft = NewComment::parse(call.action.fields.clone()).map_err(ApiError::Terminal)?;
        let count =
            draft.issue.read(&self.0, &[], until).await?.value["comments"].as_u64().unwrap_or_default();
        // One page more than the count gives: comments may have been added since.
        let last = count / PER_PAGE + 1;
        for page in (last.saturating_sub(PAGES_MAX - 1).max(1)..=last).rev() {
            let request = draft.issue.request(&["comments"]);
            let request =
                request.with_query("per_page", PER_PAGE.to_string()).with_query("page", page.to_string());
            let response = self.0.send(request, until).await?;
            let comments = response.value.as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(comment) = comments.iter().find(|comment| draft.matches(comment)) {
                return Ok(Some(draft.done(comment, "an earlier attempt had done it")));
            }
        }
        Ok(None)
    }
}

#[async_trait]
impl Tool for Comment {
    fn name(&self) -> ToolName {
        tool::name(NAME)
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::Opaque)
    }

    fn observes(&self) -> bool {
        true
    }

    /// Checks that the issue exists before approvers are asked.
    async fn observe(&self, request: &ProposalRequest<'_>) -> Observed {
        let Ok(draft) = NewComment::parse(request.fields.clone()) else { return Observed::NotNeeded };
        match draft.issue.read(&self.0, &[], self.0.deadline()).await {
            Ok(_) => Observed::NotNeeded,
            Err(error) => error.into(),
        }
    }

    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure> {
        let draft = NewComment::parse(request.fields.clone())?;
        if draft.text.len() > TEXT_BYTES_MAX {
            return Err(invalid(format!("`text` has more than {TEXT_BYTES_MAX} bytes")));
        }
        let (hash, Issue { repo, number }) =
            (marked_post::digest(&draft.text, request.run, request.step), &draft.issue);
        let key = IdempotencyKey::new(&format!("gh:{repo}:comment:{}:{number}:{hash}", self.0.host()));
        let key = key.map_err(|error| invalid(error.to_string()))?;
        let key = if request.reverts { key.reverse() } else { key };
        let text = format!("{}\n\n{}", draft.text, mark(&key));
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::Opaque,
            reversibility: Reversibility::Inverse,
            target: draft.issue.target(&self.0),
            key,
            key_retention: None,
            changes: vec![FieldChange {
                field: "comments".to_owned(),
                before: None,
                after: text.clone().into(),
            }],
            destructive: false,
            estimate_microusd: None,
            connection: None,
            fields: json!({ "repo": repo.to_string(), "number": number, "text": text }),
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        marked_post::perform(self, &call).await
    }

    async fn look_up(&self, call: ToolCall<'_>) -> LookUpResult {
        marked_post::look_up(self, &call).await
    }
}
