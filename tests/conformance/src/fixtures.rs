//! Runs to try a store with. Every decision is made by the domain, as in real life.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::command::{
    Admit, Answer, Claim, Claimed, Command, DeliverSignal, Finish, Governed, Grant, admit,
};
use domain::payload::Fingerprint;
use domain::plan::{Call, Environment, OnTimeout, Undo, Work};
use domain::record::Signal;
use domain::schedule::{Backoff, RetryPolicy};
use domain::{
    Action, Approval, Cause, Channel, Decision, Demand, Digest, Draft, EffectClass, EventName,
    IdempotencyKey, Initiator, Job, Millis, OpId, Outgoing, Payload, PersonId, Plan, PlannedStep, QueueName,
    Reason, Receipt, Reversibility, Ruling, RunKey, RunRecord, SignalId, Stamp, StepId, Tenant, TenantId,
    Timestamp, ToolName, TraceContext, Verdict, WorkerId, WorkflowName, WorkspaceId,
};
use serde_json::{Value, json};
use store::{Admission, Store, Write};

/// When everything is decided, unless a case says otherwise.
pub(crate) const NOON: Timestamp = Timestamp(1_750_000_000_000);

/// How long a failed attempt waits: long enough to be seen, short enough to be waited for.
pub(crate) const BACKOFF: Millis = Millis(200);

/// A run, as whoever works on it knows it.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) plan: Arc<Plan>,
    pub(crate) record: RunRecord,
    /// The request for approval that the run waits for or carries.
    pub(crate) asked: Option<Approval>,
}

impl Run {
    /// Admits a run of `plan` for `owner`; `request` names it.
    pub(crate) async fn begin<S: Store>(store: &S, owner: &str, request: &str, plan: &Plan) -> Self {
        Self::begun(store, admission(owner, request, plan), plan).await
    }

    async fn begun<S: Store>(store: &S, admission: Admission, plan: &Plan) -> Self {
        let record = admission.decision.record.clone();
        assert_eq!(store.admit(admission).await.unwrap(), Write::Committed);
        Self { plan: Arc::new(plan.clone()), record, asked: None }
    }

    /// Admits a run of one call for acme that belongs to the story of `trace`.
    pub(crate) async fn begin_in<S: Store>(store: &S, request: &str, trace: TraceContext) -> Self {
        let plan = calls(1);
        let mut admission = admission("acme", request, &plan);
        admission.decision.record.trace = Some(trace);
        Self::begun(store, admission, &plan).await
    }

    /// Admits a run of one call for acme at `now`, about `record`.
    pub(crate) async fn begin_about<S: Store>(
        store: &S,
        request: &str,
        record: Option<&str>,
        now: Timestamp,
    ) -> Self {
        let (plan, input) = (calls(1), json!({ "request": request }));
        let record = record.map(|record| record.parse().unwrap());
        let wish = Admit { record, ..wish("acme", request, &input) };
        let decision = admit(wish, &plan, stamp(now));
        Self::begun(store, Admission { decision, input: Payload::Inline(input), hold: None }, &plan).await
    }

    /// What the rules say to `command`.
    pub(crate) fn decide<C: Command>(&self, command: C) -> (Decision, C::Answer) {
        self.decide_at(NOON, command)
    }

    /// What the rules say to `command` at `now`.
    pub(crate) fn decide_at<C: Command>(&self, now: Timestamp, command: C) -> (Decision, C::Answer) {
        let mut draft = Draft::new(self.record.clone(), &self.plan, stamp(now)).knowing(self.asked.clone());
        let answer = command.decide(&mut draft).expect("the rules allow it");
        (draft.close(), answer)
    }

    /// Decides `command` and commits it.
    pub(crate) async fn commit<S: Store, C: Command>(&mut self, store: &S, command: C) -> C::Answer {
        let (decision, answer) = self.decide(command);
        self.record = decision.record.clone();
        self.asked = decision.approvals.last().cloned().or(self.asked.take());
        assert_eq!(store.commit(decision).await.unwrap(), Write::Committed);
        answer
    }

    /// Claims the current step for an effect called `key`.
    pub(crate) async fn claim<S: Store>(&mut self, store: &S, key: &str) -> Grant {
        granted(self.commit(store, claim(key, None)).await)
    }

    /// Claims the current step and finishes it with `output`.
    pub(crate) async fn work<S: Store>(&mut self, store: &S, key: &str, output: Value) {
        let grant = self.claim(store, key).await;
        self.commit(store, finish(grant, output)).await;
    }

    /// Which run it is.
    pub(crate) fn key(&self) -> &RunKey {
        &self.record.key
    }
}

/// The lease that a claim was answered with.
pub(crate) fn granted(claimed: Claimed) -> Grant {
    match claimed {
        Claimed::Granted(grant) => *grant,
        other => unreachable!("the claim was not granted: {other:?}"),
    }
}

/// A claim of an effect called `key`, where `receipt` stands under it.
pub(crate) fn claim(key: &str, receipt: Option<Receipt>) -> Claim {
    Claim {
        owner: WorkerId::new("worker").unwrap(),
        lease: Millis::secs(30),
        action: action(key),
        receipt,
        abandoned: false,
        governed: Some(Governed { verdict: verdict(Ruling::Allow), found: None }),
    }
}

