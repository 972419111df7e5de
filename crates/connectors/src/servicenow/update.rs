//! `servicenow.update` and `servicenow.assign`: fields of one record, if nobody else has changed it.
//!
//! The two are one change with two ways to ask for it; what an assignment changes is plain from its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Action, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName, json as strict,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, CONFLICT, Fault, Question};
use crate::fields::{Fields, invalid, kind};
use crate::tool::{self, Ask, Call, Done, Outcome, Survey, Tool};

use super::record::{Columns, Record, Values, check_name, text_of};

pub(super) const UPDATE: &str = "servicenow.update";
pub(super) const ASSIGN: &str = "servicenow.assign";

/// Grows when the fields change their meaning.
const CONTRACT: u32 = 1;

/// More than a person would read before saying yes.
const FIELDS_MAX: usize = 32;

/// Long enough for every description, short enough for a card.
const VALUE_BYTES_MAX: usize = 16 * 1024;

/// What the record's version is called.
const MOD_COUNT: &str = "sys_mod_count";

/// The two ways to ask for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Update,
    Assign,
}

/// The tools `servicenow.update` and `servicenow.assign`.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) api: Arc<Api>,
    pub(super) kind: Kind,
}

/// What is wanted.
#[derive(Debug)]
struct Wanted {
    record: Record,
    values: Values,
}

impl Kind {
    fn wanted(self, with: Value) -> Result<Wanted, Failure> {
        match self {
            Self::Update => update(with),
            Self::Assign => assign(with),
        }
    }
}

fn update(with: Value) -> Result<Wanted, Failure> {
    let mut fields = Fields::of(with, &["table", "sys_id", "fields"])?;
    let record = Record::take(&mut fields)?;
    let Some(Value::Object(given)) = fields.take("fields") else {
        return Err(invalid("`fields` must be a map from the names of columns to their values"));
    };
    let values: Values = given.into_iter().map(wanted_value).collect::<Result<_, _>>()?;
    match values.len() {
        0 => Err(invalid("`fields` is empty")),
        many if many > FIELDS_MAX => {
            Err(invalid(format!("`fields` has {many} columns; at most {FIELDS_MAX} are allowed")))
        }
        _ => Ok(Wanted { record, values }),
    }
}

fn assign(with: Value) -> Result<Wanted, Failure> {
    const TO: [&str; 2] = ["assignment_group", "assigned_to"];
    let mut fields = Fields::of(with, &["table", "sys_id", TO[0], TO[1]])?;
    let record = Record::take(&mut fields)?;
    let given = TO.into_iter().filter_map(|name| Some((name.to_owned(), fields.take(name)?)));
    let values: Values = given.map(wanted_value).collect::<Result<_, _>>()?;
    if values.is_empty() {
        return Err(invalid("one of `assignment_group` and `assigned_to` must be there"));
    }
    Ok(Wanted { record, values })
}

/// A column and its value as the instance would show it.
fn wanted_value((name, value): (String, Value)) -> Result<(String, String), Failure> {
    check_name("fields", &name)?;
    if name.starts_with("sys_") {
        return Err(invalid(format!("`{name}` is the instance's own to change")));
    }
    if matches!(name.as_str(), "work_notes" | "comments" | "comments_and_work_notes") {
        return Err(invalid(format!("`{name}` is a journal; use `servicenow.work_note`")));
    }
    let text = match &value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => text_of(&value).unwrap_or_default(),
        other => return Err(invalid(format!("`fields.{name}` is {}; it must be a text", kind(other)))),
    };
    if text.len() > VALUE_BYTES_MAX {
        return Err(invalid(format!("`fields.{name}` has more than {VALUE_BYTES_MAX} bytes")));
    }
    Ok((name, text))
}

/// How the record stands, as far as the change is concerned.
#[derive(Debug, PartialEq)]
struct Stand {
    mod_count: u64,
    values: Values,
}

impl Stand {
    async fn read(api: &Api, record: &Record, wanted: &Values, until: Instant) -> Result<Self, Fault> {
        let names: Vec<&str> = wanted.keys().map(String::as_str).chain([MOD_COUNT]).collect();
        let columns = record.read(api, &names, until).await?;
        Self::of(&columns, wanted).map_err(Fault::Never)
    }

