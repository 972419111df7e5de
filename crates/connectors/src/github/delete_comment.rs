//! `github.delete_comment`: deletes a comment.
//!
//! If the comment was edited since it was proposed, nothing is deleted. GitHub has no conditional delete, so an edit
//! during the one round trip between the read and the delete is lost.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Action, Digest, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiError, ApiRequest, CONFLICT};
use crate::fields::{Fields, invalid};
use crate::http::reply::clean;
use crate::tool::{self, Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};

use super::issue::Repo;

pub(super) const NAME: &str = "github.delete_comment";

/// Increase it when the meaning of the fields changes.
const CONTRACT: u32 = 1;

/// Approvers see this much of the comment; its digest covers the rest.
const PREVIEW_CHARS_MAX: usize = 2_000;

const IRREVERSIBLE: &str = "GitHub cannot restore a deleted comment; a new comment has another id and date";

#[derive(Debug)]
pub(super) struct DeleteComment(pub(super) Arc<Api>);

struct CommentRef {
    repo: Repo,
    id: u64,
}

impl CommentRef {
    fn parse(with: Value, known: &[&str]) -> Result<Self, Failure> {
        let mut fields = Fields::parse(with, known)?;
        let repo = Repo::take(&mut fields)?;
        let id = fields.positive_integer("comment_id")?.ok_or_else(|| invalid("`comment_id` is missing"))?;
        Ok(Self { repo, id })
    }

    /// The comment's text; `None` if it does not exist.
    async fn body(&self, api: &Api, until: Instant) -> Result<Option<String>, ApiError> {
        let id = self.id.to_string();
        match api.send(ApiRequest::get(&self.repo.path(&["issues", "comments", &id])), until).await {
            Ok(response) => Ok(Some(response.value["body"].as_str().unwrap_or_default().to_owned())),
            Err(error) if error.is_not_found() => self.repo.check_visible(api, until).await.map(|()| None),
            Err(error) => Err(error),
        }
    }

    /// Returns false if the comment did not exist.
    async fn delete(&self, api: &Api, until: Instant) -> Result<bool, ApiError> {
        let id = self.id.to_string();
        match api.send(ApiRequest::delete(&self.repo.path(&["issues", "comments", &id])), until).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => self.repo.check_visible(api, until).await.map(|()| false),
            Err(error) => Err(error),
        }
    }

    /// Deletes the comment if its digest is still `expected`.
    async fn delete_if(&self, expected: &Value, api: &Api, until: Instant) -> Result<bool, ApiError> {
        match self.body(api, until).await?.as_deref().map(digest) {
            None => Ok(false),
            Some(digest) if *expected == digest => self.delete(api, until).await,
            Some(_) => {
                let Self { repo, id } = self;
                let why =
                    format!("comment {id} of {repo} changed since it was proposed; nothing was deleted");
                Err(ApiError::Terminal(Failure::new(CONFLICT, why)))
            }
        }
    }

    fn done(&self, deleted: bool) -> ToolResult {
        let output = json!({ "repo": self.repo.to_string(), "comment_id": self.id });
        let how = if deleted { "deleted" } else { "it was already deleted" };
        ToolResult { output, response: json!({ "how": how }), ..ToolResult::default() }
    }
}

/// Identifies the whole comment, of which approvers see the beginning.
fn digest(body: &str) -> String {
    Digest::of_bytes(body.as_bytes()).to_string()
}

/// The observed state of a comment that does not exist.
const GONE: &str = "gone";

#[async_trait]
impl Tool for DeleteComment {
    fn name(&self) -> ToolName {
        tool::name(NAME)
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::CompareAndSet)
    }

    fn observes(&self) -> bool {
        true
    }

    async fn observe(&self, request: &ProposalRequest<'_>) -> Observed {
        let Ok(comment) = CommentRef::parse(request.fields.clone(), &["repo", "comment_id"]) else {
            return Observed::NotNeeded;
        };
        match comment.body(&self.0, self.0.deadline()).await {
            Ok(Some(body)) => {
                let preview: String = clean(&body).chars().take(PREVIEW_CHARS_MAX).collect();
                Observed::Found(json!({ "body": preview, "state": digest(&body) }))
            }
            Ok(None) => Observed::Found(json!({ "state": GONE })),
            Err(error) => error.into(),
        }
    }

    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure> {
        let comment = CommentRef::parse(request.fields, &["repo", "comment_id"])?;
        let CommentRef { repo, id } = &comment;
        let found = |name: &str| request.observed.and_then(|found| found.get(name)).cloned();
        let key = IdempotencyKey::new(&format!("gh:{repo}:delete_comment:{}:{id}", self.0.host()));
        let key = key.map_err(|error| invalid(error.to_string()))?;
        let change = FieldChange { field: "comment".to_owned(), before: found("body"), after: Value::Null };
        let is_gone = found("state").is_some_and(|state| state == GONE);
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::CompareAndSet,
            reversibility: if is_gone {
                Reversibility::NoEffect
            } else {
                Reversibility::Irreversible(IRREVERSIBLE.to_owned())
            },
            target: format!("{}/{repo}/issues/comments/{id}", self.0.host()),
            key: if request.reverts { key.reverse() } else { key },
            key_retention: None,
            changes: if is_gone { Vec::new() } else { vec![change] },
            destructive: !is_gone,
            estimate_microusd: None,
            connection: None,
            fields: json!({ "repo": repo.to_string(), "comment_id": id, "expected": found("state") }),
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        let comment = match CommentRef::parse(call.action.fields.clone(), &["repo", "comment_id", "expected"])
        {
            Ok(comment) => comment,
            Err(failure) => return ToolOutcome::Terminal(failure),
        };
        let expected = &call.action.fields["expected"];
        if expected.is_null() {
            return ToolOutcome::Terminal(tool::not_observed(call.action));
        }
        match comment.delete_if(expected, &self.0, Instant::now() + call.time_left).await {
            Ok(deleted) => ToolOutcome::Done(comment.done(deleted)),
            Err(error) if call.again => ToolOutcome::from(error).after_open_attempt(),
            Err(error) => error.into(),
        }
    }
}
