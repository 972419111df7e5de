//! The JSON payload in Slack's form.

use domain::json;
use serde_json::Value;

use super::{BODY_BYTES_MAX, InvalidInteraction};

/// A payload, or a part of one.
pub(super) struct Payload(Value);

impl Payload {
    /// Parses a form with exactly one field, `payload`. A second one would be ambiguous.
    pub(super) fn new(body: &[u8]) -> Result<Self, InvalidInteraction> {
        if body.len() > BODY_BYTES_MAX {
            return Err(InvalidInteraction::TooLarge { bytes: body.len() });
        }
        let field = body.strip_prefix(b"payload=").ok_or(InvalidInteraction::NotAForm)?;
        let json = decode_field(field).ok_or(InvalidInteraction::NotAForm)?;
        json::parse(&json).map(Self).map_err(InvalidInteraction::Json)
    }

    /// The value at `pointer`; `None` for null.
    pub(super) fn get(&self, pointer: &str) -> Option<&Value> {
        self.0.pointer(pointer).filter(|value| !value.is_null())
    }

    /// The string at `pointer`. Errors call it `field`.
    pub(super) fn text(&self, pointer: &str, field: &'static str) -> Result<&str, InvalidInteraction> {
        self.get(pointer).and_then(Value::as_str).ok_or(InvalidInteraction::Field { field })
    }

    /// The only action; Slack sends one for each press.
    pub(super) fn only_action(&self) -> Result<Self, InvalidInteraction> {
        match self.get("/actions").and_then(Value::as_array).map(Vec::as_slice) {
            Some([action]) => Ok(Self(action.clone())),
            Some(_) | None => Err(InvalidInteraction::Action),
        }
    }

    /// Whether any field marks the user as a bot.
    pub(super) fn is_bot(&self) -> bool {
        self.has_flag("/user/is_bot") || self.has_flag("/user/bot_id") || self.has_flag("/bot_id")
    }

    /// Whether any field marks the user as deactivated. Slack calls such a user deleted.
    pub(super) fn is_deactivated(&self) -> bool {
        self.has_flag("/user/deleted")
            || self.has_flag("/user/deactivated")
            || self.has_flag("/user/is_deleted")
    }

    /// Any value other than `false` or null counts.
    fn has_flag(&self, pointer: &str) -> bool {
        self.get(pointer).is_some_and(|flag| *flag != Value::Bool(false))
    }
}

/// Decodes a form field. `None` if another field follows or an escape is invalid.
fn decode_field(field: &[u8]) -> Option<Vec<u8>> {
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
