//! A tool without effect that returns about 200 bytes.

use async_trait::async_trait;
use connectors::{ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};
use domain::{Action, Failure, ToolName};
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
        Ok(testkit::action(self.name(), ask))
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        let output = json!({ "step": call.step, "text": "x".repeat(170) });
        ToolOutcome::Done(ToolResult { output, ..ToolResult::default() })
    }
}
