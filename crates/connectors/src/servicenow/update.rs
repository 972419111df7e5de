//! `servicenow.update` and `servicenow.assign`: set fields of one record, unless it changed since the proposal.
//!
//! `assign` is `update` for the two assignment fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Action, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName, json as strict,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiError, ApiRequest, CONFLICT};
use crate::fields::{Fields, invalid, kind};
use crate::tool::{self, Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};

use super::record::{Columns, Record, Values, check_name, text_of};

pub(super) const UPDATE: &str = "servicenow.update";
pub(super) const ASSIGN: &str = "servicenow.assign";

/// Increase it when the meaning of the fields changes.
const CONTRACT: u32 = 1;

/// More fields than an approver can compare.
const FIELDS_MAX: usize = 32;

/// Long enough for a description.
const VALUE_BYTES_MAX: usize = 16 * 1024;

/// ServiceNow's version counter of a record.
const MOD_COUNT: &str = "sys_mod_count";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Update,
    Assign,
}

#[derive(Debug)]
pub(super) struct Change {
    pub(super) api: Arc<Api>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
struct DesiredState {
    record: Record,
    values: Values,
    /// The values that the record must have before the update. A rollback names the values that its step wrote, so that
    /// it does not overwrite a later change.
    expected: Values,
}

impl Kind {
    fn parse(self, with: Value) -> Result<DesiredState, Failure> {
        match self {
            Self::Update => parse_update(with),
            Self::Assign => parse_assign(with),
        }
    }
}

fn parse_update(with: Value) -> Result<DesiredState, Failure> {
    let mut fields = Fields::parse(with, &["table", "sys_id", "fields", "expected"])?;
    let record = Record::take(&mut fields)?;
    let expected = match fields.take("expected") {
        None | Some(Value::Null) => Values::default(),
        Some(Value::Object(given)) => given.into_iter().map(desired_value).collect::<Result<_, _>>()?,
        Some(_) => return Err(invalid("`expected` must be a map from column names to values")),
    };
    let Some(Value::Object(given)) = fields.take("fields") else {
        return Err(invalid("`fields` must be a map from column names to values"));
    };
    let values: Values = given.into_iter().map(desired_value).collect::<Result<_, _>>()?;
    match values.len() {
        0 => Err(invalid("`fields` is empty")),
        many if many > FIELDS_MAX => {
            Err(invalid(format!("`fields` has {many} columns; at most {FIELDS_MAX} are allowed")))
        }
        _ if let Some(name) = expected.keys().find(|name| !values.contains_key(*name)) => {
            Err(invalid(format!("`expected` names the column {name}, which is not in `fields`")))
        }
        _ => Ok(DesiredState { record, values, expected }),
    }
}

fn parse_assign(with: Value) -> Result<DesiredState, Failure> {
    const COLUMNS: [&str; 2] = ["assignment_group", "assigned_to"];
    let mut fields = Fields::parse(with, &["table", "sys_id", COLUMNS[0], COLUMNS[1]])?;
    let record = Record::take(&mut fields)?;
    let given = COLUMNS.into_iter().filter_map(|name| Some((name.to_owned(), fields.take(name)?)));
    let values: Values = given.map(desired_value).collect::<Result<_, _>>()?;
    if values.is_empty() {
        return Err(invalid("`assignment_group` or `assigned_to` is required"));
    }
    Ok(DesiredState { record, values, expected: Values::default() })
}

/// Checks a column and converts its value to a string, as the instance stores it.
fn desired_value((name, value): (String, Value)) -> Result<(String, String), Failure> {
    check_name("fields", &name)?;
    if name.starts_with("sys_") {
        return Err(invalid(format!("`{name}` is maintained by the instance and cannot be set")));
    }
    if matches!(name.as_str(), "work_notes" | "comments" | "comments_and_work_notes") {
        return Err(invalid(format!("`{name}` is a journal field; use `servicenow.work_note`")));
    }
    let text = match &value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => text_of(&value).unwrap_or_default(),
        other => return Err(invalid(format!("`fields.{name}` is {}; expected a string", kind(other)))),
    };
    if text.len() > VALUE_BYTES_MAX {
        return Err(invalid(format!("`fields.{name}` has more than {VALUE_BYTES_MAX} bytes")));
    }
    Ok((name, text))
}

/// The version counter and the fields of the record, as far as the update needs them.
#[derive(Debug, PartialEq)]
struct CurrentState {
    mod_count: u64,
    values: Values,
}

impl CurrentState {
    async fn read(api: &Api, record: &Record, desired: &Values, until: Instant) -> Result<Self, ApiError> {
        let names: Vec<&str> = desired.keys().map(String::as_str).chain([MOD_COUNT]).collect();
        let columns = record.read(api, &names, until).await?;
        Self::parse(&columns, desired).map_err(ApiError::Terminal)
    }

