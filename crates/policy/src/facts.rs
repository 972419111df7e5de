//! What a policy is asked about: an action, the step and the run it belongs to, and how much the run may
//! still do.

use domain::plan::{Environment, Phase};
use domain::{Action, Blast, PersonId, StepId, TenantId, WorkflowName, WorkspaceId};

/// Everything a verdict depends on. Two equal facts get the same verdict from the same bundle.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What would be done.
    pub action: &'a Action,
    /// The step that would do it.
    pub step: StepFacts<'a>,
    /// The run the step belongs to.
    pub run: RunFacts<'a>,
    /// How much the run has done, and how much it may do.
    pub caps: CapsState,
}

/// The step that would act.
#[derive(Debug, Clone, Copy)]
pub struct StepFacts<'a> {
    /// Its name.
    pub id: &'a StepId,
    /// How far a mistake would reach.
    pub blast: Blast,
    /// Whether the workflow calls it critical.
    pub critical: bool,
    /// The part of the run it belongs to.
    pub phase: Phase,
    /// Whether the action takes back what this run did.
    pub undo: bool,
    /// Which attempt it is, from 1.
    pub attempt: u32,
}

/// The run that would act.
#[derive(Debug, Clone, Copy)]
pub struct RunFacts<'a> {
    /// Whose run.
    pub tenant: &'a TenantId,
    /// The part of the tenant.
    pub workspace: &'a WorkspaceId,
    /// The workflow.
    pub workflow: &'a WorkflowName,
    /// Its version.
    pub version: u32,
    /// Where it runs.
    pub environment: Environment,
    /// What kind of thing started it: `api`, `servicenow`, `schedule`.
    pub trigger: &'a str,
    /// The person who wanted it, if one did.
    pub requester: Option<&'a PersonId>,
}

/// How much a run has done, and how much it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapsState {
    /// The effects it has had; taking back is not counted.
    pub writes_done: u32,
    /// The effects it may have.
    pub writes_max: u32,
}
