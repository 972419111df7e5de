//! A run that is told the same way every time, so that whoever looks on knows what must be there.

use countersign_store::{Admission, Ledger, Write};
use domain::command::{
    Admit, Answer, Cancel, Claim, Claimed, Command, DeliverSignal, Finish, Governed, Grant, admit,
};
use domain::payload::Fingerprint;
use domain::plan::{Call, Environment, OnTimeout, Work};
use domain::record::Signal;
use domain::{
    Action, Approval, Cause, Channel, Decision, Demand, Digest, Draft, EffectClass, EventName,
    IdempotencyKey, Initiator, Millis, OpId, Payload, PersonId, Plan, PlannedStep, Reason, RecordName,
    Reversibility, Ruling, RunKey, RunRecord, SignalId, Stamp, StepId, Tenant, TenantId, Timestamp, ToolName,
    Verdict, WorkerId, WorkflowName, WorkspaceId,
};
use serde_json::{Value, json};

/// When everything happens.
pub(crate) const NOON: Timestamp = Timestamp(1_750_000_000_000);

/// For how long the step is held.
pub(crate) const LEASE: Millis = Millis::secs(30);

/// Later than anything waits.
pub(crate) const FAR_AHEAD: Timestamp = Timestamp(i64::MAX / 2);

/// What has happened before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    Begun,
    Signaled,
    Asked,
    Answered,
    Claimed,
    Finished,
    Canceled,
}

/// The run, and all decisions about it after the first.
pub(crate) struct Story {
    record: RunRecord,
    asked: Option<Approval>,
    pub(crate) grant: Option<Grant>,
    pub(crate) decisions: Vec<Decision>,
}

/// Lets everything happen until then.
pub(crate) async fn tell<L: Ledger + Sync>(store: &L, until: Until) {
    assert_eq!(store.admit(admission()).await.unwrap(), Write::Committed);
    for decision in decisions().into_iter().take(until as usize) {
        assert_eq!(store.commit(decision).await.unwrap(), Write::Committed);
    }
}

/// What is decided then.
pub(crate) fn decision(then: Until) -> Decision {
    decisions().swap_remove(then as usize - 1)
}

/// Which run it is.
pub(crate) fn run() -> RunKey {
    admission().decision.record.key
}

/// What the run is about.
pub(crate) fn record() -> RecordName {
    "servicenow:incident:9d38".parse().unwrap()
}

/// The first commit.
pub(crate) fn admission() -> Admission {
    let input = json!({ "request": "request" });
    let wish = Admit {
        tenant: tenant(),
        workspace: WorkspaceId::new("main").unwrap(),
        trigger_kind: "api".to_owned(),
        record: Some(record()),
        trace: None,
        key: effect(),
        input: Fingerprint::of(&input),
    };
    Admission { decision: admit(wish, &plan(), stamp("op")), input: Payload::Inline(input), hold: None }
}

fn decisions() -> Vec<Decision> {
    let mut story = until_claimed();
    story.add(finish(story.grant.clone().unwrap(), &json!({ "id": 7 })));
    story.add(Cancel { reason: "enough".to_owned() });
    story.decisions
}

/// The step is claimed, and not finished.
pub(crate) fn until_claimed() -> Story {
    let record = admission().decision.record;
    let mut story = Story { record, asked: None, grant: None, decisions: Vec::new() };
    story.add(early_signal());
    story.add(claim(Ruling::NeedsApproval(Demand::default())));
    story.add(yes(story.asked.clone().unwrap()));
    let claimed = story.add(claim(Ruling::NeedsApproval(Demand::default())));
    let Claimed::Granted(grant) = claimed else { unreachable!("{claimed:?}") };
    story.grant = Some(*grant);
    story
}

impl Story {
    pub(crate) fn add<C: Command>(&mut self, command: C) -> C::Answer {
        let plan = plan();
        let stamp = stamp(&format!("op-{}", self.decisions.len()));
        let mut draft = Draft::new(self.record.clone(), &plan, stamp).knowing(self.asked.clone());
        let answer = command.decide(&mut draft).unwrap();
        let decision = draft.close();
        self.record = decision.record.clone();
        self.asked = decision.approvals.last().cloned().or(self.asked.take());
        self.decisions.push(decision);
        answer
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}

/// The effect, and the request to start the run.
pub(crate) fn effect() -> IdempotencyKey {
    IdempotencyKey::new("effect").unwrap()
}

/// The event that the run waits for.
pub(crate) fn delivery() -> SignalId {
    SignalId::new("delivery").unwrap()
}

pub(crate) fn plan() -> Plan {
    let call = Call { tool: tool(), with: Value::Null };
    let wait = Work::Wait { event: event(), timeout: Millis::hours(1), on_timeout: OnTimeout::Fail };
    let step = |id: &str, work| PlannedStep::new(StepId::new(id).unwrap(), work);
    let steps = vec![step("call", Work::Call(call)), step("wait", wait)];
    Plan::new(WorkflowName::new("story").unwrap(), Environment::Dev, steps)
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
        kept: false,
    };
    DeliverSignal { signal, known: None }
}

fn claim(ruling: Ruling) -> Claim {
    let because = vec![Reason::runtime("story", "so it is")];
    let verdict = Verdict { ruling, because, policy: Digest::of_bytes(b"policy") };
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
        governed: Some(Governed { verdict, found: None }),
    }
}

fn yes(approval: Approval) -> Answer {
    Answer {
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
