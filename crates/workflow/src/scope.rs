//! The values that expressions can read.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::StepId;
use serde_json::Value;

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
