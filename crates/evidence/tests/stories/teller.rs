//! One run, moved along by commands, and a ledger of it.

use std::collections::BTreeMap;

use countersign_evidence::{Whose, effects_of};
use domain::chain::StoredEvent;
use domain::command::{
    Admit, Answer, Cancel, Certainty, Claim, Claimed, Command, DeliverSignal, Fail, Finish, Governed, Grant,
    Nudge, OpenGate, OpenWait, Resume, Retry, RollBack, TakeOver, TimeOut, admit,
};
use domain::next::{Next, next};
use domain::payload::Fingerprint;
use domain::plan::{Call, Environment, OnReject, OnTimeout, Patience, Phase, Reads, Undo, Validation, Work};
use domain::record::Signal;
use domain::schedule::RetryPolicy;
use domain::{
    Action, Approval, ApprovalId, Blast, Cause, Channel, Decision, Demand, Digest, Draft, EffectClass,
    EventName, Failure, FieldChange, IdempotencyKey, Initiator, Live, Millis, OpId, Payload, People,
    PersonId, Plan, PlannedStep, Reason, Receipt, Refusal, Reversibility, Ruling, RunRecord, RunStatus,
    SignalId, Stamp, StepId, StepRecord, Tenant, TenantId, Tier, Timestamp, ToolName, Usage, Verdict,
    WorkerId, WorkflowName, WorkspaceId,
};
use serde_json::json;

/// What a ticket says; it must never reach a bundle.
const SECRET: &str = "the-database-password";

const LEASE: Millis = Millis::secs(30);

pub(crate) fn plan(steps: impl IntoIterator<Item = PlannedStep>) -> Plan {
    let named = |(n, step): (usize, PlannedStep)| PlannedStep {
        id: StepId::new(&format!("step-{n}")).unwrap(),
        ..step
    };
    Plan {
        workflow: WorkflowName::new("triage").unwrap(),
        version: 3,
        environment: Environment::Prod,
        author: Some(PersonId::new("arthur").unwrap()),
        validation: Validation::CriticalOnly,
        patience: Patience::default_in(Environment::Prod),
        auto_approve: None,
        triggered_by: None,
        ticket: None,
        sample: None,
        steps: steps.into_iter().enumerate().map(named).collect(),
    }
}

/// A call of `tool`.
pub(crate) fn step(tool: &str) -> PlannedStep {
    working(Work::Call(call(tool)))
}

/// A call of `tool`, taken back by a call of `undo`.
pub(crate) fn undoable(tool: &str, undo: &str) -> PlannedStep {
    PlannedStep { rollback: Some(Undo::Call(call(undo))), ..step(tool) }
}

/// A wait that goes on when its time is over.
pub(crate) fn wait() -> PlannedStep {
    let event = EventName::new("change.approved").unwrap();
    working(Work::Wait { event, timeout: Millis::hours(2), on_timeout: OnTimeout::Continue })
}

/// A question; a no pauses the run.
pub(crate) fn gate() -> PlannedStep {
    working(Work::Gate {
        message: "Go on?".to_owned(),
        expires_after: Millis::hours(1),
        on_reject: OnReject::Pause,
        demand: Demand::default(),
    })
}

fn working(work: Work) -> PlannedStep {
    PlannedStep {
        id: StepId::new("unnamed").unwrap(),
        work,
        retry: RetryPolicy::default(),
        blast: Blast::Low,
        critical: false,
        phase: Phase::Main,
        on_reject: OnReject::Fail,
        confidence: None,
        rollback: None,
        reads: Reads::default(),
        rollback_reads: Reads::default(),
    }
}

fn call(tool: &str) -> Call {
    Call { tool: ToolName::new(tool).unwrap(), with: json!({ "text": SECRET }) }
}

/// A run, and all that the ledger holds of it.
pub(crate) struct Teller {
    pub(crate) now: Timestamp,
    pub(crate) record: RunRecord,
    pub(crate) plan: Plan,
    pub(crate) entries: Vec<StoredEvent>,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) receipts: BTreeMap<IdempotencyKey, Receipt>,
    /// Receipts of other runs whose place one of this run's took.
    pub(crate) displaced: Vec<Receipt>,
    pub(crate) approvals: BTreeMap<ApprovalId, Approval>,
    /// The version of every tool's contract: another one makes every action another.
    pub(crate) contract: u32,
    signals: BTreeMap<SignalId, Signal>,
    grant: Option<Grant>,
    writes: u32,
}

