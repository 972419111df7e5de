//! Runs to test a store with, by the commands of the domain. The domain makes every decision, as in production.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::command::{
    Admit, Claim, ClaimResult, Command, DeliverSignal, Finish, Grant, PolicyEvaluation, RecordVote, admit,
};
use domain::payload::Fingerprint;
use domain::plan::{Call, Environment, OnTimeout, Undo, Work};
use domain::record::Signal;
use domain::retry_policy::{Backoff, RetryPolicy};
use domain::{
    Action, Approval, ApprovalRequirement, Cause, Channel, Decision, DecisionContext, Digest, Draft,
    EffectClass, EventName, IdempotencyKey, Initiator, Job, Millis, OpId, Outgoing, Payload, PersonId, Plan,
    PlannedStep, QueueName, Reason, Receipt, Refusal, Reversibility, Ruling, RunKey, RunRecord, SignalId,
    StepId, Tenant, TenantId, Timestamp, ToolName, TraceContext, Verdict, WorkerId, WorkflowName,
    WorkspaceId,
};
use serde_json::{Value, json};
use store::{Admission, Store, Write};

pub use crate::runs::messages;

/// The time of every decision, unless a case gives another.
pub const NOON: Timestamp = Timestamp(1_750_000_000_000);

/// The delay after a failed attempt: long enough to be observed, short enough to wait for.
pub const BACKOFF: Millis = Millis(200);

/// A run, with the state that its worker knows.
#[derive(Clone)]
pub struct LedgerRun {
    pub plan: Arc<Plan>,
    pub record: RunRecord,
    /// The approval that the run waits for or has consumed.
    pub approval: Option<Approval>,
}

impl LedgerRun {
    /// Admits a run of `plan` for `owner`; `request` is its idempotency key.
    pub async fn start<S: Store>(store: &S, owner: &str, request: &str, plan: &Plan) -> Self {
        Self::admit(store, admission(owner, request, plan), plan).await
    }

    /// The run of `admission`, before its first commit.
    pub fn new(plan: &Plan, admission: &Admission) -> Self {
        Self { plan: Arc::new(plan.clone()), record: admission.decision.record.clone(), approval: None }
    }

    /// Commits `admission`.
    pub async fn admit<S: Store>(store: &S, admission: Admission, plan: &Plan) -> Self {
        let run = Self::new(plan, &admission);
        assert_eq!(store.admit(admission).await.unwrap(), Write::Committed);
        run
    }

    /// Admits a run of one call for acme with the trace context `trace`.
    pub async fn start_in_trace<S: Store>(store: &S, request: &str, trace: TraceContext) -> Self {
        let plan = calls(1);
        let mut admission = admission("acme", request, &plan);
        admission.decision.record.trace = Some(trace);
        Self::admit(store, admission, &plan).await
    }

    /// Admits a run of one call for acme at `now`, about `record`.
    pub async fn start_about<S: Store>(
        store: &S,
        request: &str,
        (workspace, record): (&str, Option<&str>),
        now: Timestamp,
    ) -> Self {
        let (plan, input) = (calls(1), json!({ "request": request }));
        let record = record.map(|record| record.parse().unwrap());
        let command =
            Admit { workspace: workspace.parse().unwrap(), record, ..admit_command("acme", request, &input) };
        let decision = admit(command, &plan, context(now));
        Self::admit(store, Admission { decision, input: Payload::Inline(input), hold: None }, &plan).await
    }

    pub fn decide<C: Command>(&self, command: C) -> (Decision, C::Output) {
        self.decide_at(NOON, command)
    }

    /// The domain's decision on `command` at `now`.
    pub fn decide_at<C: Command>(&self, now: Timestamp, command: C) -> (Decision, C::Output) {
        self.decide_with(context(now), command)
    }

    /// The domain's decision on `command` with this context.
    pub fn decide_with<C: Command>(&self, context: DecisionContext, command: C) -> (Decision, C::Output) {
        self.try_decide(context, command).expect("the domain accepts the command")
    }

    /// The domain's decision on `command` with this context, or its refusal.
    pub fn try_decide<C: Command>(
        &self,
        context: DecisionContext,
        command: C,
    ) -> Result<(Decision, C::Output), Refusal> {
        let mut draft =
            Draft::new(self.record.clone(), &self.plan, context).with_approval(self.approval.clone());
        let answer = command.decide(&mut draft)?;
        Ok((draft.close(), answer))
    }

    /// Decides `command` and commits the decision.
    pub async fn commit<S: Store, C: Command>(&mut self, store: &S, command: C) -> C::Output {
        let (decision, answer) = self.decide(command);
        self.apply(&decision);
        assert_eq!(store.commit(decision).await.unwrap(), Write::Committed);
        answer
    }

    /// The state after `decision`.
    pub fn apply(&mut self, decision: &Decision) {
        self.record = decision.record.clone();
        self.approval = decision.approvals.last().cloned().or(self.approval.take());
    }

    /// Claims the current step for the effect `key`.
    pub async fn claim<S: Store>(&mut self, store: &S, key: &str) -> Grant {
        granted(self.commit(store, claim(key, None)).await)
    }

    /// Claims the current step and finishes it with `output`.
    pub async fn work<S: Store>(&mut self, store: &S, key: &str, output: Value) {
        let grant = self.claim(store, key).await;
        self.commit(store, finish(grant, output)).await;
    }

    pub fn key(&self) -> &RunKey {
        &self.record.key
    }
}

