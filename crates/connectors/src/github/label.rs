//! `github.label` and `github.unlabel`: each is the other's inverse.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Action, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName, json as strict,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, Fault, Question};
use crate::fields::{Fields, invalid};
use crate::tool::{self, Ask, Call, Done, Outcome, Survey, Tool};

use super::issue::{Issue, label_names};

pub(super) const LABEL: &str = "github.label";
pub(super) const UNLABEL: &str = "github.unlabel";

/// Grows when the fields change their meaning.
const CONTRACT: u32 = 1;

/// More than anybody reads on an issue.
const LABELS_MAX: usize = 20;

/// GitHub's own limit for the name of a label.
const LABEL_CHARS_MAX: usize = 50;

/// What is done with the labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Add,
    Remove,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Add => LABEL,
            Self::Remove => UNLABEL,
        }
    }

    fn inverse(self) -> &'static str {
        match self {
            Self::Add => UNLABEL,
            Self::Remove => LABEL,
        }
    }
}

/// The tools `github.label` and `github.unlabel`.
#[derive(Debug)]
pub(super) struct Labels {
    pub(super) api: Arc<Api>,
    pub(super) kind: Kind,
}

/// Which labels, and where.
struct Wanted {
    issue: Issue,
    labels: Vec<String>,
}

impl Wanted {
    fn of(with: Value) -> Result<Self, Failure> {
        let mut fields = Fields::of(with, &["repo", "number", "labels"])?;
        let issue = Issue::take(&mut fields)?;
        let mut labels = fields.list("labels")?.ok_or_else(|| invalid("`labels` is missing"))?;
        labels.sort();
        labels.dedup();
        if !(1..=LABELS_MAX).contains(&labels.len()) {
            return Err(invalid(format!("`labels` must be 1 to {LABELS_MAX} names")));
        }
        // A comma would be read as two labels by half of the tools around GitHub.
        let is_fine = |label: &String| {
            (1..=LABEL_CHARS_MAX).contains(&label.chars().count())
                && label.trim() == label
                && !label.contains(|c: char| c.is_control() || c == ',')
                && label.bytes().any(|byte| byte != b'.')
        };
        if !labels.iter().all(is_fine) {
            return Err(invalid(format!(
                "a label has 1 to {LABEL_CHARS_MAX} characters, no comma, and no blanks around it"
            )));
        }
        Ok(Self { issue, labels })
    }

    /// Those of the labels that the issue has. To GitHub, upper and lower case are the same.
    async fn present(&self, api: &Api, until: Instant) -> Result<Vec<String>, Fault> {
        let answer = self.issue.question(&["labels"]).with("per_page", "100");
        let there = label_names(&api.ask(answer, until).await?.value);
        let is_there =
            |label: &&String| there.iter().any(|other| other.to_lowercase() == label.to_lowercase());
        Ok(self.labels.iter().filter(is_there).cloned().collect())
    }
}

impl Labels {
    fn key(&self, ask: &Ask<'_>, wanted: &Wanted) -> Result<IdempotencyKey, Failure> {
        let parts = json!([wanted.labels, ask.run.tenant, ask.run.run, ask.step]);
        let hash = strict::digest("countersign/github-labels/v1", &parts);
        let (host, Issue { repo, number }) = (self.api.host(), &wanted.issue);
        let verb = if self.kind == Kind::Add { "label" } else { "unlabel" };
        let key = IdempotencyKey::new(&format!("gh:{repo}:{verb}:{host}:{number}:{hash}"));
        let key = key.map_err(|error| invalid(error.to_string()))?;
        Ok(if ask.undo { key.undo() } else { key })
    }

    /// The labels that would change, given those that are there.
    fn changing(&self, wanted: &Wanted, present: Option<&[String]>) -> Vec<String> {
        let changes = |label: &&String| {
            present.is_none_or(|present| present.contains(label) == (self.kind == Kind::Remove))
        };
        wanted.labels.iter().filter(changes).cloned().collect()
    }

    async fn attempt(&self, call: &Call<'_>) -> Outcome {
        let until = Instant::now() + call.time_left;
        let (wanted, changing) = match proposed(call.action) {
            Ok(proposed) => proposed,
            Err(failure) => return Outcome::Terminal(failure),
        };
        let written = match (self.kind, changing.is_empty()) {
            (_, true) => Ok(()),
            (Kind::Add, false) => self.add(&wanted.issue, &changing, until).await.map_err(Outcome::from),
            (Kind::Remove, false) => self.remove(&wanted, &changing, until).await,
        };
        match written {
            Ok(()) => Outcome::Done(self.done(&wanted, &changing)),
            Err(outcome) => outcome,
        }
    }