    /// Fails for a column that the response lacks: the table does not have it, and the instance would ignore a write.
    fn parse(columns: &Columns, desired: &Values) -> Result<Self, Failure> {
        let column = |name: &String| columns.get(name).and_then(text_of).map(|value| (name.clone(), value));
        let missing = |name: &str| Failure::new("NO_SUCH_FIELD", format!("the record has no field `{name}`"));
        let read = |name: &String| column(name).ok_or_else(|| missing(name));
        let values = desired.keys().map(read).collect::<Result<_, _>>()?;
        let count = columns.get(MOD_COUNT).and_then(text_of).and_then(|count| count.parse().ok());
        Ok(Self { mod_count: count.ok_or_else(|| missing(MOD_COUNT))?, values })
    }

    fn to_observed(&self) -> Value {
        json!({ "mod_count": self.mod_count, "values": self.values })
    }

    fn from_observed(found: &Value) -> Option<Self> {
        let values = found.get("values")?.as_object()?.iter();
        let values = values.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        Some(Self { mod_count: found.get("mod_count")?.as_u64()?, values: values.collect::<Option<_>>()? })
    }
}

/// Fails if a field has neither the expected value nor the desired one: another user or program has changed it. The
/// message names fields, not values.
fn check_expected(desired: &DesiredState, current: &CurrentState) -> Result<(), Failure> {
    let is_other = |(name, expected): &(&String, &String)| {
        let current = current.values.get(*name);
        current != Some(*expected) && current != desired.values.get(*name)
    };
    let changed: Vec<&str> =
        desired.expected.iter().filter(is_other).map(|(name, _)| name.as_str()).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let (Record { table, sys_id }, changed) = (&desired.record, changed.join(", "));
    let text = format!(
        "the record {table}/{sys_id} no longer has the expected values of {changed}; nothing was written"
    );
    Err(Failure::new(CONFLICT, text))
}

/// The fields that the call changes. Without observed state, all of them.
fn changes(desired: &Values, current: Option<&CurrentState>) -> Vec<FieldChange> {
    let before = |name: &String| current.and_then(|current| current.values.get(name));
    let differs = |(name, value): &(&String, &String)| before(name) != Some(*value);
    let change = |(name, value): (&String, &String)| FieldChange {
        field: name.clone(),
        before: before(name).cloned().map(Value::String),
        after: value.clone().into(),
    };
    desired.iter().filter(differs).map(change).collect()
}

/// An action, read back.
struct Proposed {
    desired: DesiredState,
    expected: u64,
}

impl Proposed {
    fn parse(action: &Action) -> Result<Self, Failure> {
        let mut fields = action.fields.clone();
        let expected = fields.as_object_mut().and_then(|fields| fields.remove("expected_mod_count"));
        let expected = expected.and_then(|count| count.as_u64()).ok_or_else(|| tool::not_observed(action))?;
        Ok(Self { desired: parse_update(fields)?, expected })
    }
}

impl Change {
    fn name(&self) -> ToolName {
        tool::name(match self.kind {
            Kind::Update => UPDATE,
            Kind::Assign => ASSIGN,
        })
    }

    /// The key includes the observed count: the same values on a record that has changed since are another effect,
    /// and the earlier receipt must not cover it.
    fn key(&self, desired: &DesiredState, expected: Option<u64>) -> Result<IdempotencyKey, Failure> {
        let hash = strict::digest("countersign/servicenow/v1", &json!([desired.values, expected]));
        let Record { table, sys_id } = &desired.record;
        let text = format!("sn:{table}:update:{}:{sys_id}:{hash}", self.api.host());
        IdempotencyKey::new(&text).map_err(|error| invalid(error.to_string()))
    }

    async fn attempt(&self, call: &ToolCall<'_>) -> ToolOutcome {
        let Proposed { desired, expected } = match Proposed::parse(call.action) {
            Ok(proposed) => proposed,
            Err(failure) => return ToolOutcome::Terminal(failure),
        };
        let until = Instant::now() + call.time_left;
        let current = match CurrentState::read(&self.api, &desired.record, &desired.values, until).await {
            Ok(current) => current,
            Err(error) => return error.into(),
        };
        match (current.mod_count == expected, current.values == desired.values) {
            (true, true) => ToolOutcome::Done(done(call.action, &desired, "no change was needed")),
            (true, false) => self.write(call.action, &desired, expected, until).await,
            // This action's earlier write arrived, or another user set the same values.
            (false, true) if call.again => {
                ToolOutcome::Done(done(call.action, &desired, "an earlier attempt had done it"))
            }
            (false, _) => ToolOutcome::Terminal(conflict(&desired.record)),
        }
    }

