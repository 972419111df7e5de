//! YAML as a tree that remembers where everything stands.
//!
//! The reader is held to a budget, so that a small file with anchors cannot unfold into a large one. What
//! YAML reads differently from what a person wrote (`007`, `yes`, a key that is a number, merge keys) is
//! either text or an error, never a guess.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::MergeKeyPolicy;
use serde_saphyr::{Budget, Error, Options, Spanned};

use crate::error::{Fault, WorkflowError};
use crate::place::{Place, written};

/// A workflow is read by people; the longest honest one we know has a tenth of this.
pub const SOURCE_BYTES_MAX: usize = 256 * 1024;

/// A debug build of the reader takes 40 KB of stack for each level; this many fit into half of the two
/// megabytes that a worker's thread has, and leave twenty for the fields of a step.
pub(crate) const DEPTH_MAX: usize = 24;

/// Enough for ten thousand small steps, so that those are told what is wrong with them.
const NODES_MAX: usize = 100_000;

/// A run of 64 steps that all share one long `with` stays below this.
const ALIASED_EVENTS_MAX: usize = 10_000;

/// Text after anchors are unfolded; four times what a file without anchors can hold.
const TEXT_BYTES_MAX: usize = 4 * SOURCE_BYTES_MAX;

/// What is kept of anchored values while the file is read.
const ANCHORED_EVENTS_MAX: usize = 200_000;

/// A value and where it stands.
pub(crate) type Node = Spanned<Kind>;

/// A value of the file.
#[derive(Debug)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

impl Kind {
    /// What a person would call it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a yes or no",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// Reads one document.
pub(crate) fn read(source: &str) -> Result<Node, WorkflowError> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(WorkflowError::at(Place::START, Fault::TooLarge { bytes: source.len() }));
    }
    let root: Node = serde_saphyr::from_str_with_options(source, options()).map_err(|e| refusal(&e))?;
    match root.value {
        Kind::Null => Err(WorkflowError::at(Place::START, Fault::Empty)),
        _ => Ok(root),
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.budget = Some(budget());
    options.alias_limits.max_total_replayed_events = ALIASED_EVENTS_MAX;
    options.merge_keys = MergeKeyPolicy::Error;
    options.strict_booleans = true;
    options.reject_unsupported_tags = true;
    options.with_snippet = false;
    options
}

fn budget() -> Budget {
    let mut budget = Budget::default();
    budget.max_depth = DEPTH_MAX;
    budget.max_nodes = NODES_MAX;
    budget.max_total_scalar_bytes = TEXT_BYTES_MAX;
    budget.max_recorded_anchor_events = ANCHORED_EVENTS_MAX;
    budget.max_recorded_anchor_bytes = TEXT_BYTES_MAX;
    budget
}

/// The reader's error in our words, without what it says to programmers.
fn refusal(error: &Error) -> WorkflowError {
    let place = error.location().map_or(Place::START, Place::from);
    WorkflowError::at(place, fault_of(error.without_snippet()))
}

fn fault_of(error: &Error) -> Fault {
    match error {
        Error::AliasError { error, .. } => fault_of(error),
        Error::DuplicateMappingKey { key, .. } => {
            Fault::DuplicateKey { key: key.clone().unwrap_or_default() }
        }
        Error::MultipleDocuments { .. } => Fault::SeveralDocuments,
        Error::MergeKeyNotAllowed { .. } => Fault::MergeKey,
        Error::NonFiniteFloat { value, .. } => Fault::NotFinite { number: value.clone() },
        Error::RecursiveReferencesRequireWeakTypes { .. } => Fault::AnchorInItself,
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => Fault::TooDeep,
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. } => Fault::Unfolds,
        other => syntax(&other.to_string()),
    }
}

/// The reader repeats the place at the end of its text; we say it ourselves.
fn syntax(text: &str) -> Fault {
    match text.split_once(" at line ").map_or(text, |(message, _)| message) {
        "recursion limit exceeded" => Fault::TooDeep,
        message => Fault::Yaml(message.to_owned()),
    }
}

/// `node` as JSON, held to the rules of [`domain::json`].
pub(crate) fn to_json(source: &str, node: &Node) -> Result<Value, WorkflowError> {
    let value = match &node.value {
        Kind::Null => Value::Null,
        Kind::Bool(flag) => Value::Bool(*flag),
        Kind::Number(number) => Value::Number(plain_number(source, node, number)?),
        Kind::Text(text) => Value::String(text.clone()),
        Kind::List(items) => {
            return items
                .iter()
                .map(|item| to_json(source, item))
                .collect::<Result<_, _>>()
                .map(Value::Array);
        }
        Kind::Map(fields) => return object(source, fields),
    };
    domain::json::check(&value).map_err(|e| WorkflowError::of(node, Fault::Value(e)))?;
    Ok(value)
}

