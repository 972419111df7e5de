//! Reading what a workflow says in `with`, name by name.
//!
//! A name that a tool does not know is an error, and so is a value of the wrong kind. Errors tell names
//! and kinds, never values: a value may be a secret that somebody put in the wrong place.

use domain::{Failure, Millis, json};
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

    /// Takes a text that must be there.
    pub(crate) fn required(&mut self, name: &str) -> Result<String, Failure> {
        self.text(name)?.ok_or_else(|| invalid(format!("`{name}` is missing")))
    }

    /// Takes a text that must be there and is no longer than `bytes_max`; an empty one says nothing.
    pub(crate) fn said(&mut self, name: &str, bytes_max: usize) -> Result<String, Failure> {
        match self.required(name)? {
            text if text.trim().is_empty() => Err(invalid(format!("`{name}` is empty"))),
            text if text.len() > bytes_max => {
                Err(invalid(format!("`{name}` has {} bytes; at most {bytes_max} are allowed", text.len())))
            }
            text => Ok(text),
        }
    }

    /// Takes a whole number from 1 on.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => match value.as_u64().filter(|number| (1..=json::INTEGER_MAX).contains(number)) {
                Some(number) => Ok(Some(number)),
                None => Err(invalid(format!("`{name}` must be a whole number from 1 on"))),
            },
        }
    }

    /// Takes a truth value; false if there is none.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Failure> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(invalid(format!("`{name}` is {}; it must be true or false", kind(&other)))),
        }
    }

    /// Takes a list of texts.
    pub(crate) fn list(&mut self, name: &str) -> Result<Option<Vec<String>>, Failure> {
        let wrong =
            |value: &Value| invalid(format!("`{name}` holds {}; it must be a list of texts", kind(value)));
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(items)) => {
                let texts = items.into_iter().map(|item| match item {
                    Value::String(text) => Ok(text),
                    other => Err(wrong(&other)),
                });
                texts.collect::<Result<_, _>>().map(Some)
            }
            Some(other) => Err(wrong(&other)),
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
pub(crate) fn kind(value: &Value) -> &'static str {
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
    fn what_must_be_there_and_what_it_must_be_is_said() {
        let with = json!({"blank": " ", "long": "abc", "n": 0, "list": ["a", 1], "flag": "yes"});
        let mut fields = Fields::of(with, &["blank", "long", "n", "list", "flag"]).unwrap();
        assert_eq!(fields.required("absent").unwrap_err().message, "`absent` is missing");
        assert_eq!(fields.said("blank", 9).unwrap_err().message, "`blank` is empty");
        assert_eq!(fields.said("long", 2).unwrap_err().message, "`long` has 3 bytes; at most 2 are allowed");
        assert_eq!(fields.number("n").unwrap_err().message, "`n` must be a whole number from 1 on");
        assert_eq!(
            fields.list("list").unwrap_err().message,
            "`list` holds a number; it must be a list of texts"
        );
        assert_eq!(fields.flag("flag").unwrap_err().message, "`flag` is a text; it must be true or false");
        assert_eq!(fields.flag("absent"), Ok(false));
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