/// A claim of an effect called `key` about which people are asked first.
pub(crate) fn asking(key: &str) -> Claim {
    let verdict = verdict(Ruling::NeedsApproval(Demand::default()));
    Claim { governed: Some(Governed { verdict, found: None }), ..claim(key, None) }
}

fn verdict(ruling: Ruling) -> Verdict {
    let because = vec![Reason::runtime("conformance", "so it is")];
    Verdict { ruling, because, policy: Digest::of_bytes(b"policy") }
}

/// A person says yes to `approval`.
pub(crate) fn yes(approval: Approval) -> Answer {
    Answer {
        tenant: Tenant::new(approval.run.tenant.clone()),
        approval,
        person: PersonId::new("grace").unwrap(),
        approve: true,
        reason: "looks right".to_owned(),
        through: Channel::CommandLine,
    }
}

fn action(key: &str) -> Action {
    Action {
        tool: tool(),
        contract: 1,
        class: EffectClass::NativeKey,
        reversibility: Reversibility::Compensable,
        target: "https://example.com/records/1".to_owned(),
        key: effect(key),
        key_retention: None,
        changes: Vec::new(),
        destructive: false,
        estimate_microusd: None,
        fields: json!({ "state": "open" }),
    }
}

/// Work that was granted succeeded with `output`.
pub(crate) fn finish(grant: Grant, output: Value) -> Finish {
    Finish {
        fence: grant.fence,
        fingerprint: Fingerprint::of(&output),
        output: Payload::Inline(output),
        response: json!({ "status": 200 }),
        inverse: None,
        cost_microusd: 12,
        usage: None,
        receipt: grant.receipt,
    }
}

/// The delivery `id` of the event [`event`], which nobody has seen before.
pub(crate) fn signal(id: &str) -> DeliverSignal {
    let body = json!({ "delivery": id });
    let signal = Signal {
        id: signal_id(id),
        event: event(),
        fingerprint: Fingerprint::of(&body),
        payload: Payload::Inline(body),
        at: NOON,
        kept: false,
    };
    DeliverSignal { signal, known: None }
}

/// The first commit of a run of `plan`.
pub(crate) fn admission(owner: &str, request: &str, plan: &Plan) -> Admission {
    admission_with(owner, request, plan, json!({ "request": request }))
}

/// The same, with an input of one's own.
pub(crate) fn admission_with(owner: &str, request: &str, plan: &Plan, input: Value) -> Admission {
    let wish = wish(owner, request, &input);
    Admission { decision: admit(wish, plan, stamp(NOON)), input: Payload::Inline(input), hold: None }
}

fn wish(owner: &str, request: &str, input: &Value) -> Admit {
    Admit {
        tenant: tenant(owner),
        workspace: WorkspaceId::new("main").unwrap(),
        trigger_kind: "api".to_owned(),
        key: effect(request),
        record: None,
        trace: None,
        input: Fingerprint::of(input),
    }
}

fn stamp(now: Timestamp) -> Stamp {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let op = OpId::new(&format!("op-{}", WRITES.fetch_add(1, Ordering::Relaxed))).unwrap();
    Stamp { op, now, by: Initiator::new(Cause::System, "worker") }
}

/// A plan of so many calls, each of which can be taken back.
pub(crate) fn calls(count: usize) -> Plan {
    plan(&vec![Work::Call(call()); count])
}

/// A plan that calls a tool and then waits for [`event`].
pub(crate) fn call_then_wait() -> Plan {
    let wait = Work::Wait { event: event(), timeout: Millis::hours(1), on_timeout: OnTimeout::Fail };
    plan(&[Work::Call(call()), wait, Work::Call(call())])
}

/// A plan that does all of `works` in turn.
pub(crate) fn plan(works: &[Work]) -> Plan {
    let steps = works.iter().enumerate().map(|(seq, work)| step(&format!("step-{seq}"), work)).collect();
    Plan::new(WorkflowName::new("conformance").unwrap(), Environment::Dev, steps)
}

/// One step of a plan.
pub(crate) fn step(id: &str, work: &Work) -> PlannedStep {
    PlannedStep {
        retry: RetryPolicy { attempts: 3, backoff: Backoff::Exponential { base: BACKOFF }, cap: BACKOFF },
        rollback: matches!(work, Work::Call(_)).then(|| Undo::Call(call())),
        ..PlannedStep::new(StepId::new(id).unwrap(), work.clone())
    }
}

fn call() -> Call {
    Call { tool: tool(), with: json!({ "url": "https://example.com/records/1" }) }
}

fn tool() -> ToolName {
    ToolName::new("http.request").unwrap()
}

/// A tenant.
pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

/// An effect, or a request to start a run.
pub(crate) fn effect(name: &str) -> IdempotencyKey {
    IdempotencyKey::new(name).unwrap()
}

/// How many messages there are, by whatever queue they go.
pub(crate) async fn messages<S: Store>(store: &S) -> u64 {
    let mut messages = 0;
    for queue in QueueName::ALL {
        messages += store.depth(queue).await.unwrap();
    }
    messages
}

/// A message that has `run` walked.
pub(crate) fn advance(run: &RunKey) -> Outgoing {
    Outgoing { run: run.clone(), queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) }
}

/// The event that plans here wait for.
pub(crate) fn event() -> EventName {
    EventName::new("change.approved").unwrap()
}

/// A delivery.
pub(crate) fn signal_id(name: &str) -> SignalId {
    SignalId::new(name).unwrap()
}
