use std::collections::BTreeMap;

use domain::Failure;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::api::{Api, ApiError, ApiRequest, REPLY_INVALID};
use crate::fields::{Fields, invalid};

/// ServiceNow's limit for the names of tables and columns.
const NAME_BYTES_MAX: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) table: String,
    pub(super) sys_id: String,
}

impl Record {
    /// Takes `table` and `sys_id` out of `fields`. Both are checked because they become part of a path and of a key.
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

    /// Reads the columns in `names`; all columns if it is empty.
    pub(super) async fn read(&self, api: &Api, names: &[&str], until: Instant) -> Result<Columns, ApiError> {
        let mut request = ApiRequest::get(&self.path())
            .with_query("sysparm_display_value", "false")
            .with_query("sysparm_exclude_reference_link", "true");
        if !names.is_empty() {
            request = request.with_query("sysparm_fields", names.join(","));
        }
        let mut response = api.send(request, until).await?;
        match response.value["result"].take() {
            Value::Object(columns) => Ok(columns),
            _ => Err(ApiError::Terminal(Failure::new(
                REPLY_INVALID,
                format!("{} returned no record", api.host()),
            ))),
        }
    }
}

/// Columns as the instance returns them.
pub(super) type Columns = Map<String, Value>;

/// Column values as strings.
pub(super) type Values = BTreeMap<String, String>;

/// Checks the name of a table or a column.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), Failure> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) {
        return Err(invalid(format!(
            "`{what}` must be 1 to {NAME_BYTES_MAX} lower-case letters, digits and underscores"
        )));
    }
    Ok(())
}

/// A column's value as a string. A reference becomes the id that it refers to.
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
