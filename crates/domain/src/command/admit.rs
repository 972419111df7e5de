//! Admit: a trigger becomes a run, and its whole plan is fixed.

use crate::digest::Digest;
use crate::draft::{Decision, DecisionContext, Draft};
use crate::event::EventBody;
use crate::id::{Fence, PersonId, RunId, RunKey, StepSeq, TenantId, Version, WorkspaceId};
use crate::key::IdempotencyKey;
use crate::machine::RunStatus;
use crate::participant::{self, Participants};
use crate::payload::Fingerprint;
use crate::plan::Plan;
use crate::record::{ActedSteps, Effects, Rejection, RunRecord, StepState, Trigger};
use crate::record_name::RecordName;
use crate::trace::TraceContext;

/// What a run and its earlier undos pass on to an undo.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inherited {
    /// The users who shaped the run, and so the actions of its undo.
    pub participants: Participants,
    /// The last rejection of a rollback of the run. Approvers of the undo must know it.
    pub rejected: Option<Rejection>,
}

/// Starts a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Admit {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace of the tenant.
    pub workspace: WorkspaceId,
    /// The kind of trigger: `cli`, `api`, `servicenow` …
    pub trigger_kind: String,
    /// Identifies the request; the same key is always the same run.
    pub key: IdempotencyKey,
    /// The external record that the run is about.
    pub record: Option<RecordName>,
    /// The caller's trace, if the request carried one.
    pub trace: Option<TraceContext>,
    /// The fingerprint of the input.
    pub input: Fingerprint,
    /// The user who applied the version of the workflow, if one did.
    pub applied_by: Option<PersonId>,
    /// What the run that this run undoes passes on; nothing for any other run.
    pub inherited: Inherited,
}

/// The first commit of a run. Only the ledger can refuse it, if the run exists.
#[expect(clippy::needless_pass_by_value, reason = "commands are passed by value")]
pub fn admit(command: Admit, plan: &Plan, context: DecisionContext) -> Decision {
    let record = first_record(&command, plan, &context);
    let trigger = record.trigger.clone();
    let mut draft = Draft::first(record, plan, context);
    draft.record_event(EventBody::RunAdmitted {
        workflow: plan.workflow.clone(),
        version: plan.version,
        plan: draft.record.plan,
        trigger,
        input: command.input,
    });
    draft.close()
}

fn first_record(command: &Admit, plan: &Plan, context: &DecisionContext) -> RunRecord {
    RunRecord {
        key: RunKey { tenant: command.tenant.clone(), run: RunId::derive(&command.tenant, &command.key) },
        workspace: command.workspace.clone(),
        workflow: plan.workflow.clone(),
        workflow_version: plan.version,
        plan: plan.hash(),
        steps: u16::try_from(plan.steps.len()).unwrap_or(u16::MAX),
        trigger: Trigger {
            kind: command.trigger_kind.clone(),
            reference: command.key.clone(),
            input: command.input.sha256,
            record: command.record.clone(),
            requester: participant::user(&context.by),
            applied_by: command.applied_by.clone(),
            shaped_by: command.inherited.participants.clone(),
        },
        trace: command.trace,
        status: RunStatus::Queued,
        version: Version(0),
        op: context.op.clone(),
        events: 0,
        head: Digest::ZERO,
        fence: Fence(0),
        at: StepSeq(0),
        step_state: StepState::FRESH,
        cancel: None,
        pause: None,
        rollback: None,
        buffered_signals: Vec::new(),
        participants: Participants::default(),
        rejected: command.inherited.rejected.clone(),
        resumes: 0,
        approvals: 0,
        phase: None,
        acted: ActedSteps::default(),
        effects: Effects::default(),
        cost_microusd: 0,
        created_at: context.now,
        completed_at: None,
        due_at: None,
    }
}
