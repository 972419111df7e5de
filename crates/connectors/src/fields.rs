//! Reads the fields of a step's `with`.
//!
//! Unknown fields and values of the wrong type are errors. An error names the field and the type but never repeats
//! the value, which may be a misplaced secret.

use domain::{Failure, Millis, json};
use serde_json::{Map, Value};

/// The failure code for an invalid `with`.
pub(crate) const TOOL_FIELDS: &str = "TOOL_FIELDS";

pub(crate) fn invalid(why: impl AsRef<str>) -> Failure {
    Failure::new(TOOL_FIELDS, why)
}

/// The fields that have not been taken yet.
#[derive(Debug)]
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Fails if `with` has a field that is not in `known`.
    pub(crate) fn parse(with: Value, known: &[&str]) -> Result<Self, Failure> {
        let Value::Object(fields) = with else {
            return Err(invalid(format!("`with` is {}; expected a map", kind(&with))));
        };
        match fields.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                Err(invalid(format!("unknown field `{name}`; known fields are `{}`", known.join("`, `"))))
            }
            None => Ok(Self(fields)),
        }
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Sets a field, for one that was given in another form.
    pub(crate) fn put(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    pub(crate) fn string(&mut self, name: &str) -> Result<Option<String>, Failure> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(invalid(format!("`{name}` is {}; expected a string", kind(&other)))),
        }
    }

    pub(crate) fn required(&mut self, name: &str) -> Result<String, Failure> {
        self.string(name)?.ok_or_else(|| invalid(format!("`{name}` is missing")))
    }

    /// Takes a required string of at most `bytes_max` bytes that is not blank.
    pub(crate) fn required_text(&mut self, name: &str, bytes_max: usize) -> Result<String, Failure> {
        match self.required(name)? {
            text if text.trim().is_empty() => Err(invalid(format!("`{name}` is empty"))),
            text if text.len() > bytes_max => {
                Err(invalid(format!("`{name}` has {} bytes; at most {bytes_max} are allowed", text.len())))
            }
            text => Ok(text),
        }
    }

    pub(crate) fn positive_integer(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => match value.as_u64().filter(|number| (1..=json::INTEGER_MAX).contains(number)) {
                Some(number) => Ok(Some(number)),
                None => Err(invalid(format!("`{name}` must be an integer from 1"))),
            },
        }
    }

    /// Takes a boolean; false if the field is absent.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Failure> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(invalid(format!("`{name}` is {}; expected true or false", kind(&other)))),
        }
    }

    pub(crate) fn string_list(&mut self, name: &str) -> Result<Option<Vec<String>>, Failure> {
        let wrong =
            |value: &Value| invalid(format!("`{name}` contains {}; expected a list of strings", kind(value)));
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

    pub(crate) fn duration(&mut self, name: &str) -> Result<Option<Millis>, Failure> {
        let Some(text) = self.string(name)? else { return Ok(None) };
        match text.parse() {
            Ok(Millis(0)) => Err(invalid(format!("`{name}` is zero; write a duration above zero"))),
            Ok(length) => Ok(Some(length)),
            Err(_) => {
                Err(invalid(format!("`{name}` is not a duration; write `500ms`, `30s`, `10m` or `2h`")))
            }
        }
    }

    pub(crate) fn string_map(&mut self, name: &str) -> Result<Vec<(String, String)>, Failure> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Object(map)) => map.into_iter().map(|entry| text_entry(name, entry)).collect(),
            Some(other) => Err(invalid(format!("`{name}` is {}; expected a map of strings", kind(&other)))),
        }
    }
}

fn text_entry(name: &str, (key, value): (String, Value)) -> Result<(String, String), Failure> {
    match value {
        Value::String(value) => Ok((key, value)),
        other => Err(invalid(format!("`{name}.{key}` is {}; expected a string", kind(&other)))),
    }
}

/// The type of a value, for error messages.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_field_error_lists_known_fields() {
        let error = Fields::parse(json!({"urk": 1}), &["url", "body"]).unwrap_err();
        assert_eq!(error.message, "unknown field `urk`; known fields are `url`, `body`");
        assert!(Fields::parse(json!([]), &["url"]).is_err());
    }

    #[test]
    fn error_names_the_type_and_not_the_value() {
        let mut fields =
            Fields::parse(json!({"a": 7421, "b": {"c": true}, "d": "s3cret"}), &["a", "b", "d"]).unwrap();
        assert_eq!(fields.string("a").unwrap_err().message, "`a` is a number; expected a string");
        assert_eq!(fields.string_map("b").unwrap_err().message, "`b.c` is a boolean; expected a string");
        assert_eq!(fields.string_map("d").unwrap_err().message, "`d` is a string; expected a map of strings");
    }

    #[test]
    fn errors_name_missing_and_wrong_fields() {
        let with = json!({"blank": " ", "long": "abc", "n": 0, "list": ["a", 1], "flag": "yes"});
        let mut fields = Fields::parse(with, &["blank", "long", "n", "list", "flag"]).unwrap();
        assert_eq!(fields.required("absent").unwrap_err().message, "`absent` is missing");
        assert_eq!(fields.required_text("blank", 9).unwrap_err().message, "`blank` is empty");
        assert_eq!(
            fields.required_text("long", 2).unwrap_err().message,
            "`long` has 3 bytes; at most 2 are allowed"
        );
        assert_eq!(fields.positive_integer("n").unwrap_err().message, "`n` must be an integer from 1");
        assert_eq!(
            fields.string_list("list").unwrap_err().message,
            "`list` contains a number; expected a list of strings"
        );
        assert_eq!(fields.flag("flag").unwrap_err().message, "`flag` is a string; expected true or false");
        assert_eq!(fields.flag("absent"), Ok(false));
    }

    #[test]
    fn duration_is_parsed_and_never_zero() {
        let mut fields = Fields::parse(json!({"a": "2m", "b": "0s", "c": "soon"}), &["a", "b", "c"]).unwrap();
        assert_eq!(fields.duration("a"), Ok(Some(Millis::mins(2))));
        assert!(fields.duration("b").is_err());
        assert!(fields.duration("c").is_err());
        assert_eq!(fields.duration("d"), Ok(None));
    }
}
