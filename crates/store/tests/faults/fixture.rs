//! A run with a fixed sequence of decisions, so that each test knows the expected state.

use countersign_store::{Admission, Ledger, Write};
use domain::command::{
    Admit, Assessment, Cancel, Claim, ClaimResult, Command, DeliverSignal, Finish, Grant, RecordVote, admit,
};
use domain::payload::Fingerprint;
use domain::plan::{Call, Environment, OnTimeout, Work};
use domain::record::Signal;
use domain::{
    Action, Approval, ApprovalRequirement, Cause, Channel, Decision, Digest, Draft, EffectClass, EventName,
    IdempotencyKey, Initiator, Millis, OpId, Payload, PersonId, Plan, PlannedStep, Reason, RecordName,
    Reversibility, Ruling, RunKey, RunRecord, SignalId, Stamp, StepId, Tenant, TenantId, Timestamp, ToolName,
    Verdict, WorkerId, WorkflowName, WorkspaceId,
};
use serde_json::{Value, json};

/// The time of all events.
pub(crate) const NOON: Timestamp = Timestamp(1_750_000_000_000);

pub(crate) const LEASE: Millis = Millis::secs(30);

/// Later than any due time.
pub(crate) const FAR_AHEAD: Timestamp = Timestamp(i64::MAX / 2);

/// The states of the run, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    Started,
    Signaled,
    ApprovalRequested,
    Approved,
    Claimed,
    Finished,
    Canceled,
}

/// The run, and all decisions after the first.
pub(crate) struct Scenario {
    record: RunRecord,
    approval: Option<Approval>,
    pub(crate) grant: Option<Grant>,
    pub(crate) decisions: Vec<Decision>,
}

/// Commits all decisions up to `until`.
pub(crate) async fn commit_until<L: Ledger + Sync>(store: &L, until: Until) {
    assert_eq!(store.admit(admission()).await.unwrap(), Write::Committed);
    for decision in decisions().into_iter().take(until as usize) {
        assert_eq!(store.commit(decision).await.unwrap(), Write::Committed);
    }
}

/// The decision that leads to this state.
pub(crate) fn decision(state: Until) -> Decision {
    decisions().swap_remove(state as usize - 1)
}

pub(crate) fn run() -> RunKey {
    admission().decision.record.key
}

/// The record of the external system that the run is about.
pub(crate) fn record() -> RecordName {
    "servicenow:incident:9d38".parse().unwrap()
}

pub(crate) fn admission() -> Admission {
    let input = json!({ "request": "request" });
    let command = Admit {
        tenant: tenant(),
        workspace: WorkspaceId::new("main").unwrap(),
        trigger_kind: "api".to_owned(),
        record: Some(record()),
        trace: None,
        key: effect(),
        input: Fingerprint::of(&input),
    };
    Admission { decision: admit(command, &plan(), stamp("op")), input: Payload::Inline(input), hold: None }
}

fn decisions() -> Vec<Decision> {
    let mut scenario = until_claimed();
    scenario.add(finish(scenario.grant.clone().unwrap(), &json!({ "id": 7 })));
    scenario.add(Cancel { reason: "enough".to_owned() });
    scenario.decisions
}

/// The step is claimed but not finished.
pub(crate) fn until_claimed() -> Scenario {
    let record = admission().decision.record;
    let mut scenario = Scenario { record, approval: None, grant: None, decisions: Vec::new() };
    scenario.add(early_signal());
    scenario.add(claim(Ruling::NeedsApproval(ApprovalRequirement::default())));
    scenario.add(approve(scenario.approval.clone().unwrap()));
    let claimed = scenario.add(claim(Ruling::NeedsApproval(ApprovalRequirement::default())));
    let ClaimResult::Granted(grant) = claimed else { unreachable!("{claimed:?}") };
    scenario.grant = Some(*grant);
    scenario
}

impl Scenario {
    pub(crate) fn add<C: Command>(&mut self, command: C) -> C::Output {
        let plan = plan();
        let stamp = stamp(&format!("op-{}", self.decisions.len()));
        let mut draft = Draft::new(self.record.clone(), &plan, stamp).with_approval(self.approval.clone());
        let output = command.decide(&mut draft).unwrap();
        let decision = draft.close();
        self.record = decision.record.clone();
        self.approval = decision.approvals.last().cloned().or(self.approval.take());
        self.decisions.push(decision);
        output
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}

/// The idempotency key of the effect, and of the request to start the run.
pub(crate) fn effect() -> IdempotencyKey {
    IdempotencyKey::new("effect").unwrap()
}

pub(crate) fn delivery() -> SignalId {
    SignalId::new("delivery").unwrap()
}

pub(crate) fn plan() -> Plan {
    let call = Call { tool: tool(), with: Value::Null };
    let wait = Work::Wait { event: event(), timeout: Millis::hours(1), on_timeout: OnTimeout::Fail };
    let step = |id: &str, work| PlannedStep::new(StepId::new(id).unwrap(), work);
    let steps = vec![step("call", Work::Call(call)), step("wait", wait)];
    Plan::new(WorkflowName::new("fixture").unwrap(), Environment::Dev, steps)
}

pub(crate) fn initiator() -> Initiator {
    Initiator::new(Cause::System, "worker")
}

fn stamp(op: &str) -> Stamp {
    Stamp { op: OpId::new(op).unwrap(), now: NOON, by: initiator() }
}

fn tool() -> ToolName {
    ToolName::new("http.request").unwrap()
}

fn event() -> EventName {
    EventName::new("change.approved").unwrap()
}

fn early_signal() -> DeliverSignal {
    let body = json!({ "approved": true });
    let signal = Signal {
        id: delivery(),
        event: event(),
        fingerprint: Fingerprint::of(&body),
        payload: Payload::Inline(body),
        at: NOON,
        buffered: false,
    };
    DeliverSignal { signal, known: None }
}

fn claim(ruling: Ruling) -> Claim {
    let reasons = vec![Reason::runtime("fixture", "test")];
    let verdict = Verdict { ruling, reasons, policy: Digest::of_bytes(b"policy") };
    Claim {
        owner: WorkerId::new("worker").unwrap(),
        lease: LEASE,
        action: Action {
            tool: tool(),
            contract: 1,
            class: EffectClass::NativeKey,
            reversibility: Reversibility::Compensable,
            target: "https://example.com/records/1".to_owned(),
            key: effect(),
            key_retention: None,
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: None,
            fields: json!({ "state": "open" }),
        },
        receipt: None,
        abandoned: false,
        assessment: Some(Assessment { verdict, observed: None }),
    }
}

fn approve(approval: Approval) -> RecordVote {
    RecordVote {
        tenant: Tenant::new(approval.run.tenant.clone()),
        approval,
        person: PersonId::new("grace").unwrap(),
        approve: true,
        reason: "looks right".to_owned(),
        through: Channel::CommandLine,
    }
}

fn finish(grant: Grant, output: &Value) -> Finish {
    Finish {
        fence: grant.fence,
        fingerprint: Fingerprint::of(output),
        output: Payload::Inline(output.clone()),
        response: json!({ "status": 200 }),
        inverse: None,
        cost_microusd: 12,
        usage: None,
        receipt: grant.receipt,
    }
}
