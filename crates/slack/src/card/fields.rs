//! The changes and the arguments of an action, each with a space of its own.
//!
//! A long value cannot take the space of another one: every field gets an equal share, and what a short field does not
//! need goes to the longer ones. The fields that say what is called, on what and for how much come first.

use domain::{Action, FieldChange};
use serde_json::{Map, Value};

use super::block;
use crate::escape::{self, TextLimit, units};

/// Two equal values of this length are the same text, even in fields with different names.
const SAME_TEXT_CHARS_MIN: usize = 64;

/// The name of arguments that are not an object.
const UNNAMED: &str = "arguments";

const TARGET_NAMES: [&str; 10] =
    ["url", "target", "host", "path", "query", "table", "sys_id", "channel", "repository", "number"];

const AMOUNT_NAMES: [&str; 8] = ["amount", "total", "sum", "price", "cost", "currency", "quantity", "count"];

/// How much of an action's fields a message shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldLimits {
    /// All fields together.
    pub(super) units: usize,
    /// The number of fields.
    pub(super) count: usize,
    /// The longest field.
    pub(super) each: usize,
}

/// The order of the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Method,
    Target,
    Amount,
    Change,
    Other,
}

enum Field<'a> {
    Change(&'a FieldChange),
    Argument { name: String, value: &'a Value },
}

impl Field<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Change(change) => &change.field,
            Self::Argument { name, .. } => name,
        }
    }

    fn rank(&self) -> Rank {
        let name = self.name().to_lowercase();
        let is_word = |word: &str| name.split(['.', '_']).any(|part| part == word);
        match self {
            _ if name == "method" => Rank::Method,
            _ if TARGET_NAMES.contains(&name.as_str()) => Rank::Target,
            _ if AMOUNT_NAMES.iter().any(|amount| is_word(amount)) => Rank::Amount,
            Self::Change(_) => Rank::Change,
            Self::Argument { .. } => Rank::Other,
        }
    }

    /// One line of at most `units_max`. Values are JSON, so a string with an arrow, a quote or a line break cannot
    /// imitate another field.
    fn line(&self, units_max: usize) -> String {
        match self {
            Self::Change(change) => {
                let part = TextLimit::hashed((units_max - 16) / 3);
                let before =
                    change.before.as_ref().map_or("(unknown)".to_owned(), |value| value_text(value, part));
                format!(
                    "{}: {before} → {}",
                    escape::line(&change.field, part),
                    value_text(&change.after, part)
                )
            }
            Self::Argument { name, value } => {
                let part = (units_max - 2) / 3;
                let name = escape::line(name, TextLimit::hashed(part));
                format!("{name}: {}", value_text(value, TextLimit::hashed(part * 2)))
            }
        }
    }
}

fn value_text(value: &Value, limit: TextLimit) -> String {
    escape::line(&value.to_string(), limit)
}

/// The sections of the fields of `action`, and the names of those that are not shown in full.
pub(super) fn sections(action: &Action, limits: FieldLimits) -> (Vec<Value>, Vec<String>) {
    let mut whole: Vec<_> = fields(action).into_iter().map(|field| (field.line(usize::MAX), field)).collect();
    if whole.len() > limits.count {
        // Short fields first: the most fields are shown.
        whole.sort_by_key(|(line, field)| (field.rank(), units(line)));
    }
    let omitted = whole.split_off(whole.len().min(limits.count));
    whole.sort_by_key(|(_, field)| field.rank());
    let sizes: Vec<usize> = whole.iter().map(|(line, _)| units(line)).collect();
    let mut cut = Vec::new();
    let mut sections = Vec::new();
    for ((line, field), share) in whole.into_iter().zip(shares(&sizes, limits)) {
        if units(&line) <= share {
            sections.push(block::section(&line));
        } else {
            cut.push(field.name().to_owned());
            sections.push(block::section(&field.line(share)));
        }
    }
    if !omitted.is_empty() {
        let more = format!("… {} more fields; the hash covers all of them", omitted.len());
        sections.push(block::section(&more));
    }
    cut.extend(omitted.iter().map(|(_, field)| field.name().to_owned()));
    (sections, cut)
}

/// The space of each field: what it needs, or an equal share of what the shorter ones leave.
fn shares(sizes: &[usize], limits: FieldLimits) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&index| sizes[index]);
    let mut shares = vec![0; sizes.len()];
    let mut left = limits.units;
    for (position, &index) in order.iter().enumerate() {
        let equal = (left / (sizes.len() - position)).min(limits.each);
        shares[index] = equal;
        left -= sizes[index].min(equal);
    }
    shares
}

/// Every change, and every argument that no change shows.
fn fields(action: &Action) -> Vec<Field<'_>> {
    let mut fields: Vec<Field<'_>> = action.changes.iter().map(Field::Change).collect();
    let mut arguments = Vec::new();
    match &action.fields {
        Value::Object(object) => flatten("", object, &mut arguments),
        value => arguments.push((UNNAMED.to_owned(), value)),
    }
    let is_shown = |name: &str, value: &Value| {
        action.changes.iter().any(|change| change.after == *value && is_same(name, value, change))
    };
    // A parameter of the tool that is null is absent. A null below it is data: in a merge patch it deletes a field.
    let is_absent = |name: &str, value: &Value| value.is_null() && !name.contains('.');
    let missing = arguments.into_iter();
    let missing = missing.filter(|(name, value)| !is_absent(name, value) && !is_shown(name, value));
    fields.extend(missing.map(|(name, value)| Field::Argument { name, value }));
    fields
}

/// Whether a change with the value of the argument `name` shows this argument.
fn is_same(name: &str, value: &Value, change: &FieldChange) -> bool {
    let last = name.rsplit('.').next();
    last == Some(&change.field)
        || value.as_str().is_some_and(|text| text.chars().count() >= SAME_TEXT_CHARS_MIN)
}

/// The values of `object` with their paths, such as `body.amount`. A name that is not a plain word is quoted.
fn flatten<'a>(path: &str, object: &'a Map<String, Value>, into: &mut Vec<(String, &'a Value)>) {
    for (name, value) in object {
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let name =
            if is_plain && !name.is_empty() { name.clone() } else { Value::from(name.as_str()).to_string() };
        let path = if path.is_empty() { name } else { format!("{path}.{name}") };
        match value {
            Value::Object(object) if !object.is_empty() => flatten(&path, object, into),
            value => into.push((path, value)),
        }
    }
}
