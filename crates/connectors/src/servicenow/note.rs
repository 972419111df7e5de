//! `servicenow.work_note`: adds a work note to a record's journal.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Action, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiError, ApiRequest};
use crate::fields::{Fields, invalid};
use crate::marked_post::{self, MarkedPost};
use crate::tool::{self, LookUpResult, Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};

use super::record::Record;

pub(super) const NAME: &str = "servicenow.work_note";

/// Increase it when the meaning of the fields changes.
const CONTRACT: u32 = 1;

/// Longer notes are not readable in the journal view.
const TEXT_BYTES_MAX: usize = 16 * 1024;

const IRREVERSIBLE: &str = "the ServiceNow API cannot change or remove a journal entry";

#[derive(Debug)]
pub(super) struct WorkNote(pub(super) Arc<Api>);

struct Note {
    record: Record,
    text: String,
}

impl Note {
    fn parse(with: Value) -> Result<Self, Failure> {
        let mut fields = Fields::parse(with, &["table", "sys_id", "text"])?;
        // The text of an action ends with the mark, which needs the extra bytes.
        Ok(Self {
            record: Record::take(&mut fields)?,
            text: fields.required_text("text", TEXT_BYTES_MAX + 64)?,
        })
    }

    fn done(&self, how: &str) -> ToolResult {
        let Record { table, sys_id } = &self.record;
        let output = json!({ "table": table, "sys_id": sys_id });
        ToolResult { output, response: json!({ "how": how }), ..ToolResult::default() }
    }
}

impl WorkNote {
    fn key(&self, request: &ProposalRequest<'_>, note: &Note) -> Result<IdempotencyKey, Failure> {
        let hash = marked_post::digest(&note.text, request.run, request.step);
        let Record { table, sys_id } = &note.record;
        let text = format!("sn:{table}:note:{}:{sys_id}:{hash}", self.0.host());
        let key = IdempotencyKey::new(&text).map_err(|error| invalid(error.to_string()))?;
        Ok(if request.reverts { key.reverse() } else { key })
    }
}

fn mark(key: &IdempotencyKey) -> String {
    format!("countersign:{}", marked_post::mark(key))
}

#[async_trait]
impl MarkedPost for WorkNote {
    async fn post(&self, call: &ToolCall<'_>, until: Instant) -> Result<ToolResult, ApiError> {
        let note = Note::parse(call.action.fields.clone()).map_err(ApiError::Terminal)?;
        let request = ApiRequest::patch(&note.record.path(), json!({ "work_notes": note.text }));
        self.0.send(request.with_query("sysparm_fields", "sys_id"), until).await?;
        Ok(note.done("written"))
    }

    async fn find(&self, call: &ToolCall<'_>, until: Instant) -> Result<Option<ToolResult>, ApiError> {
        let note = Note::parse(call.action.fields.clone()).map_err(ApiError::Terminal)?;
        let mark = mark(&call.action.key);
        let query = format!("element_id={}^element=work_notes^valueLIKE{mark}", note.record.sys_id);
        let request = ApiRequest::get(&["api", "now", "table", "sys_journal_field"])
            .with_query("sysparm_query", query)
            .with_query("sysparm_fields", "value")
            .with_query("sysparm_limit", "1");
        let response = self.0.send(request, until).await?;
        // An instance that ignores the query may return any entry.
        let value = response.value["result"][0]["value"].as_str();
        Ok(value.filter(|value| value.contains(&mark)).map(|_| note.done("an earlier attempt had done it")))
    }
}

#[async_trait]
impl Tool for WorkNote {
    fn name(&self) -> ToolName {
        tool::name(NAME)
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::Opaque)
    }

    fn observes(&self) -> bool {
        true
    }

    /// Checks that the record exists before approvers are asked.
    async fn observe(&self, request: &ProposalRequest<'_>) -> Observed {
        let Ok(note) = Note::parse(request.fields.clone()) else { return Observed::NotNeeded };
        match note.record.read(&self.0, &["sys_id"], self.0.deadline()).await {
            Ok(_) => Observed::NotNeeded,
            Err(error) => error.into(),
        }
    }

    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure> {
        let note = Note::parse(request.fields.clone())?;
        if note.text.len() > TEXT_BYTES_MAX {
            return Err(invalid(format!("`text` has more than {TEXT_BYTES_MAX} bytes")));
        }
        let key = self.key(&request, &note)?;
        let text = format!("{}\n\n[{}]", note.text, mark(&key));
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::Opaque,
            reversibility: Reversibility::Irreversible(IRREVERSIBLE.to_owned()),
            target: note.record.target(&self.0),
            key,
            key_retention: None,
            changes: vec![FieldChange {
                field: "work_notes".to_owned(),
                before: None,
                after: text.clone().into(),
            }],
            destructive: false,
            estimate_microusd: None,
            connection: None,
            fields: json!({ "table": note.record.table, "sys_id": note.record.sys_id, "text": text }),
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        marked_post::perform(self, &call).await
    }

    async fn look_up(&self, call: ToolCall<'_>) -> LookUpResult {
        marked_post::look_up(self, &call).await
    }
}