/// The grant of a claim that must have been granted.
pub fn granted(claimed: ClaimResult) -> Grant {
    match claimed {
        ClaimResult::Granted(grant) => *grant,
        other => unreachable!("the claim was not granted: {other:?}"),
    }
}

/// A claim of the effect `key`; `receipt` is its current receipt.
pub fn claim(key: &str, receipt: Option<Receipt>) -> Claim {
    Claim { receipt, ..claim_of(action(key), Ruling::Allow) }
}

/// A claim of `action`, on which the policy rules.
pub fn claim_of(action: Action, ruling: Ruling) -> Claim {
    Claim {
        owner: WorkerId::new("worker").unwrap(),
        lease: Millis::secs(30),
        action,
        receipt: None,
        abandoned: false,
        departed: Vec::new(),
        assessment: Some(PolicyEvaluation { verdict: verdict(ruling), observed: None }),
    }
}

/// A claim of the effect `key` that needs an approval.
pub fn claim_needing_approval(key: &str) -> Claim {
    claim_of(action(key), Ruling::NeedsApproval(ApprovalRequirement::default()))
}

/// A verdict with one reason.
pub fn verdict(ruling: Ruling) -> Verdict {
    let reasons = vec![Reason::runtime("test", "test verdict")];
    Verdict { ruling, reasons, policy: Digest::of_bytes(b"policy") }
}

/// A person approves `approval`.
pub fn approve(approval: Approval) -> RecordVote {
    RecordVote {
        tenant: Tenant::new(approval.run.tenant.clone()),
        approval,
        person: PersonId::new("grace").unwrap(),
        approve: true,
        reason: "looks right".to_owned(),
        through: Channel::CommandLine,
    }
}

/// A write to an external record, under the effect `key`.
pub fn action(key: &str) -> Action {
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
        connection: None,
        fields: json!({ "state": "open" }),
    }
}

/// The granted step succeeds with `output`.
pub fn finish(grant: Grant, output: Value) -> Finish {
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

/// The delivery `id` of the event [`event`], not seen before.
pub fn signal(id: &str) -> DeliverSignal {
    let body = json!({ "delivery": id });
    let signal = Signal {
        id: signal_id(id),
        event: event(),
        fingerprint: Fingerprint::of(&body),
        payload: Payload::Inline(body),
        at: NOON,
        buffered: false,
    };
    DeliverSignal { signal, known: None }
}

/// The first commit of a run of `plan`.
pub fn admission(owner: &str, request: &str, plan: &Plan) -> Admission {
    admission_with(owner, request, plan, json!({ "request": request }))
}

/// Like `admission`, with a given input.
pub fn admission_with(owner: &str, request: &str, plan: &Plan, input: Value) -> Admission {
    let command = admit_command(owner, request, &input);
    Admission { decision: admit(command, plan, context(NOON)), input: Payload::Inline(input), hold: None }
}

/// The command that starts a run.
pub fn admit_command(owner: &str, request: &str, input: &Value) -> Admit {
    Admit {
        tenant: tenant(owner),
        workspace: WorkspaceId::new("main").unwrap(),
        trigger_kind: "api".to_owned(),
        key: effect(request),
        record: None,
        trace: None,
        input: Fingerprint::of(input),
        applied_by: None,
        inherited: domain::Inherited::default(),
    }
}

/// A context with an operation id of its own.
pub fn context(now: Timestamp) -> DecisionContext {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let op = OpId::new(&format!("op-{}", WRITES.fetch_add(1, Ordering::Relaxed))).unwrap();
    DecisionContext { op, now, by: Initiator::new(Cause::System, "worker") }
}

/// A plan of `count` calls, each with a rollback.
pub fn calls(count: usize) -> Plan {
    plan(&vec![Work::Call(call()); count])
}

/// A plan that calls a tool, waits for [`event`], and calls a tool.
pub fn call_then_wait() -> Plan {
    let wait = Work::Wait { event: event(), timeout: Millis::hours(1), on_timeout: OnTimeout::Fail };
    plan(&[Work::Call(call()), wait, Work::Call(call())])
}

/// A plan of `works`, in order.
pub fn plan(works: &[Work]) -> Plan {
    let steps = works.iter().enumerate().map(|(seq, work)| step(&format!("step-{seq}"), work)).collect();
    Plan::new(WorkflowName::new("test").unwrap(), Environment::Dev, steps)
}

pub fn step(id: &str, work: &Work) -> PlannedStep {
    PlannedStep {
        retry: RetryPolicy {
            attempts: 3,
            once_if_risky: false,
            backoff: Backoff::Exponential { base: BACKOFF },
            cap: BACKOFF,
        },
        rollback: matches!(work, Work::Call(_)).then(|| Undo::Call(call())),
        ..PlannedStep::new(StepId::new(id).unwrap(), work.clone())
    }
}

fn call() -> Call {
    Call { tool: tool(), connection: None, with: json!({ "url": "https://example.com/records/1" }) }
}

fn tool() -> ToolName {
    ToolName::new("http.request").unwrap()
}

pub fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

/// The key of an effect, or of a request to start a run.
pub fn effect(name: &str) -> IdempotencyKey {
    IdempotencyKey::new(name).unwrap()
}

/// A message that advances `run`.
pub fn advance(run: &RunKey) -> Outgoing {
    Outgoing { run: run.clone(), queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) }
}

/// The event that the plans here wait for.
pub fn event() -> EventName {
    EventName::new("change.approved").unwrap()
}

pub fn signal_id(name: &str) -> SignalId {
    SignalId::new(name).unwrap()
}