impl Teller {
    pub(crate) fn begin(plan: Plan) -> Self {
        Self::begin_as("first", plan)
    }

    /// A run that `rita` asked for.
    pub(crate) fn begin_as(name: &str, plan: Plan) -> Self {
        let now = Timestamp(1_750_000_000_000);
        let wish = Admit {
            tenant: TenantId::new("acme").unwrap(),
            workspace: WorkspaceId::new("main").unwrap(),
            trigger_kind: "cli".to_owned(),
            record: None,
            trace: None,
            key: IdempotencyKey::new(&format!("cli:{name}")).unwrap(),
            input: Fingerprint::of(&json!({ "ticket": SECRET })),
        };
        let stamp = Stamp { op: OpId::new("op-0").unwrap(), now, by: Initiator::new(Cause::User, "rita") };
        let decision = admit(wish, &plan, stamp);
        let mut teller = Self {
            now,
            record: decision.record.clone(),
            plan,
            entries: Vec::new(),
            steps: Vec::new(),
            receipts: BTreeMap::new(),
            displaced: Vec::new(),
            approvals: BTreeMap::new(),
            contract: 1,
            signals: BTreeMap::new(),
            grant: None,
            writes: 0,
        };
        teller.keep(decision);
        teller
    }

    /// Decides `command` and keeps what it decides.
    pub(crate) fn try_decide<C: Command>(&mut self, by: &str, command: C) -> Result<C::Answer, Refusal> {
        self.writes += 1;
        self.now = self.now + Millis(250);
        let stamp = Stamp {
            op: OpId::new(&format!("op-{}", self.writes)).unwrap(),
            now: self.now,
            by: Initiator::new(Cause::System, by),
        };
        let plan = self.plan.clone();
        let mut draft = Draft::new(self.record.clone(), &plan, stamp).knowing(self.asked());
        let answer = command.decide(&mut draft)?;
        let decision = draft.close();
        self.keep(decision);
        Ok(answer)
    }

    fn decide<C: Command>(&mut self, by: &str, command: C) -> C::Answer {
        self.try_decide(by, command).unwrap()
    }

    fn keep(&mut self, decision: Decision) {
        let stored =
            |event: domain::SealedEvent| StoredEvent { canonical: event.canonical, hash: event.hash };
        self.entries.extend(decision.events.into_iter().map(stored));
        self.steps.extend(decision.steps);
        for change in decision.receipts {
            self.displaced.extend(change.displaces);
            self.receipts.insert(change.receipt.key.clone(), change.receipt);
        }
        for approval in decision.approvals {
            self.approvals.insert(approval.id.clone(), approval);
        }
        for change in decision.signals {
            if let domain::SignalChange::Record(signal) = change {
                self.signals.insert(signal.id.clone(), *signal);
            }
        }
        self.record = decision.record;
    }

    /// The request that the record names.
    fn asked(&self) -> Option<Approval> {
        self.approvals.get(self.record.live.approval()?).cloned()
    }

    /// The receipts that events of the run speak of.
    pub(crate) fn named_receipts(&self) -> Vec<Receipt> {
        let own = |receipt: &&Receipt| receipt.run == self.record.key.run;
        let receipt = |(key, whose): (&IdempotencyKey, &Whose)| {
            let left = || self.displaced.iter().filter(own).find(|receipt| receipt.key == *key);
            match whose {
                Whose::Own => self.receipts.get(key).filter(own).or_else(left).cloned(),
                Whose::Anybodys => self.receipts.get(key).cloned(),
            }
        };
        effects_of(&self.entries).unwrap().iter().filter_map(receipt).collect()
    }

    /// A worker does what can be done for the run now.
    pub(crate) fn serve(&mut self) {
        self.try_serve().unwrap();
    }

    pub(crate) fn try_serve(&mut self) -> Result<(), Refusal> {
        match next(&self.record, &self.plan, self.now) {
            Next::Nothing | Next::NotBefore(_) => Err(Refusal::WrongWork { expected: "something to do" }),
            Next::Claim => self.claim(|claim, teller| teller.try_decide("worker", claim)),
            Next::TakeOver => self.claim(|claim, teller| teller.try_decide("worker", TakeOver(claim))),
            Next::OpenWait => {
                let early =
                    self.record.early.first().and_then(|early| self.signals.get(&early.signal)).cloned();
                self.try_decide("worker", OpenWait { early }).map(drop)
            }
            Next::OpenGate => self.try_decide("worker", OpenGate { message: "Go on?".to_owned() }).map(drop),
            Next::TimeOut => self.try_decide("sweep", TimeOut).map(drop),
            Next::Nudge => self.try_decide("sweep", Nudge),
        }
    }