    /// A column that is not sent is none of the table's. The instance would pass it over in silence.
    fn of(columns: &Columns, wanted: &Values) -> Result<Self, Failure> {
        let column = |name: &String| columns.get(name).and_then(text_of).map(|value| (name.clone(), value));
        let missing = |name: &str| Failure::new("NO_SUCH_FIELD", format!("the record has no field `{name}`"));
        let read = |name: &String| column(name).ok_or_else(|| missing(name));
        let values = wanted.keys().map(read).collect::<Result<_, _>>()?;
        let count = columns.get(MOD_COUNT).and_then(text_of).and_then(|count| count.parse().ok());
        Ok(Self { mod_count: count.ok_or_else(|| missing(MOD_COUNT))?, values })
    }

    fn to_found(&self) -> Value {
        json!({ "mod_count": self.mod_count, "values": self.values })
    }

    fn from_found(found: &Value) -> Option<Self> {
        let values = found.get("values")?.as_object()?.iter();
        let values = values.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        Some(Self { mod_count: found.get("mod_count")?.as_u64()?, values: values.collect::<Option<_>>()? })
    }
}

/// Field by field, what would be different. Without a survey every field may be.
fn changes(wanted: &Values, stand: Option<&Stand>) -> Vec<FieldChange> {
    let before = |name: &String| stand.and_then(|stand| stand.values.get(name));
    let differs = |(name, value): &(&String, &String)| before(name) != Some(*value);
    let change = |(name, value): (&String, &String)| FieldChange {
        field: name.clone(),
        before: before(name).cloned().map(Value::String),
        after: value.clone().into(),
    };
    wanted.iter().filter(differs).map(change).collect()
}

/// What an action says, read back.
struct Proposed {
    wanted: Wanted,
    expected: u64,
}

impl Proposed {
    fn of(action: &Action) -> Result<Self, Failure> {
        let mut fields = action.fields.clone();
        let expected = fields.as_object_mut().and_then(|fields| fields.remove("expected_mod_count"));
        let expected = expected.and_then(|count| count.as_u64()).ok_or_else(|| tool::not_surveyed(action))?;
        Ok(Self { wanted: update(fields)?, expected })
    }
}

impl Change {
    fn name(&self) -> ToolName {
        tool::name(match self.kind {
            Kind::Update => UPDATE,
            Kind::Assign => ASSIGN,
        })
    }

    /// The effect's name. The count is part of it: the same values on a record that has moved on are another
    /// change, and a receipt for the earlier one must not stand for it.
    fn key(&self, wanted: &Wanted, expected: Option<u64>) -> Result<IdempotencyKey, Failure> {
        let hash = strict::digest("countersign/servicenow/v1", &json!([wanted.values, expected]));
        let Record { table, sys_id } = &wanted.record;
        let text = format!("sn:{table}:update:{}:{sys_id}:{hash}", self.api.host());
        IdempotencyKey::new(&text).map_err(|error| invalid(error.to_string()))
    }

    async fn attempt(&self, call: &Call<'_>) -> Outcome {
        let Proposed { wanted, expected } = match Proposed::of(call.action) {
            Ok(proposed) => proposed,
            Err(failure) => return Outcome::Terminal(failure),
        };
        let until = Instant::now() + call.time_left;
        let stand = match Stand::read(&self.api, &wanted.record, &wanted.values, until).await {
            Ok(stand) => stand,
            Err(fault) => return fault.into(),
        };
        match (stand.mod_count == expected, stand.values == wanted.values) {
            (true, true) => Outcome::Done(done(call.action, &wanted, "it was so already")),
            (true, false) => self.write(call.action, &wanted, expected, until).await,
            // Our own write landed, or a stranger wanted the same.
            (false, true) if call.again => {
                Outcome::Done(done(call.action, &wanted, "an earlier attempt had done it"))
            }
            (false, _) => Outcome::Terminal(conflict(&wanted.record)),
        }
    }

