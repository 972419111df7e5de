//! `github.comment`: a comment on an issue or a pull request, with a mark that readers do not see.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Action, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, Fault, Question};
use crate::fields::{Fields, invalid};
use crate::saying::{self, Saying};
use crate::tool::{self, Ask, Call, Done, LookUp, Outcome, Survey, Tool};

use super::delete_comment;
use super::issue::Issue;

pub(super) const NAME: &str = "github.comment";

/// Grows when the fields change their meaning.
const CONTRACT: u32 = 1;

/// GitHub takes 65,536 characters; nobody reads as many.
const TEXT_BYTES_MAX: usize = 32 * 1024;

/// Comments come oldest first, and the one looked for is among the newest.
const PER_PAGE: u64 = 30;

/// Whoever writes 300 comments while a reply is lost has hidden ours well enough for a person to look.
const PAGES_MAX: u64 = 10;

/// The tool `github.comment`.
#[derive(Debug)]
pub(super) struct Comment(pub(super) Arc<Api>);

/// What is said, and where.
struct Said {
    issue: Issue,
    text: String,
}

impl Said {
    fn of(with: Value) -> Result<Self, Failure> {
        let mut fields = Fields::of(with, &["repo", "number", "text"])?;
        // An action's text has the mark at its end, hence the room.
        Ok(Self { issue: Issue::take(&mut fields)?, text: fields.said("text", TEXT_BYTES_MAX + 64)? })
    }

    /// The comment as done. Without its id it cannot be deleted by us.
    fn done(&self, comment: &Value, how: &str) -> Done {
        let id = comment["id"].as_u64();
        let repo = self.issue.repo.to_string();
        let inverse =
            |id| json!({ "tool": delete_comment::NAME, "with": { "repo": repo, "comment_id": id } });
        Done {
            output: json!({ "comment_id": id, "url": comment["html_url"] }),
            response: json!({ "how": how, "comment_id": id }),
            inverse: id.map(inverse),
            ..Done::default()
        }
    }

    /// The same words, and so the same mark; line ends may have been changed on the way.
    fn is(&self, comment: &Value) -> bool {
        let body = comment["body"].as_str().unwrap_or_default();
        body.split_whitespace().eq(self.text.split_whitespace())
    }
}

/// The mark as it stands in the comment.
fn mark(key: &IdempotencyKey) -> String {
    format!("<!-- countersign:{} -->", saying::mark(key))
}

#[async_trait]
impl Saying for Comment {
    async fn say(&self, call: &Call<'_>, until: Instant) -> Result<Done, Fault> {
        let said = Said::of(call.action.fields.clone()).map_err(Fault::Never)?;
        let number = said.issue.number.to_string();
        let path = said.issue.repo.path(&["issues", &number, "comments"]);
        let answer = self.0.ask(Question::post(&path, json!({ "body": said.text })), until).await?;
        match answer.value["id"].as_u64() {
            Some(_) => Ok(said.done(&answer.value, "written")),
            // It was said, but without its id it could not be taken back; looking finds the id.
            None => Err(Fault::no_reply(true, self.0.host(), "the reply does not name the comment")),
        }
    }

    async fn find(&self, call: &Call<'_>, until: Instant) -> Result<Option<Done>, Fault> {
        let said = Said::of(call.action.fields.clone()).map_err(Fault::Never)?;
        let count =
            said.issue.read(&self.0, &[], until).await?.value["comments"].as_u64().unwrap_or_default();
        // One page more than there is: comments may have been added since they were counted.
        let last = count / PER_PAGE + 1;
        for page in (last.saturating_sub(PAGES_MAX - 1).max(1)..=last).rev() {
            let question = said.issue.question(&["comments"]);
            let question = question.with("per_page", PER_PAGE.to_string()).with("page", page.to_string());
            let answer = self.0.ask(question, until).await?;
            let comments = answer.value.as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(comment) = comments.iter().find(|comment| said.is(comment)) {
                return Ok(Some(said.done(comment, "an earlier attempt had done it")));
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

    fn declares(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::Opaque)
    }

    /// Only whether there is such an issue, so that nobody is asked to approve a comment on nothing.
    async fn survey(&self, ask: &Ask<'_>) -> Survey {
        let Ok(said) = Said::of(ask.fields.clone()) else { return Survey::NotNeeded };
        match said.issue.read(&self.0, &[], self.0.patience()).await {
            Ok(_) => Survey::NotNeeded,
            Err(fault) => fault.into(),
        }
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let said = Said::of(ask.fields.clone())?;
        if said.text.len() > TEXT_BYTES_MAX {
            return Err(invalid(format!("`text` has more than {TEXT_BYTES_MAX} bytes")));
        }
        let (hash, Issue { repo, number }) = (saying::digest(&said.text, ask.run, ask.step), &said.issue);
        let key = IdempotencyKey::new(&format!("gh:{repo}:comment:{}:{number}:{hash}", self.0.host()));
        let key = key.map_err(|error| invalid(error.to_string()))?;
        let key = if ask.undo { key.undo() } else { key };
        let text = format!("{}\n\n{}", said.text, mark(&key));
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::Opaque,
            reversibility: Reversibility::Inverse,
            target: said.issue.target(&self.0),
            key,
            key_retention: None,
            changes: vec![FieldChange {
                field: "comments".to_owned(),
                before: None,
                after: text.clone().into(),
            }],
            destructive: false,
            estimate_microusd: None,
            fields: json!({ "repo": repo.to_string(), "number": number, "text": text }),
        })
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        saying::perform(self, &call).await
    }

    async fn look_up(&self, call: Call<'_>) -> LookUp {
        saying::look_up(self, &call).await
    }
}
