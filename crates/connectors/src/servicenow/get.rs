//! `servicenow.get`: reads one record.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Action, EffectClass, Failure, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::Api;
use crate::fields::Fields;
use crate::tool::{self, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};

use super::record::{Record, check_name};

pub(super) const NAME: &str = "servicenow.get";

/// Increase it when the meaning of the fields changes.
const CONTRACT: u32 = 1;

#[derive(Debug)]
pub(super) struct Get(pub(super) Arc<Api>);

struct Selection {
    record: Record,
    /// Empty selects all columns.
    names: Vec<String>,
}

impl Selection {
    fn parse(with: Value) -> Result<Self, Failure> {
        let mut fields = Fields::parse(with, &["table", "sys_id", "fields"])?;
        let record = Record::take(&mut fields)?;
        let names = fields.string_list("fields")?.unwrap_or_default();
        names.iter().try_for_each(|name| check_name("fields", name))?;
        Ok(Self { record, names })
    }
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
        let Selection { record, names } = Selection::parse(request.fields)?;
        let key = IdempotencyKey::for_step(&self.name(), &request.run.run, request.step);
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::ReadOnly,
            reversibility: Reversibility::NoEffect,
            target: record.target(&self.0),
            key: if request.reverts { key.reverse() } else { key },
            key_retention: None,
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: None,
            connection: None,
            fields: json!({ "table": record.table, "sys_id": record.sys_id, "fields": names }),
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        let Selection { record, names } = match Selection::parse(call.action.fields.clone()) {
            Ok(selection) => selection,
            Err(failure) => return ToolOutcome::Terminal(failure),
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match record.read(&self.0, &names, Instant::now() + call.time_left).await {
            Ok(columns) => {
                let response = json!({ "columns": columns.len() });
                ToolOutcome::Done(ToolResult {
                    output: Value::Object(columns),
                    response,
                    ..ToolResult::default()
                })
            }
            Err(error) => error.into(),
        }
    }
}
