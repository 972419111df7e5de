//! Parses YAML into a tree with source positions.
//!
//! The parser has a budget, so that a small file with anchors cannot expand into a large one. Values that YAML interprets
//! differently from their appearance (`007`, `yes`, numeric keys, merge keys) are either strings or errors.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::MergeKeyPolicy;
use serde_saphyr::{Budget, Error, Options, Spanned};

use crate::error::{ParseErrorKind, WorkflowError};
use crate::position::{SourcePosition, source_text};

/// About ten times the longest real workflow.
pub const SOURCE_BYTES_MAX: usize = 256 * 1024;

/// A debug build of the parser takes 40 KB of stack per level. This many levels fit into half of a worker thread's two
/// megabytes, and leave twenty for the fields of a step.
pub(crate) const DEPTH_MAX: usize = 24;

/// Enough for ten thousand small steps, so that such a file gets the error about its number of steps.
const NODES_MAX: usize = 100_000;

/// A workflow of 64 steps that share one long `with` stays below this.
const ALIASED_EVENTS_MAX: usize = 10_000;

/// The text after anchor expansion: four times the maximum of a file without anchors.
const TEXT_BYTES_MAX: usize = 4 * SOURCE_BYTES_MAX;

/// The parser events that are recorded for anchored values.
const ANCHORED_EVENTS_MAX: usize = 200_000;

/// A value with its position.
pub(crate) type Node = Spanned<YamlValue>;

#[derive(Debug)]
pub(crate) enum YamlValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

impl YamlValue {
    /// The type name for error messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// The string in the field `name` of a map.
    pub(crate) fn text_field(&self, name: &str) -> Option<&str> {
        let Self::Map(fields) = self else { return None };
        fields.iter().find_map(|(key, field)| match (&key.value, &field.value) {
            (Self::Text(key), Self::Text(text)) if key == name => Some(text.as_str()),
            _ => None,
        })
    }
}

/// Parses one document.
pub(crate) fn parse(source: &str) -> Result<Node, WorkflowError> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(WorkflowError::at(
            SourcePosition::START,
            ParseErrorKind::TooLarge { bytes: source.len() },
        ));
    }
    let root: Node =
        serde_saphyr::from_str_with_options(source, options()).map_err(|e| workflow_error(source, &e))?;
    match root.value {
        YamlValue::Null => Err(WorkflowError::at(SourcePosition::START, ParseErrorKind::Empty)),
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

/// Converts an error of the YAML parser.
fn workflow_error(source: &str, error: &Error) -> WorkflowError {
    let position = error.location().map_or(SourcePosition::START, SourcePosition::from);
    match kind_of(error.without_snippet()) {
        // The parser may name the line before the tab.
        ParseErrorKind::Yaml(message) if message.contains("tab") => match indentation_tab(source) {
            Some(tab) => WorkflowError::at(tab, ParseErrorKind::Tab),
            None => WorkflowError::at(position, ParseErrorKind::Yaml(message)),
        },
        kind => WorkflowError::at(position, kind),
    }
}

/// The first tab in the indentation of a line.
fn indentation_tab(source: &str) -> Option<SourcePosition> {
    source.lines().enumerate().find_map(|(number, line)| {
        let indentation = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        let column = indentation.find('\t')? + 1;
        Some(SourcePosition { line: number + 1, column })
    })
}

fn kind_of(error: &Error) -> ParseErrorKind {
    match error {
        Error::AliasError { error, .. } => kind_of(error),
        Error::DuplicateMappingKey { key, .. } => {
            ParseErrorKind::DuplicateKey { key: key.clone().unwrap_or_default() }
        }
        Error::MultipleDocuments { .. } => ParseErrorKind::SeveralDocuments,
        Error::MergeKeyNotAllowed { .. } => ParseErrorKind::MergeKey,
        Error::NonFiniteFloat { value, .. } => ParseErrorKind::NotFinite { number: value.clone() },
        Error::RecursiveReferencesRequireWeakTypes { .. } => ParseErrorKind::AnchorInItself,
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => ParseErrorKind::TooDeep,
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. } => ParseErrorKind::ExpandsTooMuch,
        other => syntax(&other.to_string()),
    }
}

/// Removes the position at the end of the parser's message, because [`WorkflowError`] prints it.
fn syntax(text: &str) -> ParseErrorKind {
    match text.split_once(" at line ").map_or(text, |(message, _)| message) {
        "recursion limit exceeded" => ParseErrorKind::TooDeep,
        message => ParseErrorKind::Yaml(message.to_owned()),
    }
}

