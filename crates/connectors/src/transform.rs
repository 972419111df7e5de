//! `transform`: builds a value from the trigger and earlier steps.
//!
//! The engine evaluates the expressions in `with.value` before it calls the tool, so the value is the output.

use async_trait::async_trait;
use domain::{Action, EffectClass, Failure, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};

use crate::fields::{Fields, invalid};
use crate::tool::{self, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};

/// Increase it when the meaning of the fields changes.
const CONTRACT: u32 = 1;

/// The tool `transform`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Transform;

#[async_trait]
impl Tool for Transform {
    fn name(&self) -> ToolName {
        tool::name("transform")
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::Pure)
    }

    fn propose(&self, request: ProposalRequest<'_>) -> Result<Action, Failure> {
        let value = Fields::parse(request.fields, &["value"])?.take("value");
        let value = value.ok_or_else(|| invalid("`value` is missing"))?;
        let key = IdempotencyKey::for_step(&self.name(), &request.run.run, request.step);
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: EffectClass::Pure,
            reversibility: Reversibility::NoEffect,
            target: "no external system".to_owned(),
            key: if request.reverts { key.reverse() } else { key },
            key_retention: None,
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: None,
            connection: None,
            fields: json!({ "value": value }),
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        let output = call.action.fields.get("value").cloned().unwrap_or(Value::Null);
        ToolOutcome::Done(ToolResult { output, ..ToolResult::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{RunId, RunKey, StepId, TenantId};

    fn propose(fields: Value, reverts: bool) -> Result<Action, Failure> {
        let run = RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new("run-1").unwrap() };
        Transform.propose(ProposalRequest {
            run: &run,
            step: &StepId::new("shape").unwrap(),
            reverts,
            has_rollback: false,
            fields,
            observed: None,
        })
    }

    #[test]
    fn transform_has_no_effect() {
        let action = propose(json!({"value": [1, {"a": "b"}]}), false).unwrap();
        assert!(!action.class.has_effect());
        assert_eq!(action.reversibility, Reversibility::NoEffect);
        assert_eq!(action.key.as_str(), "transform:run-1:shape");
        assert_ne!(propose(json!({"value": 1}), true).unwrap().key, action.key);
    }

    #[test]
    fn transform_takes_only_value() {
        assert_eq!(propose(json!({}), false).unwrap_err().message, "`value` is missing");
        let error = propose(json!({"value": 1, "vaule": 2}), false).unwrap_err();
        assert_eq!(error.message, "unknown field `vaule`; known fields are `value`");
    }

    #[test]
    fn null_is_a_value() {
        assert_eq!(propose(json!({"value": null}), false).unwrap().fields, json!({"value": null}));
    }
}
