//! What a template is bound over.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::StepId;
use serde_json::Value;

/// The data that expressions read. What a step's plan does not list among its reads need not be here.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The run's input, as `trigger`.
    pub trigger: Option<Arc<Value>>,
    /// Outputs by step: the output of step `read` is `steps.read`.
    pub steps: BTreeMap<StepId, Arc<Value>>,
    /// Facts about the run, as `run`: a map with `id`, `tenant`, `workspace`, `workflow` and the like.
    pub run: Arc<Value>,
}
