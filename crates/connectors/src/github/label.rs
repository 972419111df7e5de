//! `github.label` and `github.unlabel`: add and remove labels. Each is the other's inverse.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Action, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName, json as strict,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiError, ApiRequest};
use crate::fields::{Fields, invalid};
use crate::tool::{self, Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};

use super::issue::{Issue, label_names};

pub(super) const LABEL: &str = "github.label";
pub(super) const UNLABEL: &str = "github.unlabel";

/// Increase it when the meaning of the fields changes.
const CONTRACT: u32 = 1;

/// More labels than an issue usefully has.
const LABELS_MAX: usize = 20;

/// GitHub's limit for the name of a label.
const LABEL_CHARS_MAX: usize = 50;

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

struct DesiredLabels {
    issue: Issue,
    labels: Vec<String>,
}

impl DesiredLabels {
    fn parse(with: Value) -> Result<Self, Failure> {
        let mut fields = Fields::parse(with, &["repo", "number", "labels"])?;
        let issue = Issue::take(&mut fields)?;
        let mut labels = fields.string_list("labels")?.ok_or_else(|| invalid("`labels` is missing"))?;
        labels.sort();
        labels.dedup();
        if !(1..=LABELS_MAX).contains(&labels.len()) {
            return Err(invalid(format!("`labels` must be 1 to {LABELS_MAX} names")));
        }
        // Many tools around GitHub read a comma as a separator between two labels.
        let is_valid = |label: &String| {
            (1..=LABEL_CHARS_MAX).contains(&label.chars().count())
                && label.trim() == label
                && !label.contains(|c: char| c.is_control() || c == ',')
                && label.bytes().any(|byte| byte != b'.')
        };
        if !labels.iter().all(is_valid) {
            return Err(invalid(format!(
                "a label has 1 to {LABEL_CHARS_MAX} characters, no comma, and no leading or trailing blanks"
            )));
        }
        Ok(Self { issue, labels })
    }

    /// The requested labels that the issue already has. GitHub ignores case.
    async fn present_labels(&self, api: &Api, until: Instant) -> Result<Vec<String>, ApiError> {
        let request = self.issue.request(&["labels"]).with_query("per_page", "100");
        let current = label_names(&api.send(request, until).await?.value);
        let is_present =
            |label: &&String| current.iter().any(|other| other.to_lowercase() == label.to_lowercase());
        Ok(self.labels.iter().filter(is_present).cloned().collect())
    }
}

impl Labels {
    fn key(&self, request: &ProposalRequest<'_>, desired: &DesiredLabels) -> Result<IdempotencyKey, Failure> {
        let parts = json!([desired.labels, request.run.tenant, request.run.run, request.step]);
        let hash = strict::digest("countersign/github-labels/v1", &parts);
        let (host, Issue { repo, number }) = (self.api.host(), &desired.issue);
        let verb = if self.kind == Kind::Add { "label" } else { "unlabel" };
        let key = IdempotencyKey::new(&format!("gh:{repo}:{verb}:{host}:{number}:{hash}"));
        let key = key.map_err(|error| invalid(error.to_string()))?;
        Ok(if request.reverts { key.reverse() } else { key })
    }

    /// The labels that the call changes. Without observed state, all of them.
    fn changed_labels(&self, desired: &DesiredLabels, present: Option<&[String]>) -> Vec<String> {
        let changes = |label: &&String| {
            present.is_none_or(|present| present.contains(label) == (self.kind == Kind::Remove))
        };
        desired.labels.iter().filter(changes).cloned().collect()
    }

    async fn attempt(&self, call: &ToolCall<'_>) -> ToolOutcome {
        let until = Instant::now() + call.time_left;
        let (desired, changing) = match parse_action(call.action) {
            Ok(proposed) => proposed,
            Err(failure) => return ToolOutcome::Terminal(failure),
        };
        let written = match (self.kind, changing.is_empty()) {
            (_, true) => Ok(()),
            (Kind::Add, false) => self.add(&desired.issue, &changing, until).await.map_err(ToolOutcome::from),
            (Kind::Remove, false) => self.remove(&desired, &changing, until).await,
        };
        match written {
            Ok(()) => ToolOutcome::Done(self.done(&desired, &changing)),
            Err(outcome) => outcome,
        }
    }