    fn claim(
        &mut self,
        decide: impl FnOnce(Claim, &mut Self) -> Result<Claimed, Refusal>,
    ) -> Result<(), Refusal> {
        let action = self.action();
        let claim = Claim {
            owner: WorkerId::new("worker-1").unwrap(),
            lease: LEASE,
            receipt: self.receipts.get(&action.key).cloned(),
            abandoned: false,
            governed: Some(Governed { verdict: verdict(&action), found: Some(json!({ "was": SECRET })) }),
            action,
        };
        self.grant = match decide(claim, self)? {
            Claimed::Granted(grant) => Some(*grant),
            Claimed::Settled(_) | Claimed::Asked | Claimed::Later(_) => None,
        };
        Ok(())
    }

    /// What the current step means, or its undoing.
    fn action(&self) -> Action {
        let step = self.plan.step(self.record.at).unwrap();
        let Work::Call(done) = &step.work else { panic!("a wait or a gate is not claimed") };
        let key = match done.tool.as_str() {
            shared if shared.starts_with("shared") => IdempotencyKey::new(shared).unwrap(),
            _ => IdempotencyKey::for_step(&done.tool, &self.record.key.run, &step.id),
        };
        match &step.rollback {
            Some(Undo::Call(undo)) if self.record.is_undoing() => self.action_of(undo, key.undo()),
            _ => self.action_of(done, key),
        }
    }

    fn action_of(&self, call: &Call, key: IdempotencyKey) -> Action {
        Action {
            tool: call.tool.clone(),
            contract: self.contract,
            class: class(&call.tool),
            reversibility: Reversibility::Inverse,
            target: format!("incident of {key}"),
            key,
            key_retention: None,
            fields: call.with.clone(),
            changes: vec![FieldChange { field: "state".to_owned(), before: None, after: json!(SECRET) }],
            destructive: false,
            estimate_microusd: None,
        }
    }

    /// The holder is done.
    pub(crate) fn finish(&mut self) {
        self.try_finish().unwrap();
    }

    pub(crate) fn try_finish(&mut self) -> Result<(), Refusal> {
        let grant = self.held()?;
        let output = json!({ "answer": SECRET });
        let (provider, model) = ("provider".to_owned(), "model-1".to_owned());
        let usage = Usage { provider, model, input_tokens: 1_000, output_tokens: 20 };
        let finish = Finish {
            fence: grant.fence,
            fingerprint: Fingerprint::of(&output),
            output: Payload::Inline(output),
            response: json!({ "status": 200, "id": SECRET }),
            inverse: Some(json!({ "tool": "set.allow", "with": { "text": SECRET } })),
            cost_microusd: 7,
            usage: Some(usage),
            receipt: grant.receipt,
        };
        self.try_decide("worker", finish).map(drop)
    }

    fn held(&self) -> Result<Grant, Refusal> {
        self.grant.clone().ok_or(Refusal::WrongWork { expected: "a grant" })
    }

    /// A worker takes the step and finishes it.
    pub(crate) fn work(&mut self) {
        self.serve();
        if matches!(self.record.live, Live::Running(_)) {
            self.finish();
        }
    }

    /// The same, with whoever must say yes.
    pub(crate) fn work_approved(&mut self) {
        self.serve();
        for person in ["paula", "peter"] {
            if self.record.status == RunStatus::WaitingApproval {
                self.answer(person, true);
            }
        }
        if !matches!(self.record.live, Live::Running(_)) {
            self.serve();
        }
        self.finish();
    }

    /// The holder found that the step cannot succeed.
    pub(crate) fn fail(&mut self) {
        self.try_fail().unwrap();
    }

    pub(crate) fn try_fail(&mut self) -> Result<(), Refusal> {
        let grant = self.held()?;
        let failure = Failure::new("HTTP_STATUS", "400 Bad Request");
        self.try_decide("worker", Fail { fence: Some(grant.fence), failure, receipt: grant.receipt })
            .map(drop)
    }

