//! Strict JSON parsing and canonical JSON.
//!
//! [`parse`] accepts untrusted bytes and returns a value that every reader understands the same way. It rejects
//! duplicate keys, integers that a double cannot hold, numbers out of range, invalid UTF-8, lone surrogates, deep nesting
//! and large documents. A string may contain any character: control characters are escaped where text is displayed.
//! [`check`] applies the same rules to a value made in the process, such as a step's result. [`canonical`] writes a value
//! in the canonical form of RFC 8785, which is the form that is hashed.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::digest::Digest;

/// Deeper than real documents, and safe for the stack.
pub const DEPTH_MAX: usize = 64;

/// The maximum size of a document. Larger payloads belong in a file store, by reference.
pub const BYTES_MAX: usize = 8 * 1024 * 1024;

/// The largest integer that a double holds exactly, as does every smaller one: 2^53 − 1.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// The maximum length of a key quoted in an error.
const NAME_SHOWN_MAX: usize = 64;

/// Why a document is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJson {
    /// No bytes.
    #[error("the document is empty")]
    Empty,
    /// More than [`BYTES_MAX`].
    #[error("the document has {bytes} bytes; the maximum is {BYTES_MAX}")]
    TooLarge {
        /// The size.
        bytes: usize,
    },
    /// Not JSON, or JSON that readers understand differently.
    #[error("{message} at line {line} column {column}")]
    Syntax {
        /// The error.
        message: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// A value made in the process breaks a rule of [`parse`].
    #[error("{0}")]
    Value(String),
}

/// Parses one document of at most [`BYTES_MAX`] bytes.
pub fn parse(bytes: &[u8]) -> Result<Value, InvalidJson> {
    if bytes.is_empty() {
        return Err(InvalidJson::Empty);
    }
    if bytes.len() > BYTES_MAX {
        return Err(InvalidJson::TooLarge { bytes: bytes.len() });
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth: 0 }.deserialize(&mut reader).map_err(syntax_error)?;
    reader.end().map_err(syntax_error)?;
    Ok(value)
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` gives the error away")]
fn syntax_error(error: serde_json::Error) -> InvalidJson {
    let (line, column) = (error.line(), error.column());
    // serde_json repeats the position at the end of its message.
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message).to_owned();
    InvalidJson::Syntax { message, line, column }
}

/// Checks a value against the rules of [`parse`].
pub fn check(value: &Value) -> Result<(), InvalidJson> {
    check_nested(value, 0).map_err(InvalidJson::Value)
}

fn check_nested(value: &Value, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
        Value::Number(number) => check_number(number),
        Value::Array(items) => items.iter().try_for_each(|item| check_nested(item, depth + 1)),
        Value::Object(fields) => fields.values().try_for_each(|field| check_nested(field, depth + 1)),
    }
}

fn too_deep() -> String {
    format!("nested more than {DEPTH_MAX} levels deep")
}

fn check_number(number: &Number) -> Result<(), String> {
    let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
    match magnitude {
        Some(magnitude) if magnitude > INTEGER_MAX => Err(too_large(&number.to_string())),
        // Many parsers read a whole number with a fraction part as an integer.
        None if number.as_f64().is_some_and(|f| f.fract() == 0.0 && f.abs() >= 9_007_199_254_740_992.0) => {
            Err(too_large(&number.to_string()))
        }
        Some(_) | None => Ok(()),
    }
}

fn too_large(number: &str) -> String {
    format!("the integer {number} is beyond 2^53 and would be rounded; send it as a string")
}

/// The canonical bytes of `value` (RFC 8785).
///
/// # Panics
/// Never for a value that serializes to JSON with text keys, which is all this crate hashes.
#[expect(clippy::expect_used, reason = "plain data with text keys always serializes")]
pub fn canonical<T: serde::Serialize>(value: &T) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).expect("plain data serializes")
}

/// The digest of the canonical bytes of `value`, under `tag`.
pub fn digest<T: serde::Serialize>(tag: &str, value: &T) -> Digest {
    Digest::of_parts(tag, &[canonical(value)])
}

struct Strict {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.depth > DEPTH_MAX {
            return Err(D::Error::custom(too_deep()));
        }
        deserializer.deserialize_any(self)
    }
}

impl Strict {
    fn deeper(&self) -> Self {
        Self { depth: self.depth + 1 }
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Value, E> {
        checked_number(number.into())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Value, E> {
        checked_number(number.into())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        let number = Number::from_f64(number).ok_or_else(|| E::custom("number out of range"))?;
        checked_number(number)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self.deeper())? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if object.contains_key(&name) {
                let shown: String = name.chars().take(NAME_SHOWN_MAX).collect();
                return Err(A::Error::custom(format!("the key {shown:?} appears twice in one object")));
            }
            let field = fields.next_value_seed(self.deeper())?;
            object.insert(name, field);
        }
        Ok(Value::Object(object))
    }
}

fn checked_number<E: serde::de::Error>(number: Number) -> Result<Value, E> {
    check_number(&number).map_err(E::custom)?;
    Ok(Value::Number(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse_error(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn plain_document_parses() {
        let text = r#"{"a":[1,-2,3.5,"x",null,true],"b":{"c":9007199254740991}}"#;
        assert_eq!(parse(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn ambiguous_json_is_rejected_with_position() {
        assert_eq!(
            parse_error(r#"{"a":1,"a":2}"#),
            "the key \"a\" appears twice in one object at line 1 column 10"
        );
        assert!(parse_error("9007199254740993").contains("beyond 2^53"));
        assert!(parse_error("-9007199254740993").contains("beyond 2^53"));
        assert!(parse_error("9007199254740993.0").contains("beyond 2^53"));
        assert!(parse_error("1e400").contains("out of range"));
        assert!(parse_error("[1] 2").contains("trailing"));
    }

    #[test]
    fn nesting_depth_is_bounded() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert!(parse_error(&deep).contains("nested more than"));
        let allowed = "[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX);
        assert!(parse(allowed.as_bytes()).is_ok());
    }

    #[test]
    fn check_applies_the_rules_of_parse() {
        assert!(check(&json!({"a": 1})).is_ok());
        assert!(check(&json!(u64::MAX)).is_err());
        assert!(check(&json!("a\u{1}b")).is_ok());
    }

    #[test]
    fn canonical_bytes_ignore_spelling() {
        let one = parse(br#"{"b":1.0,"a":"\u00e4"}"#).unwrap();
        let two = parse("{\"a\":\"ä\",\"b\":1}".as_bytes()).unwrap();
        assert_eq!(canonical(&one), canonical(&two));
    }
}
