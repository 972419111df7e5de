//! A record, and reading it.

use std::collections::BTreeMap;

use domain::Failure;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::api::{Api, Fault, Question, REPLY_INVALID};
use crate::fields::{Fields, invalid};

/// ServiceNow's own limit for the names of tables and columns.
const NAME_BYTES_MAX: usize = 80;

/// A record: which table, which row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) table: String,
    pub(super) sys_id: String,
}

impl Record {
    /// Takes `table` and `sys_id` out of `fields`. Both become part of a path and of a key.
    pub(super) fn take(fields: &mut Fields) -> Result<Self, Failure> {
        let table = fields.required("table")?;
        check_name("table", &table)?;
        let sys_id = fields.required("sys_id")?;
        let is_hex = sys_id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if sys_id.len() != 32 || !is_hex {
            return Err(invalid("`sys_id` must be 32 lower-case hex digits"));
        }
        Ok(Self { table, sys_id })
    }

    pub(super) fn path(&self) -> [&str; 5] {
        ["api", "now", "table", &self.table, &self.sys_id]
    }

    pub(super) fn target(&self, api: &Api) -> String {
        format!("{}/{}/{}", api.host(), self.table, self.sys_id)
    }

    /// The record's columns; only those in `names`, if there are any.
    pub(super) async fn read(&self, api: &Api, names: &[&str], until: Instant) -> Result<Columns, Fault> {
        let mut question = Question::get(&self.path())
            .with("sysparm_display_value", "false")
            .with("sysparm_exclude_reference_link", "true");
        if !names.is_empty() {
            question = question.with("sysparm_fields", names.join(","));
        }
        let mut answer = api.ask(question, until).await?;
        match answer.value["result"].take() {
            Value::Object(columns) => Ok(columns),
            _ => Err(Fault::Never(Failure::new(REPLY_INVALID, format!("{} sent no record", api.host())))),
        }
    }
}

/// Columns and their values, as the instance sends them.
pub(super) type Columns = Map<String, Value>;

/// Columns and the values that are wanted, or stand, there.
pub(super) type Values = BTreeMap<String, String>;

/// Holds the name of a table or a column to what ServiceNow calls one.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), Failure> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) {
        return Err(invalid(format!(
            "`{what}` must be 1 to {NAME_BYTES_MAX} lower-case letters, digits and underscores"
        )));
    }
    Ok(())
}

/// A value as the instance means it: a reference counts by what it refers to.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(reference) => reference.get("value").and_then(text_of),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null => Some(String::new()),
        Value::Array(_) => None,
    }
}