    /// The attempt did not happen; the next one is due at once.
    pub(crate) fn retry_later(&mut self) {
        self.try_retry(Certainty::DidNotHappen).unwrap();
        self.let_time_pass();
    }

    /// The attempt may have happened.
    pub(crate) fn lose_track(&mut self) {
        self.try_retry(Certainty::MayHaveHappened).unwrap();
    }

    pub(crate) fn try_retry(&mut self, certainty: Certainty) -> Result<(), Refusal> {
        let grant = self.held()?;
        let failure = Failure::new("HTTP_STATUS", "503 Service Unavailable");
        let retry =
            Retry { fence: grant.fence, failure, certainty, retry_after: None, receipt: grant.receipt };
        self.try_decide("worker", retry).map(drop)
    }

    /// Nobody hears of the holder until its lease has run out.
    pub(crate) fn fall_silent(&mut self) {
        self.now = self.now + LEASE;
    }

    /// Until whatever the run waits for is overdue.
    pub(crate) fn let_time_pass(&mut self) {
        let until = match &self.record.live {
            Live::Retrying { not_before, .. } => *not_before,
            Live::WaitingEvent { deadline, .. } | Live::WaitingApproval { deadline, .. } => *deadline,
            Live::Running(lease) => lease.until,
            Live::Ready { .. } | Live::Unresolved { .. } | Live::Over { .. } => self.now,
        };
        self.now = self.now.max(until);
    }

    pub(crate) fn wait_and_nudge(&mut self) {
        let Live::WaitingApproval { nudge_at, .. } = &self.record.live else { panic!("nobody is asked") };
        self.now = self.now.max(*nudge_at);
        self.serve();
    }

    pub(crate) fn answer(&mut self, person: &str, approve: bool) {
        self.try_answer(person, approve).unwrap();
    }

    pub(crate) fn try_answer(&mut self, person: &str, approve: bool) -> Result<(), Refusal> {
        let approval = self.asked().ok_or(Refusal::WrongWork { expected: "a question" })?;
        let answer = Answer {
            approval,
            person: PersonId::new(person).unwrap(),
            approve,
            reason: "looks \u{202e}right <b>to me</b>".to_owned(),
            through: Channel::Slack { team: "T1".to_owned(), user: format!("U-{person}") },
            tenant: Tenant::new(self.record.key.tenant.clone()),
        };
        self.try_decide(person, answer).map(drop)
    }

    pub(crate) fn signal(&mut self) {
        self.try_signal().unwrap();
    }

    pub(crate) fn try_signal(&mut self) -> Result<(), Refusal> {
        let body = json!({ "approved_by": SECRET });
        let signal = Signal {
            id: SignalId::new(&format!("delivery-{}", self.writes)).unwrap(),
            event: EventName::new("change.approved").unwrap(),
            fingerprint: Fingerprint::of(&body),
            payload: Payload::Inline(body),
            at: self.now,
            kept: false,
        };
        self.try_decide("webhook", DeliverSignal { signal, known: None }).map(drop)
    }

    pub(crate) fn cancel(&mut self) {
        self.decide("olga", Cancel { reason: "no longer wanted".to_owned() });
    }

    pub(crate) fn resume(&mut self) {
        self.decide("olga", Resume { reason: "looked at it".to_owned() });
    }

    pub(crate) fn roll_back(&mut self) {
        self.decide("olga", RollBack { reason: "undo it all".to_owned() });
    }
}

fn class(tool: &ToolName) -> EffectClass {
    match tool.as_str().split('.').next() {
        Some("read") => EffectClass::ReadOnly,
        Some("native") => EffectClass::NativeKey,
        Some("find") => EffectClass::LookUp,
        Some("shell") => EffectClass::Opaque,
        _ => EffectClass::CompareAndSet,
    }
}

fn verdict(action: &Action) -> Verdict {
    let demand = |people| Demand { tier: Tier::Medium, people, groups: Vec::new() };
    let ruling = match action.operation() {
        "one" => Ruling::NeedsApproval(demand(People::One)),
        "two" => Ruling::NeedsApproval(demand(People::Two)),
        "deny" => Ruling::Deny,
        _ => Ruling::Allow,
    };
    let because = vec![Reason {
        rule: "by-name".to_owned(),
        says: format!("the name of the tool says {}", action.operation()),
        file: Some("policy.rego".to_owned()),
        line: Some(7),
    }];
    Verdict { ruling, because, policy: Digest::of_bytes(b"policy") }
}