    async fn add(&self, issue: &Issue, labels: &[String], until: Instant) -> Result<(), ApiError> {
        let number = issue.number.to_string();
        let path = issue.repo.path(&["issues", &number, "labels"]);
        self.api.send(ApiRequest::post(&path, json!({ "labels": labels })), until).await.map(drop)
    }

    /// GitHub removes one label per request, so a failure after the first removal leaves a partial change.
    async fn remove(
        &self,
        desired: &DesiredLabels,
        labels: &[String],
        until: Instant,
    ) -> Result<(), ToolOutcome> {
        let present = desired.present_labels(&self.api, until).await?;
        let number = desired.issue.number.to_string();
        let mut removed = 0;
        for label in labels.iter().filter(|label| present.contains(label)) {
            let path = desired.issue.repo.path(&["issues", &number, "labels", label]);
            match self.api.send(ApiRequest::delete(&path), until).await {
                Ok(_) => removed += 1,
                // The issue exists, because it was just read. The label is already gone.
                Err(error) if error.is_not_found() => {}
                Err(error) if removed == 0 => return Err(error.into()),
                Err(error) => return Err(ToolOutcome::from(error).after_open_attempt()),
            }
        }
        Ok(())
    }

    fn done(&self, desired: &DesiredLabels, changed: &[String]) -> ToolResult {
        let Issue { repo, number } = &desired.issue;
        let base = json!({ "repo": repo.to_string(), "number": number });
        let (mut output, mut with) = (base.clone(), base);
        output["labels"] = json!(desired.labels);
        with["labels"] = json!(changed);
        ToolResult {
            output,
            response: json!({ "changed": changed.len() }),
            inverse: (!changed.is_empty()).then(|| json!({ "tool": self.kind.inverse(), "with": with })),
            ..ToolResult::default()
        }
    }
}

/// Reads an action back: the labels, and the ones that change.
fn parse_action(action: &Action) -> Result<(DesiredLabels, Vec<String>), Failure> {
    let desired = DesiredLabels::parse(action.fields.clone())?;
    if action.changes.iter().any(|change| change.before.is_none()) {
        return Err(tool::not_observed(action));
    }
    let changes = |label: &&String| action.changes.iter().any(|change| change.field == field_name(label));
    let changing = desired.labels.iter().filter(changes).cloned().collect();
    Ok((desired, changing))
}

fn field_name(label: &str) -> String {
    format!("labels.{label}")
}

#[async_trait]
impl Tool for Labels {
    fn name(&self) -> ToolName {
        tool::name(self.kind.name())
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::CompareAndSet)
    }

    fn observes(&self) -> bool {
        true
    }

    async fn observe(&self, request: &ProposalRequest<'_>) -> Observed {
        let Ok(desired) = DesiredLabels::parse(request.fields.clone()) else { return Observed::NotNeeded };
        match desired.present_labels(&self.api, self.api.deadline()).await {
            Ok(present) => Observed::Found(json!({ "present": present })),
            Err(error) => error.into(),
        }
    }

    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure> {
        let desired = DesiredLabels::parse(request.fields.clone())?;
        let found = request
            .observed
            .and_then(|found| serde_json::from_value::<Vec<String>>(found["present"].clone()).ok());
        let (key, issue) = (self.key(&request, &desired)?, &desired.issue);
        let change = |label: String| FieldChange {
            field: field_name(&label),
            before: found.is_some().then(|| (self.kind == Kind::Remove).into()),
            after: (self.kind == Kind::Add).into(),
        };
        let changes: Vec<_> =
            self.changed_labels(&desired, found.as_deref()).into_iter().map(change).collect();
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
            connection: None,
            fields: json!({ "repo": issue.repo.to_string(), "number": issue.number, "labels": desired.labels }),
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        let outcome = self.attempt(&call).await;
        if call.again { outcome.after_open_attempt() } else { outcome }
    }
}
