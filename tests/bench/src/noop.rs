//! A tool without effect that returns about 200 bytes.

use async_trait::async_trait;
use connectors::{ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};
use domain::{Action, EffectClass, Failure, IdempotencyKey, Reversibility, ToolName};
use serde_json::json;

pub(crate) const NAME: &str = "bench.noop";

pub(crate) struct Noop;

#[async_trait]
impl Tool for Noop {
    #[expect(clippy::expect_used, reason = "a literal")]
    fn name(&self) -> ToolName {
        ToolName::new(NAME).expect("a tool name")
    }

    fn propose(&self, ask: ProposalRequest<'_>) -> Result<Action, Failure> {
        Ok(Action {
            tool: self.name(),
            contract: 1,
            class: EffectClass::ReadOnly,
            reversibility: Reversibility::NoEffect,
            target: "nothing".to_owned(),
            key: IdempotencyKey::for_step(&self.name(), &ask.run.run, ask.step),
            key_retention: None,
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: None,
            fields: ask.fields,
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        let output = json!({ "step": call.step, "text": "x".repeat(170) });
        ToolOutcome::Done(ToolResult { output, ..ToolResult::default() })
    }
}
