//! `github.delete_comment`: takes a comment away, for good.
//!
//! Only the comment that people saw: if somebody has edited it since, nothing is deleted. GitHub deletes
//! under no condition, so that an edit within the one round trip between our look and our request is lost.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Action, Digest, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, CONFLICT, Fault, Question};
use crate::fields::{Fields, invalid};
use crate::http::reply::clean;
use crate::tool::{self, Ask, Call, Done, Outcome, Survey, Tool};

use super::issue::Repo;

pub(super) const NAME: &str = "github.delete_comment";

/// Grows when the fields change their meaning.
const CONTRACT: u32 = 1;

/// What a person is shown of the comment; its digest stands for the rest.
const SHOWN_CHARS_MAX: usize = 2_000;

const IRREVERSIBLE: &str =
    "GitHub does not bring a deleted comment back; another one would have another id and date";

/// The tool `github.delete_comment`.
#[derive(Debug)]
pub(super) struct DeleteComment(pub(super) Arc<Api>);

/// Which comment.
struct Doomed {
    repo: Repo,
    id: u64,
}

impl Doomed {
    fn of(with: Value, known: &[&str]) -> Result<Self, Failure> {
        let mut fields = Fields::of(with, known)?;
        let repo = Repo::take(&mut fields)?;
        let id = fields.number("comment_id")?.ok_or_else(|| invalid("`comment_id` is missing"))?;
        Ok(Self { repo, id })
    }

    /// What the comment says; `None` if it is gone.
    async fn body(&self, api: &Api, until: Instant) -> Result<Option<String>, Fault> {
        let id = self.id.to_string();
        match api.ask(Question::get(&self.repo.path(&["issues", "comments", &id])), until).await {
            Ok(answer) => Ok(Some(answer.value["body"].as_str().unwrap_or_default().to_owned())),
            Err(fault) if fault.is_not_found() => self.repo.check_seen(api, until).await.map(|()| None),
            Err(fault) => Err(fault),
        }
    }

    /// Deletes it; false if it was gone.
    async fn delete(&self, api: &Api, until: Instant) -> Result<bool, Fault> {
        let id = self.id.to_string();
        match api.ask(Question::delete(&self.repo.path(&["issues", "comments", &id])), until).await {
            Ok(_) => Ok(true),
            Err(fault) if fault.is_not_found() => self.repo.check_seen(api, until).await.map(|()| false),
            Err(fault) => Err(fault),
        }
    }

    /// Deletes it if it still says what was `expected`.
    async fn delete_if(&self, expected: &Value, api: &Api, until: Instant) -> Result<bool, Fault> {
        match self.body(api, until).await?.as_deref().map(digest) {
            None => Ok(false),
            Some(digest) if *expected == digest => self.delete(api, until).await,
            Some(_) => {
                let Self { repo, id } = self;
                let why =
                    format!("comment {id} of {repo} changed since it was proposed; nothing was deleted");
                Err(Fault::Never(Failure::new(CONFLICT, why)))
            }
        }
    }

    fn done(&self, deleted: bool) -> Done {
        let output = json!({ "repo": self.repo.to_string(), "comment_id": self.id });
        let how = if deleted { "deleted" } else { "it was gone already" };
        Done { output, response: json!({ "how": how }), ..Done::default() }
    }
}

/// What stands for the whole comment, of which only the beginning is shown.
fn digest(body: &str) -> String {
    Digest::of_bytes(body.as_bytes()).to_string()
}

/// What stands for a comment that is gone.
const GONE: &str = "gone";

#[async_trait]
impl Tool for DeleteComment {
    fn name(&self) -> ToolName {
        tool::name(NAME)
    }

    fn declares(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::CompareAndSet)
    }

    async fn survey(&self, ask: &Ask<'_>) -> Survey {
        let Ok(doomed) = Doomed::of(ask.fields.clone(), &["repo", "comment_id"]) else {
            return Survey::NotNeeded;
        };
        match doomed.body(&self.0, self.0.patience()).await {
            Ok(Some(body)) => {
                let shown: String = clean(&body).chars().take(SHOWN_CHARS_MAX).collect();
                Survey::Found(json!({ "body": shown, "stands": digest(&body) }))
            }
            Ok(None) => Survey::Found(json!({ "stands": GONE })),
            Err(fault) => fault.into(),
        }
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let doomed = Doomed::of(ask.fields, &["repo", "comment_id"])?;
        let Doomed { repo, id } = &doomed;
        let found = |name: &str| ask.found.and_then(|found| found.get(name)).cloned();
        let key = IdempotencyKey::new(&format!("gh:{repo}:delete_comment:{}:{id}", self.0.host()));
        let key = key.map_err(|error| invalid(error.to_string()))?;
        let change = FieldChange { field: "comment".to_owned(), before: found("body"), after: Value::Null };
        let is_gone = found("stands").is_some_and(|stands| stands == GONE);
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
            key: if ask.undo { key.undo() } else { key },
            key_retention: None,
            changes: if is_gone { Vec::new() } else { vec![change] },
            destructive: !is_gone,
            estimate_microusd: None,
            fields: json!({ "repo": repo.to_string(), "comment_id": id, "expected": found("stands") }),
        })
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        let doomed = match Doomed::of(call.action.fields.clone(), &["repo", "comment_id", "expected"]) {
            Ok(doomed) => doomed,
            Err(failure) => return Outcome::Terminal(failure),
        };
        let expected = &call.action.fields["expected"];
        if expected.is_null() {
            return Outcome::Terminal(tool::not_surveyed(call.action));
        }
        match doomed.delete_if(expected, &self.0, Instant::now() + call.time_left).await {
            Ok(deleted) => Outcome::Done(doomed.done(deleted)),
            Err(fault) if call.again => Outcome::from(fault).after_open_attempt(),
            Err(fault) => fault.into(),
        }
    }
}
