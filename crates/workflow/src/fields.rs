//! Reading fields: known names, right kinds, values within bounds.

use std::ops::RangeInclusive;
use std::str::FromStr;

use domain::Millis;
use domain::id::InvalidId;

use crate::error::{Fault, WorkflowError};
use crate::yaml::{Kind, Node, key_text};

/// Fields that later versions bring; whoever writes them has read ahead, not mistyped.
const LATER: [&str; 2] = ["needs", "credentials"];

/// The fields of a map.
pub(crate) struct Fields<'n> {
    node: &'n Node,
    of: &'static str,
    entries: Vec<(&'n str, &'n Node, &'n Node)>,
}

impl<'n> Fields<'n> {
    /// The fields of `node`, which is `of`; all of them are among `known`.
    pub(crate) fn of(
        node: &'n Node,
        of: &'static str,
        known: &'static [&'static str],
    ) -> Result<Self, WorkflowError> {
        let Kind::Map(map) = &node.value else { return Err(wrong_kind(node, of, "a map")) };
        let mut entries = Vec::with_capacity(map.len());
        for (key, value) in map {
            let name = key_text(key)?;
            if !known.contains(&name) {
                return Err(WorkflowError::of(key, unknown(name, of, known)));
            }
            entries.push((name, key, value));
        }
        Ok(Self { node, of, entries })
    }

    /// The field called `name`, if it is there.
    pub(crate) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(field, ..)| *field == name).map(|(_, _, value)| *value)
    }

    /// The key called `name`, if it is there.
    pub(crate) fn key(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(field, ..)| *field == name).map(|(_, key, _)| *key)
    }

    /// The field called `name`, which must be there.
    pub(crate) fn need(&self, name: &'static str) -> Result<&'n Node, WorkflowError> {
        let missing = || WorkflowError::of(self.node, Fault::Missing { of: self.of, field: name });
        self.get(name).ok_or_else(missing)
    }
}

fn unknown(name: &str, of: &'static str, expected: &'static [&'static str]) -> Fault {
    let field = name.to_owned();
    if LATER.contains(&name) { Fault::NotYet { field } } else { Fault::UnknownField { field, of, expected } }
}

pub(crate) fn wrong_kind(node: &Node, what: &'static str, expected: &'static str) -> WorkflowError {
    WorkflowError::of(node, Fault::WrongKind { what, expected, found: node.value.name() })
}

/// A text.
pub(crate) fn text<'n>(node: &'n Node, what: &'static str) -> Result<&'n str, WorkflowError> {
    match &node.value {
        Kind::Text(text) => Ok(text),
        _ => Err(wrong_kind(node, what, "a text")),
    }
}

/// An id.
pub(crate) fn id<T: FromStr<Err = InvalidId>>(node: &Node, what: &'static str) -> Result<T, WorkflowError> {
    text(node, what)?.parse().map_err(|e: InvalidId| WorkflowError::of(node, e.into()))
}

/// `true` or `false`.
pub(crate) fn flag(node: &Node, what: &'static str) -> Result<bool, WorkflowError> {
    match node.value {
        Kind::Bool(flag) => Ok(flag),
        _ => Err(wrong_kind(node, what, "`true` or `false`")),
    }
}

/// A whole number within `bounds`.
pub(crate) fn integer(
    node: &Node,
    what: &'static str,
    bounds: RangeInclusive<u32>,
) -> Result<u32, WorkflowError> {
    let Kind::Number(number) = &node.value else { return Err(wrong_kind(node, what, "a whole number")) };
    let integer = number.as_u64().and_then(|integer| u32::try_from(integer).ok());
    match integer.filter(|integer| bounds.contains(integer)) {
        Some(integer) => Ok(integer),
        None => Err(out_of_range(node, what, number, &bounds)),
    }
}

/// A length of time within `bounds`.
pub(crate) fn duration(
    node: &Node,
    what: &'static str,
    bounds: RangeInclusive<Millis>,
) -> Result<Millis, WorkflowError> {
    let Kind::Text(text) = &node.value else {
        return Err(wrong_kind(node, what, "a length of time such as `30s`, `10m` or `2h`"));
    };
    let length: Millis = text.parse().map_err(|e| WorkflowError::of(node, Fault::Duration(e)))?;
    if bounds.contains(&length) { Ok(length) } else { Err(out_of_range(node, what, &length, &bounds)) }
}

fn out_of_range<T: ToString>(
    node: &Node,
    what: &'static str,
    found: &impl ToString,
    bounds: &RangeInclusive<T>,
) -> WorkflowError {
    let (least, most) = (bounds.start().to_string(), bounds.end().to_string());
    WorkflowError::of(node, Fault::OutOfRange { what, found: found.to_string(), least, most })
}

/// One of a few words; gives the place of the word among them.
pub(crate) fn choice(
    node: &Node,
    what: &'static str,
    expected: &'static [&'static str],
) -> Result<usize, WorkflowError> {
    let found = text(node, what)?;
    let not_one = || Fault::NotAChoice { what, found: found.to_owned(), expected };
    let place = expected.iter().position(|word| *word == found);
    place.ok_or_else(|| WorkflowError::of(node, not_one()))
}
