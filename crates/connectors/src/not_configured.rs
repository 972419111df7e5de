//! The stand-in for a tool whose settings are absent.
//!
//! It is registered so that workflows which name the tool can be checked. Its `propose` fails and names the missing
//! setting.

use async_trait::async_trait;
use domain::{Action, EffectClass, Failure, ToolName};
use serde_json::Value;

use crate::tool::{self, ProposalRequest, Tool, ToolCall, ToolOutcome};

/// The failure code for incomplete operator configuration.
pub(crate) const NOT_CONFIGURED: &str = "NOT_CONFIGURED";

#[derive(Debug, Clone, Copy)]
pub(crate) struct NotConfiguredTool {
    pub(crate) name: &'static str,
    /// The class that the configured tool declares.
    pub(crate) class: EffectClass,
    /// The missing key of the worker's configuration.
    pub(crate) setting: &'static str,
}

impl NotConfiguredTool {
    fn failure(&self) -> Failure {
        let Self { name, setting, .. } = self;
        Failure::new(
            NOT_CONFIGURED,
            format!("`{name}` is not configured; add the setting `{setting}` to the worker's configuration"),
        )
    }
}

#[async_trait]
impl Tool for NotConfiguredTool {
    fn name(&self) -> ToolName {
        tool::name(self.name)
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(self.class)
    }

    fn propose(&self, _: ProposalRequest<'_>) -> Result<Action, Failure> {
        Err(self.failure())
    }

    async fn perform(&self, _: ToolCall<'_>) -> ToolOutcome {
        ToolOutcome::Terminal(self.failure())
    }
}
