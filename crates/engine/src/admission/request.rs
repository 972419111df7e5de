//! A request to start a run, and its result.

use domain::json::InvalidJson;
use domain::{
    IdempotencyKey, Inherited, Initiator, PersonId, Plan, RecordName, RunKey, TenantId, WorkspaceId,
};
use serde_json::Value;

use crate::error::EngineError;

/// A request to start a run.
#[derive(Debug, Clone, PartialEq)]
pub struct StartRun {
    pub tenant: TenantId,
    pub workspace: WorkspaceId,
    pub plan: Plan,
    /// What kind of trigger starts it: `api`, `servicenow`, `schedule`.
    pub trigger_kind: String,
    /// The same key is the same run for ever.
    pub key: IdempotencyKey,
    /// The external record that the run is about.
    pub record: Option<RecordName>,
    pub input: Value,
    pub by: Initiator,
    /// The user who applied the version of the workflow, if one did.
    pub applied_by: Option<PersonId>,
    /// The users who shaped the run that this run undoes; none for any other run.
    pub inherited: Inherited,
}

/// A request to start a run of the applied version of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct StartApplied {
    /// The same key is the same run for ever.
    pub key: IdempotencyKey,
    pub trigger_kind: &'static str,
    /// Absent: that of the workflow.
    pub workspace: Option<WorkspaceId>,
    pub record: Option<RecordName>,
    pub input: Value,
}

/// The run that a request is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartResult {
    pub run: RunKey,
    /// Whether this request started the run, or now waits to.
    pub new: bool,
    pub outcome: StartOutcome,
}

/// How a request relates to the run that it is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartOutcome {
    /// The run is the request's own.
    OwnRun,
    /// The run was started by another request with the same concurrency key.
    Joined,
    /// The run is the request's own, and starts when this run with the same concurrency key ends.
    WaitsFor(RunKey),
}

impl StartResult {
    pub(super) fn joined(run: RunKey) -> Self {
        Self { run, new: false, outcome: StartOutcome::Joined }
    }
}

pub(super) fn invalid_input(source: InvalidJson) -> EngineError {
    EngineError::BadInput { what: "the run's input", source }
}
