//! Reads fields: known names, expected types, values within bounds.

use std::ops::RangeInclusive;
use std::str::FromStr;

use domain::Millis;
use domain::id::InvalidId;
use strum::VariantNames;

use crate::error::{ParseErrorKind, WorkflowError};
use crate::yaml::{Node, YamlValue, key_text};

/// Fields of a later version. They are reported as unsupported, not as unknown.
const LATER_FIELDS: [&str; 2] = ["needs", "credentials"];

/// The fields of a map.
pub(crate) struct Fields<'n> {
    node: &'n Node,
    of: &'static str,
    entries: Vec<(&'n str, &'n Node, &'n Node)>,
}

impl<'n> Fields<'n> {
    /// The fields of `node`. Errors call the map `of`. All fields must be in `known`.
    pub(crate) fn of(
        node: &'n Node,
        of: &'static str,
        known: &'static [&'static str],
    ) -> Result<Self, WorkflowError> {
        let YamlValue::Map(map) = &node.value else { return Err(wrong_type(node, of, "a map")) };
        let mut entries = Vec::with_capacity(map.len());
        for (key, value) in map {
            let name = key_text(key)?;
            if !known.contains(&name) {
                return Err(WorkflowError::of(key, unknown_field(name, of, known)));
            }
            entries.push((name, key, value));
        }
        Ok(Self { node, of, entries })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(field, ..)| *field == name).map(|(_, _, value)| *value)
    }

    pub(crate) fn key(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(field, ..)| *field == name).map(|(_, key, _)| *key)
    }

    pub(crate) fn require(&self, name: &'static str) -> Result<&'n Node, WorkflowError> {
        let missing = || WorkflowError::of(self.node, ParseErrorKind::Missing { of: self.of, field: name });
        self.get(name).ok_or_else(missing)
    }
}

fn unknown_field(name: &str, of: &'static str, expected: &'static [&'static str]) -> ParseErrorKind {
    let field = name.to_owned();
    if LATER_FIELDS.contains(&name) {
        ParseErrorKind::NotSupported { field }
    } else {
        ParseErrorKind::UnknownField { field, of, expected }
    }
}

pub(crate) fn wrong_type(node: &Node, what: &'static str, expected: &'static str) -> WorkflowError {
    WorkflowError::of(node, ParseErrorKind::WrongType { what, expected, found: node.value.name() })
}

pub(crate) fn text<'n>(node: &'n Node, what: &'static str) -> Result<&'n str, WorkflowError> {
    match &node.value {
        YamlValue::Text(text) => Ok(text),
        _ => Err(wrong_type(node, what, "a string")),
    }
}

pub(crate) fn id<T: FromStr<Err = InvalidId>>(node: &Node, what: &'static str) -> Result<T, WorkflowError> {
    text(node, what)?.parse().map_err(|e: InvalidId| WorkflowError::of(node, e.into()))
}

pub(crate) fn flag(node: &Node, what: &'static str) -> Result<bool, WorkflowError> {
    match node.value {
        YamlValue::Bool(flag) => Ok(flag),
        _ => Err(wrong_type(node, what, "`true` or `false`")),
    }
}

pub(crate) fn integer(
    node: &Node,
    what: &'static str,
    bounds: RangeInclusive<u32>,
) -> Result<u32, WorkflowError> {
    let YamlValue::Number(number) = &node.value else { return Err(wrong_type(node, what, "an integer")) };
    let integer = number.as_u64().and_then(|integer| u32::try_from(integer).ok());
    match integer.filter(|integer| bounds.contains(integer)) {
        Some(integer) => Ok(integer),
        None => Err(out_of_range(node, what, number, &bounds)),
    }
}

pub(crate) fn duration(
    node: &Node,
    what: &'static str,
    bounds: RangeInclusive<Millis>,
) -> Result<Millis, WorkflowError> {
    let YamlValue::Text(text) = &node.value else {
        return Err(wrong_type(node, what, "a duration such as `30s`, `10m` or `2h`"));
    };
    let length: Millis = text.parse().map_err(|e| WorkflowError::of(node, ParseErrorKind::Duration(e)))?;
    if bounds.contains(&length) { Ok(length) } else { Err(out_of_range(node, what, &length, &bounds)) }
}

fn out_of_range<T: ToString>(
    node: &Node,
    what: &'static str,
    found: &impl ToString,
    bounds: &RangeInclusive<T>,
) -> WorkflowError {
    let range = format!("{} to {}", bounds.start().to_string(), bounds.end().to_string());
    WorkflowError::of(node, ParseErrorKind::OutOfRange { what, found: found.to_string(), range })
}

/// The variant that the text of `node` names.
pub(crate) fn choice<T: FromStr + VariantNames>(node: &Node, what: &'static str) -> Result<T, WorkflowError> {
    let found = text(node, what)?;
    let not_a_choice = || ParseErrorKind::NotAChoice { what, found: found.to_owned(), expected: T::VARIANTS };
    found.parse().map_err(|_| WorkflowError::of(node, not_a_choice()))
}