    async fn write(&self, action: &Action, wanted: &Wanted, expected: u64, until: Instant) -> Outcome {
        let changed = action.changes.iter().map(|change| (change.field.clone(), change.after.clone()));
        let names: Vec<&str> = wanted.values.keys().map(String::as_str).chain([MOD_COUNT]).collect();
        let question = Question::patch(&wanted.record.path(), changed.collect())
            .with("sysparm_query", format!("{MOD_COUNT}={expected}"))
            .with("sysparm_fields", names.join(","))
            .with("sysparm_exclude_reference_link", "true");
        match self.api.ask(question, until).await {
            Ok(answer) => written(action, wanted, expected, &answer.value["result"]),
            Err(fault) if fault.failure().code == CONFLICT => Outcome::Terminal(conflict(&wanted.record)),
            Err(fault) => fault.into(),
        }
    }
}

/// What a write came to. An instance says yes to fields that the user may not write, and passes them over;
/// its rules may put another value in the place of ours.
fn written(action: &Action, wanted: &Wanted, expected: u64, result: &Value) -> Outcome {
    let stand = result.as_object().and_then(|columns| Stand::of(columns, &wanted.values).ok());
    let Some(stand) = stand else { return Outcome::Done(done(action, wanted, "written")) };
    if stand.mod_count == expected {
        return Outcome::Terminal(Failure::new(
            "NOT_TAKEN",
            "the instance said yes and changed nothing; may the user write these fields?",
        ));
    }
    let mut done = done(action, wanted, "written");
    let differs = |(name, value): &(&String, &String)| stand.values.get(*name) != Some(*value);
    let other: Vec<&String> = wanted.values.iter().filter(differs).map(|(name, _)| name).collect();
    if !other.is_empty() {
        done.response["not_as_wanted"] = json!(other);
        done.output["fields"] = json!(stand.values);
    }
    Outcome::Done(done)
}

fn conflict(record: &Record) -> Failure {
    let Record { table, sys_id } = record;
    Failure::new(
        CONFLICT,
        format!("the record changed since it was proposed: {table}/{sys_id}; nothing was written"),
    )
}

fn done(action: &Action, wanted: &Wanted, how: &str) -> Done {
    let Record { table, sys_id } = &wanted.record;
    Done {
        output: json!({ "table": table, "sys_id": sys_id, "fields": wanted.values }),
        response: json!({ "how": how, "changed": action.changes.len() }),
        inverse: inverse(action, &wanted.record),
        ..Done::default()
    }
}

/// Restores what the approver saw, in the fields that were changed and in no others.
fn inverse(action: &Action, record: &Record) -> Option<Value> {
    let before = |change: &FieldChange| Some((change.field.clone(), change.before.clone()?));
    let fields: BTreeMap<_, _> = action.changes.iter().filter_map(before).collect();
    let with = json!({ "table": record.table, "sys_id": record.sys_id, "fields": fields });
    (!fields.is_empty()).then(|| json!({ "tool": UPDATE, "with": with }))
}

#[async_trait]
impl Tool for Change {
    fn name(&self) -> ToolName {
        Self::name(self)
    }

    fn declares(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::CompareAndSet)
    }

    async fn survey(&self, ask: &Ask<'_>) -> Survey {
        // What makes no sense is refused by the proposal, in its own words.
        let Ok(wanted) = self.kind.wanted(ask.fields.clone()) else { return Survey::NotNeeded };
        let until = self.api.patience();
        match Stand::read(&self.api, &wanted.record, &wanted.values, until).await {
            Ok(stand) => Survey::Found(stand.to_found()),
            Err(fault) => fault.into(),
        }
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let wanted = self.kind.wanted(ask.fields)?;
        let stand = ask.found.and_then(Stand::from_found);
        let expected = stand.as_ref().map(|stand| stand.mod_count);
        let changes = changes(&wanted.values, stand.as_ref());
        let key = self.key(&wanted, expected)?;
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::CompareAndSet,
            reversibility: if changes.is_empty() { Reversibility::NoEffect } else { Reversibility::Inverse },
            target: wanted.record.target(&self.api),
            key: if ask.undo { key.undo() } else { key },
            key_retention: None,
            changes,
            destructive: false,
            estimate_microusd: None,
            fields: json!({
                "table": wanted.record.table,
                "sys_id": wanted.record.sys_id,
                "fields": wanted.values,
                "expected_mod_count": expected,
            }),
        })
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        let outcome = self.attempt(&call).await;
        if call.again { outcome.after_open_attempt() } else { outcome }
    }
}