/// Converts `node` to JSON and checks it with [`domain::json`].
pub(crate) fn to_json(source: &str, node: &Node) -> Result<Value, WorkflowError> {
    let value = match &node.value {
        YamlValue::Null => Value::Null,
        YamlValue::Bool(flag) => Value::Bool(*flag),
        YamlValue::Number(number) => Value::Number(unambiguous_number(source, node, number)?),
        YamlValue::Text(text) => Value::String(text.clone()),
        YamlValue::List(items) => {
            return items
                .iter()
                .map(|item| to_json(source, item))
                .collect::<Result<_, _>>()
                .map(Value::Array);
        }
        YamlValue::Map(fields) => return object(source, fields),
    };
    domain::json::check(&value).map_err(|e| WorkflowError::of(node, ParseErrorKind::Value(e)))?;
    Ok(value)
}

fn object(source: &str, fields: &[(Node, Node)]) -> Result<Value, WorkflowError> {
    let mut object = Map::new();
    for (key, value) in fields {
        object.insert(key_text(key)?.to_owned(), to_json(source, value)?);
    }
    Ok(Value::Object(object))
}

/// A key: a string without expressions.
pub(crate) fn key_text(key: &Node) -> Result<&str, WorkflowError> {
    let YamlValue::Text(text) = &key.value else {
        return Err(WorkflowError::of(key, ParseErrorKind::KeyNotText { found: key.value.name() }));
    };
    if text.contains("${") {
        return Err(WorkflowError::of(key, ParseErrorKind::ExpressionInKey));
    }
    domain::json::check(&Value::String(text.clone()))
        .map_err(|e| WorkflowError::of(key, ParseErrorKind::Value(e)))?;
    Ok(text)
}

/// Refuses numbers with leading zeros. Parsers read `007` as decimal, as octal or as a string.
fn unambiguous_number(source: &str, node: &Node, number: &Number) -> Result<Number, WorkflowError> {
    let source_text = source_text(source, node).map_or("", |(_, text)| text);
    let digits = source_text.trim_start_matches(['-', '+']);
    let padded = digits.len() > 1 && digits.starts_with('0') && digits.chars().all(|c| c.is_ascii_digit());
    if padded {
        return Err(WorkflowError::of(node, ParseErrorKind::LeadingZero { number: source_text.to_owned() }));
    }
    Ok(number.clone())
}

impl<'de> Deserialize<'de> for YamlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = YamlValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<YamlValue, E> {
        Ok(YamlValue::Bool(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<YamlValue, E> {
        Ok(YamlValue::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<YamlValue, E> {
        Ok(YamlValue::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<YamlValue, E> {
        Number::from_f64(number).map(YamlValue::Number).ok_or_else(|| E::custom("the number is out of range"))
    }

    fn visit_str<E>(self, text: &str) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<YamlValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(YamlValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<YamlValue, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = fields.next_key()? {
            map.push((key, fields.next_value()?));
        }
        Ok(YamlValue::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn json_of(source: &str) -> Result<Value, String> {
        let root = parse(source).map_err(|e| e.to_string())?;
        to_json(source, &root).map_err(|e| e.to_string())
    }

    #[test]
    fn plain_values_are_converted() {
        let source = "b: [-2, 1.5, yes, true, ~, '1', 0x10]\nd: |\n  x\n  y\n";
        assert_eq!(json_of(source), Ok(json!({"b": [-2, 1.5, "yes", true, null, "1", 16], "d": "x\ny\n"})));
    }

    #[test]
    fn anchor_within_the_budget_is_accepted() {
        assert_eq!(json_of("a: &x [1]\nb: *x\n"), Ok(json!({"a": [1], "b": [1]})));
    }

    #[test]
    fn ambiguous_yaml_is_refused_with_its_position() {
        for (source, expected) in [
            ("a: 1\na: 2\n", "line 2, column 1: duplicate key `a`; remove one of them"),
            ("a: 007", "line 1, column 4: `007` has leading zeros; quote it to make it a string"),
            ("a: .nan", "line 1, column 4: `.nan` is not a JSON number; quote it to make it a string"),
            ("1: a", "line 1, column 1: a key must be a string, found a number; quote it"),
            (
                "a: 1\n---\nb: 2",
                "line 3, column 1: the file has more than one YAML document; write one workflow per file",
            ),
            (
                "a: {<<: {b: 1}}",
                "line 1, column 5: merge keys (`<<`) are not supported; write out the fields",
            ),
            ("a: &a [*a]", "line 1, column 8: an anchor contains itself; write out the value"),
            ("a: !x b", "line 1, column 7: unsupported tag `!x`"),
            ("a: [", "line 1, column 4: unclosed bracket '['"),
            ("${a}: b", "line 1, column 1: a key contains `${`; only values may contain expressions"),
        ] {
            assert_eq!(json_of(source), Err(expected.to_owned()), "{source}");
        }
    }

    #[test]
    fn values_are_checked_as_json() {
        for (source, expected) in
            [("a: 9007199254740993", "beyond 2^53"), ("a: 99999999999999999999", "beyond 2^53")]
        {
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
    fn file_of_a_megabyte_is_refused_unparsed() {
        let error = parse(&"#".repeat(1024 * 1024)).unwrap_err();
        assert_eq!(error.kind, ParseErrorKind::TooLarge { bytes: 1024 * 1024 });
    }
}
