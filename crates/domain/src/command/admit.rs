//! Admit: a trigger becomes a run, with its whole plan fixed.

use crate::digest::Digest;
use crate::draft::{Decision, Draft, Stamp};
use crate::event::EventBody;
use crate::id::{Fence, PersonId, RunId, RunKey, StepSeq, TenantId, Version, WorkspaceId};
use crate::initiator::{Cause, Initiator};
use crate::key::IdempotencyKey;
use crate::machine::RunStatus;
use crate::payload::Fingerprint;
use crate::plan::Plan;
use crate::record::{Acted, Effects, Live, RunRecord, Trigger};
use crate::record_name::RecordName;
use crate::trace::TraceContext;

/// A wish to start a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Admit {
    /// For whom.
    pub tenant: TenantId,
    /// For which part of them.
    pub workspace: WorkspaceId,
    /// What kind of thing asks: `cli`, `api`, `servicenow` …
    pub trigger_kind: String,
    /// Names the request; the same key is the same run for ever.
    pub key: IdempotencyKey,
    /// The record outside that it is about, if one is named.
    pub record: Option<RecordName>,
    /// The work outside that leads to it, if that is told.
    pub trace: Option<TraceContext>,
    /// The fingerprint of the input.
    pub input: Fingerprint,
}

/// The first commit of a run. It can only be refused by the ledger: the run must not exist.
#[expect(clippy::needless_pass_by_value, reason = "a wish is given away, like any other command")]
pub fn admit(wish: Admit, plan: &Plan, stamp: Stamp) -> Decision {
    let record = first_record(&wish, plan, &stamp);
    let trigger = record.trigger.clone();
    let mut draft = Draft::first(record, plan, stamp);
    draft.record_event(EventBody::RunAdmitted {
        workflow: plan.workflow.clone(),
        version: plan.version,
        plan: draft.record.plan,
        trigger,
        input: wish.input,
    });
    draft.close()
}

/// Who wanted the run, if a person did: whoever may not approve what it does.
fn requester(by: &Initiator) -> Option<PersonId> {
    match by.cause {
        Cause::User | Cause::Approval => PersonId::new(&by.id).ok(),
        Cause::System | Cause::Timeout | Cause::Policy | Cause::Webhook => None,
    }
}

fn first_record(wish: &Admit, plan: &Plan, stamp: &Stamp) -> RunRecord {
    RunRecord {
        key: RunKey { tenant: wish.tenant.clone(), run: RunId::derive(&wish.tenant, &wish.key) },
        workspace: wish.workspace.clone(),
        workflow: plan.workflow.clone(),
        workflow_version: plan.version,
        plan: plan.hash(),
        steps: u16::try_from(plan.steps.len()).unwrap_or(u16::MAX),
        trigger: Trigger {
            kind: wish.trigger_kind.clone(),
            reference: wish.key.clone(),
            input: wish.input.sha256,
            record: wish.record.clone(),
            requester: requester(&stamp.by),
        },
        trace: wish.trace,
        status: RunStatus::Queued,
        version: Version(0),
        op: stamp.op.clone(),
        events: 0,
        head: Digest::ZERO,
        fence: Fence(0),
        at: StepSeq(0),
        live: Live::FRESH,
        cancel: None,
        pause: None,
        rollback: None,
        early: Vec::new(),
        resumes: 0,
        approvals: 0,
        phase: None,
        acted: Acted::default(),
        effects: Effects::default(),
        cost_microusd: 0,
        created_at: stamp.now,
        completed_at: None,
        due_at: None,
    }
}
