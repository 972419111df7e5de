//! `servicenow.get`: one record.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Action, EffectClass, Failure, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::Api;
use crate::fields::Fields;
use crate::tool::{self, Ask, Call, Done, Outcome, Tool};

use super::record::{Record, check_name};

pub(super) const NAME: &str = "servicenow.get";

/// Grows when the fields change their meaning.
const CONTRACT: u32 = 1;

/// The tool `servicenow.get`.
#[derive(Debug)]
pub(super) struct Get(pub(super) Arc<Api>);

/// What is read.
struct Wanted {
    record: Record,
    /// All, if empty.
    names: Vec<String>,
}

impl Wanted {
    fn of(with: Value) -> Result<Self, Failure> {
        let mut fields = Fields::of(with, &["table", "sys_id", "fields"])?;
        let record = Record::take(&mut fields)?;
        let names = fields.list("fields")?.unwrap_or_default();
        names.iter().try_for_each(|name| check_name("fields", name))?;
        Ok(Self { record, names })
    }
}

#[async_trait]
impl Tool for Get {
    fn name(&self) -> ToolName {
        tool::name(NAME)
    }

    fn declares(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::ReadOnly)
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let Wanted { record, names } = Wanted::of(ask.fields)?;
        let key = IdempotencyKey::for_step(&self.name(), &ask.run.run, ask.step);
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::ReadOnly,
            reversibility: Reversibility::NoEffect,
            target: record.target(&self.0),
            key: if ask.undo { key.undo() } else { key },
            key_retention: None,
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: None,
            fields: json!({ "table": record.table, "sys_id": record.sys_id, "fields": names }),
        })
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        let Wanted { record, names } = match Wanted::of(call.action.fields.clone()) {
            Ok(wanted) => wanted,
            Err(failure) => return Outcome::Terminal(failure),
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match record.read(&self.0, &names, Instant::now() + call.time_left).await {
            Ok(columns) => {
                let response = json!({ "columns": columns.len() });
                Outcome::Done(Done { output: Value::Object(columns), response, ..Done::default() })
            }
            Err(fault) => fault.into(),
        }
    }
}
