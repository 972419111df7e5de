//! `github.get`: reads an issue or a pull request.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Action, EffectClass, Failure, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::Api;
use crate::fields::Fields;
use crate::tool::{self, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};

use super::issue::{Issue, label_names};

pub(super) const NAME: &str = "github.get";

/// Increase it when the meaning of the fields changes.
const CONTRACT: u32 = 1;

#[derive(Debug)]
pub(super) struct Get(pub(super) Arc<Api>);

fn parse_issue(with: Value) -> Result<Issue, Failure> {
    Issue::take(&mut Fields::parse(with, &["repo", "number"])?)
}

#[async_trait]
impl Tool for Get {
    fn name(&self) -> ToolName {
        tool::name(NAME)
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::ReadOnly)
    }

    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure> {
        let issue = parse_issue(request.fields)?;
        let key = IdempotencyKey::for_step(&self.name(), &request.run.run, request.step);
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::ReadOnly,
            reversibility: Reversibility::NoEffect,
            target: issue.target(&self.0),
            key: if request.reverts { key.reverse() } else { key },
            key_retention: None,
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: None,
            connection: None,
            fields: json!({ "repo": issue.repo.to_string(), "number": issue.number }),
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        let issue = match parse_issue(call.action.fields.clone()) {
            Ok(issue) => issue,
            Err(failure) => return ToolOutcome::Terminal(failure),
        };
        match issue.read(&self.0, &[], Instant::now() + call.time_left).await {
            Ok(reply) => {
                let response = json!({ "status": reply.status });
                ToolOutcome::Done(ToolResult {
                    output: output(&reply.value),
                    response,
                    ..ToolResult::default()
                })
            }
            Err(error) => error.into(),
        }
    }
}

fn output(issue: &Value) -> Value {
    let assignees = issue["assignees"].as_array().map(Vec::as_slice).unwrap_or_default();
    json!({
        "number": issue["number"],
        "title": issue["title"],
        "body": issue["body"],
        "state": issue["state"],
        "author": issue["user"]["login"],
        "assignees": assignees.iter().map(|person| person["login"].clone()).collect::<Value>(),
        "labels": label_names(&issue["labels"]),
        "comments": issue["comments"],
        "is_pull_request": issue.get("pull_request").is_some(),
        "url": issue["html_url"],
    })
}
