//! The JSON in Slack's form.

use domain::json;
use serde_json::Value;

use super::{BODY_BYTES_MAX, InvalidInteraction};

/// A payload, or a part of one.
pub(super) struct Payload(Value);

impl Payload {
    /// The payload in a form that has this one field and no other: a second `payload` would leave it to the
    /// reader which one counts.
    pub(super) fn of(body: &[u8]) -> Result<Self, InvalidInteraction> {
        if body.len() > BODY_BYTES_MAX {
            return Err(InvalidInteraction::TooLarge { bytes: body.len() });
        }
        let field = body.strip_prefix(b"payload=").ok_or(InvalidInteraction::NotAForm)?;
        let json = decoded(field).ok_or(InvalidInteraction::NotAForm)?;
        json::parse(&json).map(Self).map_err(InvalidInteraction::Json)
    }

    /// What stands at `pointer`; `null` is nothing.
    pub(super) fn get(&self, pointer: &str) -> Option<&Value> {
        self.0.pointer(pointer).filter(|value| !value.is_null())
    }

    /// The text at `pointer`, which a person would call `field`.
    pub(super) fn text(&self, pointer: &str, field: &'static str) -> Result<&str, InvalidInteraction> {
        self.get(pointer).and_then(Value::as_str).ok_or(InvalidInteraction::Field { field })
    }

    /// The one action; Slack sends one for each press.
    pub(super) fn only_action(&self) -> Result<Self, InvalidInteraction> {
        match self.get("/actions").and_then(Value::as_array).map(Vec::as_slice) {
            Some([action]) => Ok(Self(action.clone())),
            Some(_) | None => Err(InvalidInteraction::Action),
        }
    }

    /// Whether anything says that this was no person.
    pub(super) fn is_bot(&self) -> bool {
        let flag = |pointer| self.get(pointer).is_some_and(|flag| *flag != Value::Bool(false));
        flag("/user/is_bot") || flag("/user/bot_id") || flag("/bot_id")
    }
}

/// The bytes of a form's field; nothing if there is another field, or an escape is broken.
fn decoded(field: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'&' | b'=' => return None,
            b'+' => b' ',
            b'%' => nibble(*rest.next()?)? << 4 | nibble(*rest.next()?)?,
            byte => *byte,
        });
    }
    Some(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
