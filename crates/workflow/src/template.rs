//! A value with expressions in it, compiled once and bound for every attempt.
//!
//! Compiling finds the parts without expressions and leaves them alone, so binding a template that has none
//! is a clone. Binding never looks at its own result: text that came out of data and happens to hold `${`
//! stays text.

use std::sync::Arc;

use domain::json::InvalidJson;
use serde_json::{Map, Value};

use crate::expression::{EvaluationFault, ExpressionFault, Meter};
use crate::scope::Scope;
use crate::text::Text;

/// An expression is shown in an error up to here; the error's reason must still fit beside it.
const SHOWN_CHARS_MAX: usize = 120;

/// A compiled value.
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

/// Why a value cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    /// It breaks a rule of JSON.
    #[error(transparent)]
    Value(#[from] InvalidJson),
    /// A key holds `${`.
    #[error("the key `{key}` holds `${{`; only values may hold expressions")]
    ExpressionInKey {
        /// The key.
        key: String,
    },
    /// An expression cannot be compiled.
    #[error("in the text {text:?}: {fault}")]
    Expression {
        /// The text, shortened.
        text: String,
        /// What is wrong with the expression.
        fault: ExpressionFault,
    },
}

/// Why a template has no value over a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// An expression has no value.
    #[error("`${{ {expression} }}`: {fault}")]
    Expression {
        /// The expression, shortened.
        expression: String,
        /// Why.
        fault: EvaluationFault,
    },
    /// Every expression has a value, but together they break a rule of JSON.
    #[error("the value that the expressions make is refused: {0}")]
    Value(InvalidJson),
}

impl ExpressionError {
    pub(crate) fn of(expression: &str, fault: EvaluationFault) -> Self {
        Self::Expression { expression: shortened(expression), fault }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Template {
    /// Compiles `value`.
    pub fn compile(value: &Value) -> Result<Self, InvalidTemplate> {
        domain::json::check(value)?;
        Ok(Self { root: Part::compile(value)? })
    }

    /// The value over `scope`.
    pub fn bind(&self, scope: &Scope) -> Result<Value, ExpressionError> {
        if let Part::Literal(value) = &self.root {
            return Ok(value.clone());
        }
        let value = self.root.bind(scope, &Arc::new(Meter::default()))?;
        domain::json::check(&value).map_err(ExpressionError::Value)?;
        Ok(value)
    }

    /// The value itself, if there is no expression in it.
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
            Err((_, fault)) => Err(InvalidTemplate::Expression { text: shortened(text), fault }),
        }
    }

    fn field((key, value): (&String, &Value)) -> Result<(String, Self), InvalidTemplate> {
        if key.contains("${") {
            return Err(InvalidTemplate::ExpressionInKey { key: shortened(key) });
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

    fn bind(&self, scope: &Scope, meter: &Arc<Meter>) -> Result<Value, ExpressionError> {
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
    fn a_template_may_be_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Template>();
    }

    #[test]
    fn one_expression_gives_its_value_and_mixed_text_gives_text() {
        assert_eq!(bound(&json!("${ steps.read }")), Ok(json!({"n": 3, "names": ["a", "b"]})));
        assert_eq!(bound(&json!("${ steps.read.n }")), Ok(json!(3)));
        assert_eq!(bound(&json!(" ${ steps.read.n }")), Ok(json!(" 3")));
        assert_eq!(
            bound(&json!(["${trigger.id}/${run.version}/${1.0}/${0.5}/${true}"])),
            Ok(json!(["INC1/2/1/0.5/true"]))
        );
    }

    #[test]
    fn a_step_is_named_by_select_or_by_index() {
        assert_eq!(bound(&json!("${ steps[\"my-step.2\"].ok && steps['read'].n == 3 }")), Ok(json!(true)));
    }

    #[test]
    fn what_comes_out_of_data_is_not_looked_at_again() {
        assert_eq!(bound(&json!({"a": "${ trigger.text }"})), Ok(json!({"a": "${ trigger.id } $${x}"})));
        assert_eq!(bound(&json!("<${ trigger.text }>")), Ok(json!("<${ trigger.id } $${x}>")));
    }

    #[test]
    fn only_texts_numbers_and_flags_stand_inside_a_text() {
        let refused = "it gives {}, which cannot stand inside a text; pick a text, a number or a yes or no";
        for (code, kind) in
            [("steps.read", "a map"), ("steps.read.names", "a list"), ("trigger.none", "null")]
        {
            let expected = format!("`${{ {code} }}`: {}", refused.replace("{}", kind));
            assert_eq!(bound(&json!(format!("x ${{ {code} }}"))), Err(expected));
        }
    }

    #[test]
    fn a_missing_key_is_an_error_and_never_an_empty_text() {
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
    fn a_template_without_expressions_is_its_own_value() {
        let value = json!({"a": [1, "$${ x }", {"b": null}]});
        let template = Template::compile(&value).unwrap();
        let expected = json!({"a": [1, "${ x }", {"b": null}]});
        assert_eq!(template.literal(), Some(&expected));
        assert_eq!(template.bind(&Scope::default()), Ok(expected));
    }

    #[test]
    fn what_was_not_loaded_is_an_error() {
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
    fn the_whole_value_is_held_to_the_rules_of_json() {
        let deep = (0..40).fold(json!("${ trigger }"), |value, _| json!([value]));
        let trigger = (0..40).fold(json!(1), |value, _| json!([value]));
        let scope = Scope { trigger: Some(Arc::new(trigger)), ..Scope::default() };
        let error = Template::compile(&deep).unwrap().bind(&scope).unwrap_err();
        assert!(matches!(error, ExpressionError::Value(_)), "{error}");
    }

    #[test]
    fn a_key_is_not_an_expression() {
        let error = Template::compile(&json!({"${ trigger.id }": 1})).unwrap_err();
        assert_eq!(error, InvalidTemplate::ExpressionInKey { key: "${ trigger.id }".to_owned() });
    }
}
