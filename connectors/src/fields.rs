//! Reading what a workflow says in `with`, name by name.
//!
//! A name that a tool does not know is an error, and so is a value of the wrong kind. Errors tell names
//! and kinds, never values: a value may be a secret that somebody put in the wrong place.

use domain::{Failure, Millis};
use serde_json::{Map, Value};

/// The code of a failure whose cause is the step's `with`.
pub(crate) const TOOL_FIELDS: &str = "TOOL_FIELDS";

/// A failure whose cause is the step's `with`.
pub(crate) fn invalid(why: impl AsRef<str>) -> Failure {
    Failure::new(TOOL_FIELDS, why)
}

/// The fields of a call that nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// The fields in `with`, every one of which must be `known`.
    pub(crate) fn of(with: Value, known: &[&str]) -> Result<Self, Failure> {
        let Value::Object(fields) = with else {
            return Err(invalid(format!("`with` is {}; it must be a map", kind(&with))));
        };
        match fields.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(invalid(format!("unknown field `{name}`; known are `{}`", known.join("`, `")))),
            None => Ok(Self(fields)),
        }
    }

    /// Takes a field whatever it is.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Takes a text.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Failure> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(invalid(format!("`{name}` is {}; it must be a text", kind(&other)))),
        }
    }

    /// Takes a length of time.
    pub(crate) fn length(&mut self, name: &str) -> Result<Option<Millis>, Failure> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.parse() {
            Ok(Millis(0)) => Err(invalid(format!("`{name}` is no time at all"))),
            Ok(length) => Ok(Some(length)),
            Err(_) => {
                Err(invalid(format!("`{name}` is not a length of time; write `500ms`, `30s`, `10m` or `2h`")))
            }
        }
    }

    /// Takes a map from text to text.
    pub(crate) fn texts(&mut self, name: &str) -> Result<Vec<(String, String)>, Failure> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Object(map)) => map.into_iter().map(|entry| text_entry(name, entry)).collect(),
            Some(other) => Err(invalid(format!("`{name}` is {}; it must be a map of texts", kind(&other)))),
        }
    }
}

fn text_entry(name: &str, (key, value): (String, Value)) -> Result<(String, String), Failure> {
    match value {
        Value::String(value) => Ok((key, value)),
        other => Err(invalid(format!("`{name}.{key}` is {}; it must be a text", kind(&other)))),
    }
}

/// What a value is, for a person.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_unknown_field_is_an_error_that_names_the_known_ones() {
        let error = Fields::of(json!({"urk": 1}), &["url", "body"]).unwrap_err();
        assert_eq!(error.message, "unknown field `urk`; known are `url`, `body`");
        assert!(Fields::of(json!([]), &["url"]).is_err());
    }

    #[test]
    fn an_error_tells_the_kind_of_a_value_and_not_the_value() {
        let mut fields =
            Fields::of(json!({"a": 7421, "b": {"c": true}, "d": "s3cret"}), &["a", "b", "d"]).unwrap();
        assert_eq!(fields.text("a").unwrap_err().message, "`a` is a number; it must be a text");
        assert_eq!(fields.texts("b").unwrap_err().message, "`b.c` is a truth value; it must be a text");
        assert_eq!(fields.texts("d").unwrap_err().message, "`d` is a text; it must be a map of texts");
    }

    #[test]
    fn a_length_of_time_is_read_and_never_zero() {
        let mut fields = Fields::of(json!({"a": "2m", "b": "0s", "c": "soon"}), &["a", "b", "c"]).unwrap();
        assert_eq!(fields.length("a"), Ok(Some(Millis::mins(2))));
        assert!(fields.length("b").is_err());
        assert!(fields.length("c").is_err());
        assert_eq!(fields.length("d"), Ok(None));
    }
}
