//! A JSON value with expressions, compiled once and bound for every attempt.
//!
//! Parts without expressions are detected at compile time, so binding a template without expressions is a clone. Results
//! are never evaluated again: text from the data that contains `${` stays text.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::StepId;
use domain::json::InvalidJson;
use serde_json::{Map, Value};

use crate::expression::{ExpressionCompileError, ExpressionEvalError, Meter};
use crate::text::Text;

/// Longer expressions are cut in error messages.
const SHOWN_CHARS_MAX: usize = 120;

/// The data that expressions read. Inputs that a step does not read may be absent.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The run's input, as `trigger`.
    pub trigger: Option<Arc<Value>>,
    /// Outputs by step: the output of step `read` is `steps.read`.
    pub steps: BTreeMap<StepId, Arc<Value>>,
    /// Metadata of the run, as `run`: a map with `id`, `tenant`, `workspace`, `workflow`, `version` and `created_at_ms`.
    pub run: Arc<Value>,
}

#[derive(Debug)]
pub struct Template {
    root: Part,
}

#[derive(Debug)]
enum Part {
    Literal(Value),
    Text(Text),
    List(Vec<Part>),
    Map(Vec<(String, Part)>),
}

/// Why a value does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    #[error(transparent)]
    Value(#[from] InvalidJson),
    #[error("the key `{key}` contains `${{`; only values may contain expressions")]
    ExpressionInKey { key: String },
    #[error("in the string {text:?}: {error}")]
    Expression {
        /// Cut to a bounded length.
        text: String,
        error: ExpressionCompileError,
    },
}

/// Why a template has no value for a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    #[error("`${{ {expression} }}`: {error}")]
    Expression {
        /// Cut to a bounded length.
        expression: String,
        error: ExpressionEvalError,
    },
    /// Every expression has a value, but the whole value violates a JSON limit.
    #[error("the bound value is invalid: {0}")]
    Value(InvalidJson),
}

