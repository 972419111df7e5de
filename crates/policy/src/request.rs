//! The request that a policy evaluates: an action with its step, its run and the caps of the run.

use domain::plan::{Environment, Phase};
use domain::{Action, ActionOrigin, BlastRadius, PersonId, StepId, TenantId, WorkflowName, WorkspaceId};

/// All data that a verdict depends on. The same bundle returns the same verdict for equal requests.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRequest<'a> {
    pub action: &'a Action,
    pub step: StepContext<'a>,
    pub run: RunContext<'a>,
    pub caps: CapUsage,
}

#[derive(Debug, Clone, Copy)]
pub struct StepContext<'a> {
    pub id: &'a StepId,
    pub blast_radius: BlastRadius,
    pub critical: bool,
    pub phase: Phase,
    /// Whether the action is part of a rollback of this run.
    pub rollback: bool,
    /// Where the call of the action comes from.
    pub origin: ActionOrigin,
    /// Counted from 1.
    pub attempt: u32,
}

#[derive(Debug, Clone, Copy)]
pub struct RunContext<'a> {
    pub tenant: &'a TenantId,
    pub workspace: &'a WorkspaceId,
    pub workflow: &'a WorkflowName,
    pub version: u32,
    pub environment: Environment,
    /// The trigger type: `api`, `servicenow`, `schedule`.
    pub trigger: &'a str,
    /// The user who requested the run, if a user did.
    pub requester: Option<&'a PersonId>,
}

/// The effects of a run so far, and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapUsage {
    /// Undo actions do not count.
    pub writes_done: u32,
    pub writes_max: u32,
}