    async fn add(&self, issue: &Issue, labels: &[String], until: Instant) -> Result<(), Fault> {
        let number = issue.number.to_string();
        let path = issue.repo.path(&["issues", &number, "labels"]);
        self.api.ask(Question::post(&path, json!({ "labels": labels })), until).await.map(drop)
    }

    /// One by one: GitHub removes no two labels at once. What goes wrong after the first is half done.
    async fn remove(&self, wanted: &Wanted, labels: &[String], until: Instant) -> Result<(), Outcome> {
        let present = wanted.present(&self.api, until).await?;
        let number = wanted.issue.number.to_string();
        let mut removed = 0;
        for label in labels.iter().filter(|label| present.contains(label)) {
            let path = wanted.issue.repo.path(&["issues", &number, "labels", label]);
            match self.api.ask(Question::delete(&path), until).await {
                Ok(_) => removed += 1,
                // The issue is there, we have just read it; so the label is gone, which is what was wanted.
                Err(fault) if fault.is_not_found() => {}
                Err(fault) if removed == 0 => return Err(fault.into()),
                Err(fault) => return Err(Outcome::from(fault).after_open_attempt()),
            }
        }
        Ok(())
    }

    fn done(&self, wanted: &Wanted, changed: &[String]) -> Done {
        let Issue { repo, number } = &wanted.issue;
        let place = json!({ "repo": repo.to_string(), "number": number });
        let (mut output, mut with) = (place.clone(), place);
        output["labels"] = json!(wanted.labels);
        with["labels"] = json!(changed);
        Done {
            output,
            response: json!({ "changed": changed.len() }),
            inverse: (!changed.is_empty()).then(|| json!({ "tool": self.kind.inverse(), "with": with })),
            ..Done::default()
        }
    }
}

/// What an action says, read back: the labels, and those of them that change.
fn proposed(action: &Action) -> Result<(Wanted, Vec<String>), Failure> {
    let wanted = Wanted::of(action.fields.clone())?;
    if action.changes.iter().any(|change| change.before.is_none()) {
        return Err(tool::not_surveyed(action));
    }
    let changes = |label: &&String| action.changes.iter().any(|change| change.field == field_of(label));
    let changing = wanted.labels.iter().filter(changes).cloned().collect();
    Ok((wanted, changing))
}

fn field_of(label: &str) -> String {
    format!("labels.{label}")
}

#[async_trait]
impl Tool for Labels {
    fn name(&self) -> ToolName {
        tool::name(self.kind.name())
    }

    fn declares(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::CompareAndSet)
    }

    async fn survey(&self, ask: &Ask<'_>) -> Survey {
        let Ok(wanted) = Wanted::of(ask.fields.clone()) else { return Survey::NotNeeded };
        match wanted.present(&self.api, self.api.patience()).await {
            Ok(present) => Survey::Found(json!({ "present": present })),
            Err(fault) => fault.into(),
        }
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let wanted = Wanted::of(ask.fields.clone())?;
        let found =
            ask.found.and_then(|found| serde_json::from_value::<Vec<String>>(found["present"].clone()).ok());
        let (key, issue) = (self.key(&ask, &wanted)?, &wanted.issue);
        let change = |label: String| FieldChange {
            field: field_of(&label),
            before: found.is_some().then(|| (self.kind == Kind::Remove).into()),
            after: (self.kind == Kind::Add).into(),
        };
        let changes: Vec<_> = self.changing(&wanted, found.as_deref()).into_iter().map(change).collect();
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::CompareAndSet,
            reversibility: if changes.is_empty() { Reversibility::NoEffect } else { Reversibility::Inverse },
            target: issue.target(&self.api),
            key,
            key_retention: None,
            changes,
            destructive: false,
            estimate_microusd: None,
            fields: json!({ "repo": issue.repo.to_string(), "number": issue.number, "labels": wanted.labels }),
        })
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        let outcome = self.attempt(&call).await;
        if call.again { outcome.after_open_attempt() } else { outcome }
    }
}
