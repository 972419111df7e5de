//! `servicenow.work_note`: an entry in a record's journal, for the people who work on it.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Action, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, Fault, Question};
use crate::fields::{Fields, invalid};
use crate::saying::{self, Saying};
use crate::tool::{self, Ask, Call, Done, LookUp, Outcome, Survey, Tool};

use super::record::Record;

pub(super) const NAME: &str = "servicenow.work_note";

/// Grows when the fields change their meaning.
const CONTRACT: u32 = 1;

/// A note is read by people.
const TEXT_BYTES_MAX: usize = 16 * 1024;

const IRREVERSIBLE: &str = "a journal entry cannot be changed or removed over the API";

/// The tool `servicenow.work_note`.
#[derive(Debug)]
pub(super) struct WorkNote(pub(super) Arc<Api>);

/// What is noted, and where.
struct Note {
    record: Record,
    text: String,
}

impl Note {
    fn of(with: Value) -> Result<Self, Failure> {
        let mut fields = Fields::of(with, &["table", "sys_id", "text"])?;
        // An action's text has the mark at its end, hence the room.
        Ok(Self { record: Record::take(&mut fields)?, text: fields.said("text", TEXT_BYTES_MAX + 64)? })
    }

    fn done(&self, how: &str) -> Done {
        let Record { table, sys_id } = &self.record;
        let output = json!({ "table": table, "sys_id": sys_id });
        Done { output, response: json!({ "how": how }), ..Done::default() }
    }
}

impl WorkNote {
    fn key(&self, ask: &Ask<'_>, note: &Note) -> Result<IdempotencyKey, Failure> {
        let hash = saying::digest(&note.text, ask.run, ask.step);
        let Record { table, sys_id } = &note.record;
        let text = format!("sn:{table}:note:{}:{sys_id}:{hash}", self.0.host());
        let key = IdempotencyKey::new(&text).map_err(|error| invalid(error.to_string()))?;
        Ok(if ask.undo { key.undo() } else { key })
    }
}

/// The mark as it stands in the note.
fn mark(key: &IdempotencyKey) -> String {
    format!("countersign:{}", saying::mark(key))
}

#[async_trait]
impl Saying for WorkNote {
    async fn say(&self, call: &Call<'_>, until: Instant) -> Result<Done, Fault> {
        let note = Note::of(call.action.fields.clone()).map_err(Fault::Never)?;
        let question = Question::patch(&note.record.path(), json!({ "work_notes": note.text }));
        self.0.ask(question.with("sysparm_fields", "sys_id"), until).await?;
        Ok(note.done("written"))
    }

    async fn find(&self, call: &Call<'_>, until: Instant) -> Result<Option<Done>, Fault> {
        let note = Note::of(call.action.fields.clone()).map_err(Fault::Never)?;
        let mark = mark(&call.action.key);
        let query = format!("element_id={}^element=work_notes^valueLIKE{mark}", note.record.sys_id);
        let question = Question::get(&["api", "now", "table", "sys_journal_field"])
            .with("sysparm_query", query)
            .with("sysparm_fields", "value")
            .with("sysparm_limit", "1");
        let answer = self.0.ask(question, until).await?;
        // An instance that did not understand the query would send anything.
        let value = answer.value["result"][0]["value"].as_str();
        Ok(value.filter(|value| value.contains(&mark)).map(|_| note.done("an earlier attempt had done it")))
    }
}

#[async_trait]
impl Tool for WorkNote {
    fn name(&self) -> ToolName {
        tool::name(NAME)
    }

    fn declares(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::Opaque)
    }

    /// Only whether there is such a record, so that nobody is asked to approve a note on nothing.
    async fn survey(&self, ask: &Ask<'_>) -> Survey {
        let Ok(note) = Note::of(ask.fields.clone()) else { return Survey::NotNeeded };
        match note.record.read(&self.0, &["sys_id"], self.0.patience()).await {
            Ok(_) => Survey::NotNeeded,
            Err(fault) => fault.into(),
        }
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let note = Note::of(ask.fields.clone())?;
        if note.text.len() > TEXT_BYTES_MAX {
            return Err(invalid(format!("`text` has more than {TEXT_BYTES_MAX} bytes")));
        }
        let key = self.key(&ask, &note)?;
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
            fields: json!({ "table": note.record.table, "sys_id": note.record.sys_id, "text": text }),
        })
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        saying::perform(self, &call).await
    }

    async fn look_up(&self, call: Call<'_>) -> LookUp {
        saying::look_up(self, &call).await
    }
}