impl BindError {
    pub(crate) fn of(expression: &str, error: ExpressionEvalError) -> Self {
        Self::Expression { expression: shorten(expression), error }
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Template {
    pub fn compile(value: &Value) -> Result<Self, InvalidTemplate> {
        domain::json::check(value)?;
        Ok(Self { root: Part::compile(value)? })
    }

    /// The value for `scope`.
    pub fn bind(&self, scope: &Scope) -> Result<Value, BindError> {
        if let Part::Literal(value) = &self.root {
            return Ok(value.clone());
        }
        let value = self.root.bind(scope, &Arc::new(Meter::default()))?;
        domain::json::check(&value).map_err(BindError::Value)?;
        Ok(value)
    }

    /// The value itself, if it has no expressions.
    pub fn literal(&self) -> Option<&Value> {
        match &self.root {
            Part::Literal(value) => Some(value),
            Part::Text(_) | Part::List(_) | Part::Map(_) => None,
        }
    }
}

impl Part {
    fn compile(value: &Value) -> Result<Self, InvalidTemplate> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Self::Literal(value.clone())),
            Value::String(text) => Self::text(text),
            Value::Array(items) => items.iter().map(Self::compile).collect::<Result<_, _>>().map(Self::list),
            Value::Object(fields) => fields.iter().map(Self::field).collect::<Result<_, _>>().map(Self::map),
        }
    }

    fn text(text: &str) -> Result<Self, InvalidTemplate> {
        match Text::compile(text) {
            Ok(Text::Literal(literal)) => Ok(Self::Literal(Value::String(literal))),
            Ok(text) => Ok(Self::Text(text)),
            Err((_, error)) => Err(InvalidTemplate::Expression { text: shorten(text), error }),
        }
    }

    fn field((key, value): (&String, &Value)) -> Result<(String, Self), InvalidTemplate> {
        if key.contains("${") {
            return Err(InvalidTemplate::ExpressionInKey { key: shorten(key) });
        }
        Ok((key.clone(), Self::compile(value)?))
    }

    fn list(parts: Vec<Self>) -> Self {
        match parts.iter().map(Self::literal).collect::<Option<Vec<Value>>>() {
            Some(items) => Self::Literal(Value::Array(items)),
            None => Self::List(parts),
        }
    }

    fn map(parts: Vec<(String, Self)>) -> Self {
        let literal = |(key, part): &(String, Self)| Some((key.clone(), part.literal()?));
        match parts.iter().map(literal).collect::<Option<Map<String, Value>>>() {
            Some(fields) => Self::Literal(Value::Object(fields)),
            None => Self::Map(parts),
        }
    }

    fn literal(&self) -> Option<Value> {
        match self {
            Self::Literal(value) => Some(value.clone()),
            Self::Text(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    fn bind(&self, scope: &Scope, meter: &Arc<Meter>) -> Result<Value, BindError> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Text(text) => text.bind(scope, meter),
            Self::List(parts) => {
                parts.iter().map(|part| part.bind(scope, meter)).collect::<Result<_, _>>().map(Value::Array)
            }
            Self::Map(parts) => parts
                .iter()
                .map(|(key, part)| Ok((key.clone(), part.bind(scope, meter)?)))
                .collect::<Result<_, _>>()
                .map(Value::Object),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope() -> Scope {
        let steps = [("read", json!({"n": 3, "names": ["a", "b"]})), ("my-step.2", json!({"ok": true}))];
        Scope {
            trigger: Some(Arc::new(json!({"id": "INC1", "text": "${ trigger.id } $${x}", "none": null}))),
            steps: steps.into_iter().map(|(id, out)| (id.parse().unwrap(), Arc::new(out))).collect(),
            run: Arc::new(json!({"id": "run-1", "version": 2})),
        }
    }

    fn bound(value: &Value) -> Result<Value, String> {
        let template = Template::compile(value).map_err(|e| e.to_string())?;
        template.bind(&scope()).map_err(|e| e.to_string())
    }

    #[test]
    fn template_is_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Template>();
    }

    #[test]
    fn single_expression_keeps_its_type() {
        assert_eq!(bound(&json!("${ steps.read }")), Ok(json!({"n": 3, "names": ["a", "b"]})));
        assert_eq!(bound(&json!("${ steps.read.n }")), Ok(json!(3)));
        assert_eq!(bound(&json!(" ${ steps.read.n }")), Ok(json!(" 3")));
        assert_eq!(
            bound(&json!(["${trigger.id}/${run.version}/${1.0}/${0.5}/${true}"])),
            Ok(json!(["INC1/2/1/0.5/true"]))
        );
    }

    #[test]
    fn step_is_named_by_select_or_index() {
        assert_eq!(bound(&json!("${ steps[\"my-step.2\"].ok && steps['read'].n == 3 }")), Ok(json!(true)));
    }

    #[test]
    fn text_from_data_is_not_evaluated() {
        assert_eq!(bound(&json!({"a": "${ trigger.text }"})), Ok(json!({"a": "${ trigger.id } $${x}"})));
        assert_eq!(bound(&json!("<${ trigger.text }>")), Ok(json!("<${ trigger.id } $${x}>")));
    }

    #[test]
    fn strings_accept_strings_numbers_and_booleans() {
        let refused =
            "the result is {}, which cannot be inserted into a string; use a string, a number or a boolean";
        for (code, kind) in
            [("steps.read", "a map"), ("steps.read.names", "a list"), ("trigger.none", "null")]
        {
            let expected = format!("`${{ {code} }}`: {}", refused.replace("{}", kind));
            assert_eq!(bound(&json!(format!("x ${{ {code} }}"))), Err(expected));
        }
    }

    #[test]
    fn missing_key_is_an_error() {
        assert_eq!(
            bound(&json!("a ${ trigger.nope }")),
            Err("`${ trigger.nope }`: there is no key `nope`".to_owned())
        );
        assert_eq!(
            bound(&json!("${ trigger.none.deeper }")),
            Err("`${ trigger.none.deeper }`: a value of type null_type has no fields".to_owned())
        );
    }

    #[test]
    fn template_without_expressions_is_literal() {
        let value = json!({"a": [1, "$${ x }", {"b": null}]});
        let template = Template::compile(&value).unwrap();
        let expected = json!({"a": [1, "${ x }", {"b": null}]});
        assert_eq!(template.literal(), Some(&expected));
        assert_eq!(template.bind(&Scope::default()), Ok(expected));
    }

    #[test]
    fn missing_input_is_an_error() {
        let template = Template::compile(&json!("${ steps.other.x }")).unwrap();
        assert_eq!(
            template.bind(&scope()).unwrap_err().to_string(),
            "`${ steps.other.x }`: `steps.other` was not loaded"
        );
        let template = Template::compile(&json!("${ trigger.x }")).unwrap();
        assert!(
            template.bind(&Scope::default()).unwrap_err().to_string().contains("`trigger` was not loaded")
        );
    }

    #[test]
    fn bound_value_is_checked_as_json() {
        let deep = (0..40).fold(json!("${ trigger }"), |value, _| json!([value]));
        let trigger = (0..40).fold(json!(1), |value, _| json!([value]));
        let scope = Scope { trigger: Some(Arc::new(trigger)), ..Scope::default() };
        let error = Template::compile(&deep).unwrap().bind(&scope).unwrap_err();
        assert!(matches!(error, BindError::Value(_)), "{error}");
    }

    #[test]
    fn keys_may_not_contain_expressions() {
        let error = Template::compile(&json!({"${ trigger.id }": 1})).unwrap_err();
        assert_eq!(error, InvalidTemplate::ExpressionInKey { key: "${ trigger.id }".to_owned() });
    }
}