    async fn write(
        &self,
        action: &Action,
        desired: &DesiredState,
        expected: u64,
        until: Instant,
    ) -> ToolOutcome {
        let changed = action.changes.iter().map(|change| (change.field.clone(), change.after.clone()));
        let names: Vec<&str> = desired.values.keys().map(String::as_str).chain([MOD_COUNT]).collect();
        let request = ApiRequest::patch(&desired.record.path(), changed.collect())
            .with_query("sysparm_query", format!("{MOD_COUNT}={expected}"))
            .with_query("sysparm_fields", names.join(","))
            .with_query("sysparm_exclude_reference_link", "true");
        match self.api.send(request, until).await {
            Ok(response) => check_written(action, desired, expected, &response.value["result"]),
            Err(error) if error.failure().code == CONFLICT => {
                ToolOutcome::Terminal(conflict(&desired.record))
            }
            Err(error) => error.into(),
        }
    }
}

/// Compares the record after a write. An instance silently ignores fields that the user may not write, and its rules
/// may set other values.
fn check_written(action: &Action, desired: &DesiredState, expected: u64, result: &Value) -> ToolOutcome {
    let current = result.as_object().and_then(|columns| CurrentState::parse(columns, &desired.values).ok());
    let Some(current) = current else { return ToolOutcome::Done(done(action, desired, "written")) };
    if current.mod_count == expected {
        return ToolOutcome::Terminal(Failure::new(
            "UPDATE_IGNORED",
            "the instance accepted the request and changed nothing; check that the user may write these fields",
        ));
    }
    let mut done = done(action, desired, "written");
    done.inverse = inverse(action, &desired.record, &current.values);
    let differs = |(name, value): &(&String, &String)| current.values.get(*name) != Some(*value);
    let other: Vec<&String> = desired.values.iter().filter(differs).map(|(name, _)| name).collect();
    if !other.is_empty() {
        done.response["unexpected_fields"] = json!(other);
        done.output["fields"] = json!(current.values);
    }
    ToolOutcome::Done(done)
}

fn conflict(record: &Record) -> Failure {
    let Record { table, sys_id } = record;
    Failure::new(
        CONFLICT,
        format!("the record {table}/{sys_id} changed since it was proposed; nothing was written"),
    )
}

fn done(action: &Action, desired: &DesiredState, how: &str) -> ToolResult {
    let Record { table, sys_id } = &desired.record;
    ToolResult {
        output: json!({ "table": table, "sys_id": sys_id, "fields": desired.values }),
        response: json!({ "how": how, "changed": action.changes.len() }),
        inverse: inverse(action, &desired.record, &desired.values),
        ..ToolResult::default()
    }
}

/// Restores the values that the approver saw, in the changed fields only, unless they changed again since.
fn inverse(action: &Action, record: &Record, written: &Values) -> Option<Value> {
    let before = |change: &FieldChange| Some((change.field.clone(), change.before.clone()?));
    let fields: BTreeMap<_, _> = action.changes.iter().filter_map(before).collect();
    let expected: BTreeMap<_, _> = written.iter().filter(|(name, _)| fields.contains_key(*name)).collect();
    let with =
        json!({ "table": record.table, "sys_id": record.sys_id, "fields": fields, "expected": expected });
    (!fields.is_empty()).then(|| json!({ "tool": UPDATE, "with": with }))
}

#[async_trait]
impl Tool for Change {
    fn name(&self) -> ToolName {
        Self::name(self)
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::CompareAndSet)
    }

    fn observes(&self) -> bool {
        true
    }

    async fn observe(&self, request: &ProposalRequest<'_>) -> Observed {
        // `propose` reports invalid fields.
        let Ok(desired) = self.kind.parse(request.fields.clone()) else { return Observed::NotNeeded };
        let until = self.api.deadline();
        match CurrentState::read(&self.api, &desired.record, &desired.values, until).await {
            Ok(current) => Observed::Found(current.to_observed()),
            Err(error) => error.into(),
        }
    }

    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure> {
        let desired = self.kind.parse(request.fields)?;
        let current = request.observed.and_then(CurrentState::from_observed);
        if let Some(current) = &current {
            check_expected(&desired, current)?;
        }
        let expected = current.as_ref().map(|current| current.mod_count);
        let changes = changes(&desired.values, current.as_ref());
        let key = self.key(&desired, expected)?;
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::CompareAndSet,
            reversibility: if changes.is_empty() { Reversibility::NoEffect } else { Reversibility::Inverse },
            target: desired.record.target(&self.api),
            key: if request.reverts { key.reverse() } else { key },
            key_retention: None,
            changes,
            destructive: false,
            estimate_microusd: None,
            connection: None,
            fields: json!({
                "table": desired.record.table,
                "sys_id": desired.record.sys_id,
                "fields": desired.values,
                "expected_mod_count": expected,
            }),
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        let outcome = self.attempt(&call).await;
        if call.again { outcome.after_open_attempt() } else { outcome }
    }
}
