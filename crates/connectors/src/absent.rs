//! A tool that nobody has configured.
//!
//! It stands in the box all the same, so that workflows which name it can be checked; a step that calls it
//! is told which setting is missing.

use async_trait::async_trait;
use domain::{Action, EffectClass, Failure, ToolName};
use serde_json::Value;

use crate::tool::{self, Ask, Call, Outcome, Tool};

/// The code of a failure whose cause is the operator's configuration.
pub(crate) const NOT_CONFIGURED: &str = "NOT_CONFIGURED";

/// A tool without its settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Absent {
    pub(crate) name: &'static str,
    /// The class it would declare.
    pub(crate) class: EffectClass,
    /// The setting it needs.
    pub(crate) setting: &'static str,
}

impl Absent {
    fn failure(&self) -> Failure {
        let Self { name, setting, .. } = self;
        Failure::new(NOT_CONFIGURED, format!("`{name}` needs the setting `{setting}`, which is absent here"))
    }
}

#[async_trait]
impl Tool for Absent {
    fn name(&self) -> ToolName {
        tool::name(self.name)
    }

    fn declares(&self, _: &Value) -> Option<EffectClass> {
        Some(self.class)
    }

    fn propose(&self, _: Ask<'_>) -> Result<Action, Failure> {
        Err(self.failure())
    }

    async fn perform(&self, _: Call<'_>) -> Outcome {
        Outcome::Terminal(self.failure())
    }
}