fn object(source: &str, fields: &[(Node, Node)]) -> Result<Value, WorkflowError> {
    let mut object = Map::new();
    for (key, value) in fields {
        object.insert(key_text(key)?.to_owned(), to_json(source, value)?);
    }
    Ok(Value::Object(object))
}

/// A key: text, without expressions.
pub(crate) fn key_text(key: &Node) -> Result<&str, WorkflowError> {
    let Kind::Text(text) = &key.value else {
        return Err(WorkflowError::of(key, Fault::KeyNotText { found: key.value.name() }));
    };
    if text.contains("${") {
        return Err(WorkflowError::of(key, Fault::ExpressionInKey));
    }
    domain::json::check(&Value::String(text.clone())).map_err(|e| WorkflowError::of(key, Fault::Value(e)))?;
    Ok(text)
}

/// A number that everybody reads as the same number. `007` is seven to some, text to others and octal to
/// the rest.
fn plain_number(source: &str, node: &Node, number: &Number) -> Result<Number, WorkflowError> {
    let spelled = written(source, node).map_or("", |(_, text)| text);
    let digits = spelled.trim_start_matches(['-', '+']);
    let padded = digits.len() > 1 && digits.starts_with('0') && digits.chars().all(|c| c.is_ascii_digit());
    if padded {
        return Err(WorkflowError::of(node, Fault::LeadingZero { number: spelled.to_owned() }));
    }
    Ok(number.clone())
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KindVisitor)
    }
}

struct KindVisitor;

impl<'de> Visitor<'de> for KindVisitor {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Kind, E> {
        Ok(Kind::Bool(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Kind, E> {
        Ok(Kind::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Kind, E> {
        Ok(Kind::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Kind, E> {
        Number::from_f64(number).map(Kind::Number).ok_or_else(|| E::custom("the number is out of range"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Kind, E> {
        Ok(Kind::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Kind, E> {
        Ok(Kind::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Kind, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Kind::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Kind, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = fields.next_key()? {
            map.push((key, fields.next_value()?));
        }
        Ok(Kind::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn json_of(source: &str) -> Result<Value, String> {
        let root = read(source).map_err(|e| e.to_string())?;
        to_json(source, &root).map_err(|e| e.to_string())
    }

    #[test]
    fn plain_values_read_as_themselves() {
        let source = "b: [-2, 1.5, yes, true, ~, '1', 0x10]\nd: |\n  x\n  y\n";
        assert_eq!(json_of(source), Ok(json!({"b": [-2, 1.5, "yes", true, null, "1", 16], "d": "x\ny\n"})));
    }

    #[test]
    fn an_anchor_within_the_budget_is_fine() {
        assert_eq!(json_of("a: &x [1]\nb: *x\n"), Ok(json!({"a": [1], "b": [1]})));
    }

    #[test]
    fn what_readers_disagree_about_is_refused_with_its_place() {
        for (source, expected) in [
            ("a: 1\na: 2\n", "line 2, column 1: the key `a` stands twice in one map; keep one of them"),
            ("a: 007", "line 1, column 4: `007` would be read as a number; put it in quotes"),
            ("a: .nan", "line 1, column 4: `.nan` is not a number that JSON knows; put it in quotes"),
            ("1: a", "line 1, column 1: a key must be a text, found a number; put it in quotes"),
            ("a: 1\n---\nb: 2", "line 3, column 1: a second document begins here; a file holds one workflow"),
            (
                "a: {<<: {b: 1}}",
                "line 1, column 5: merge keys (`<<`) are not supported; write the fields out",
            ),
            ("a: &a [*a]", "line 1, column 8: an anchor holds itself; write the value out"),
            ("a: !x b", "line 1, column 7: unsupported tag `!x`"),
            ("a: [", "line 1, column 4: unclosed bracket '['"),
            ("${a}: b", "line 1, column 1: a key holds `${`; only values may hold expressions"),
        ] {
            assert_eq!(json_of(source), Err(expected.to_owned()), "{source}");
        }
    }

    #[test]
    fn values_are_held_to_the_rules_of_json() {
        for (source, expected) in [
            ("a: 9007199254740993", "beyond 2^53"),
            ("a: 99999999999999999999", "beyond 2^53"),
            ("a: \"\\0\"", "U+0000"),
            ("\"\\e\": 1", "U+001B"),
        ] {
            assert!(json_of(source).unwrap_err().contains(expected), "{source}: {:?}", json_of(source));
        }
    }

    #[test]
    fn depth_is_bounded_and_fits_the_stack() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(json_of(&nested(DEPTH_MAX)).is_ok());
        for deep in [DEPTH_MAX + 1, 1_000, 100_000] {
            assert!(json_of(&nested(deep)).unwrap_err().contains("nested more than 24"), "{deep}");
        }
    }

    #[test]
    fn a_file_of_a_megabyte_is_refused_unread() {
        let error = read(&"#".repeat(1024 * 1024)).unwrap_err();
        assert_eq!(error.fault, Fault::TooLarge { bytes: 1024 * 1024 });
    }
}
