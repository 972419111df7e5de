//! A run with its ledger, advanced by commands.

use std::collections::BTreeMap;

use countersign_evidence::{ReceiptOwner, effects_of};
use domain::chain::StoredEvent;
use domain::command::{
    Admit, Cancel, Claim, ClaimResult, Command, DeliverSignal, EffectOutcome, Fail, Finish, Grant, OpenGate,
    OpenWait, PolicyEvaluation, RecordVote, RemindApprovers, Resume, Retry, RollBack, TakeOver, TimeOut,
    admit,
};
use domain::next::{Next, next};
use domain::payload::Fingerprint;
use domain::plan::{Call, Environment, OnReject, OnTimeout, Undo, Validation, Work};
use domain::record::Signal;
use domain::{
    Action, Approval, ApprovalId, ApprovalRequirement, ApproverCount, Cause, Channel, Decision,
    DecisionContext, Digest, Draft, EffectClass, EventName, Failure, FieldChange, IdempotencyKey, Initiator,
    Millis, ModelUsage, OpId, Payload, PersonId, Plan, PlannedStep, Reason, Receipt, Refusal, Reversibility,
    Ruling, RunRecord, RunStatus, SignalId, StepId, StepRecord, StepState, Tenant, TenantId, Tier, Timestamp,
    ToolName, Verdict, WorkerId, WorkflowName, WorkspaceId,
};
use serde_json::json;

/// A value that must not appear in a bundle.
const SECRET: &str = "the-database-password";

const LEASE: Millis = Millis::secs(30);

pub(crate) fn plan(steps: impl IntoIterator<Item = PlannedStep>) -> Plan {
    let named = |(n, step): (usize, PlannedStep)| PlannedStep {
        id: StepId::new(&format!("step-{n}")).unwrap(),
        ..step
    };
    let steps = steps.into_iter().enumerate().map(named).collect();
    Plan {
        version: 3,
        author: Some(PersonId::new("arthur").unwrap()),
        validation: Validation::CriticalOnly,
        ..Plan::new(WorkflowName::new("triage").unwrap(), Environment::Prod, steps)
    }
}

/// A call of `tool`.
pub(crate) fn step(tool: &str) -> PlannedStep {
    step_of(Work::Call(call(tool)))
}

/// A call of `tool` whose rollback is a call of `rollback`.
pub(crate) fn undoable(tool: &str, rollback: &str) -> PlannedStep {
    PlannedStep { rollback: Some(Undo::Call(call(rollback))), ..step(tool) }
}

/// A wait that continues after its timeout.
pub(crate) fn wait() -> PlannedStep {
    let event = EventName::new("change.approved").unwrap();
    step_of(Work::Wait { event, timeout: Millis::hours(2), on_timeout: OnTimeout::Continue })
}

/// An approval gate; a rejection pauses the run.
pub(crate) fn gate() -> PlannedStep {
    step_of(Work::Gate {
        message: "Go on?".to_owned(),
        expires_after: Millis::hours(1),
        on_reject: OnReject::Pause,
        requirement: ApprovalRequirement::default(),
    })
}

fn step_of(work: Work) -> PlannedStep {
    PlannedStep::new(StepId::new("unnamed").unwrap(), work)
}

fn call(tool: &str) -> Call {
    Call { tool: ToolName::new(tool).unwrap(), connection: None, with: json!({ "text": SECRET }) }
}

/// A run and its records in the ledger.
pub(crate) struct Story {
    pub(crate) now: Timestamp,
    pub(crate) record: RunRecord,
    pub(crate) plan: Plan,
    pub(crate) entries: Vec<StoredEvent>,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) receipts: BTreeMap<IdempotencyKey, Receipt>,
    /// Receipts of other runs that a receipt of this run replaced.
    pub(crate) displaced: Vec<Receipt>,
    pub(crate) approvals: BTreeMap<ApprovalId, Approval>,
    /// The contract version of every tool. A new version changes every action.
    pub(crate) contract: u32,
    signals: BTreeMap<SignalId, Signal>,
    grant: Option<Grant>,
    writes: u32,
}

impl Story {
    pub(crate) fn start(plan: Plan) -> Self {
        Self::start_as("first", plan)
    }

    /// A run requested by `rita`.
    pub(crate) fn start_as(name: &str, plan: Plan) -> Self {
        let now = Timestamp(1_750_000_000_000);
        let request = Admit {
            tenant: TenantId::new("acme").unwrap(),
            workspace: WorkspaceId::new("main").unwrap(),
            trigger_kind: "cli".to_owned(),
            record: None,
            trace: None,
            key: IdempotencyKey::new(&format!("cli:{name}")).unwrap(),
            input: Fingerprint::of(&json!({ "ticket": SECRET })),
            applied_by: None,
            inherited: domain::Inherited::default(),
        };
        let context =
            DecisionContext { op: OpId::new("op-0").unwrap(), now, by: Initiator::new(Cause::User, "rita") };
        let decision = admit(request, &plan, context);
        let mut env = Self {
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
        env.store(decision);
        env
    }

    /// Decides `command` and stores the decision.
    pub(crate) fn try_decide<C: Command>(&mut self, by: &str, command: C) -> Result<C::Output, Refusal> {
        self.writes += 1;
        self.now = self.now + Millis(250);
        let context = DecisionContext {
            op: OpId::new(&format!("op-{}", self.writes)).unwrap(),
            now: self.now,
            by: Initiator::new(Cause::System, by),
        };
        let plan = self.plan.clone();
        let mut draft =
            Draft::new(self.record.clone(), &plan, context).with_approval(self.current_approval());
        let output = command.decide(&mut draft)?;
        let decision = draft.close();
        self.store(decision);
        Ok(output)
    }

    fn decide<C: Command>(&mut self, by: &str, command: C) -> C::Output {
        self.try_decide(by, command).unwrap()
    }

    fn store(&mut self, decision: Decision) {
        let stored =
            |event: domain::ChainedEvent| StoredEvent { canonical: event.canonical, hash: event.hash };
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

    /// The approval request in the run record.
    fn current_approval(&self) -> Option<Approval> {
        self.approvals.get(self.record.step_state.approval()?).cloned()
    }

    /// The receipts that events of the run refer to.
    pub(crate) fn named_receipts(&self) -> Vec<Receipt> {
        let own = |receipt: &&Receipt| receipt.run == self.record.key.run;
        let receipt = |(key, owner): (&IdempotencyKey, &ReceiptOwner)| {
            let displaced = || self.displaced.iter().filter(own).find(|receipt| receipt.key == *key);
            match owner {
                ReceiptOwner::ThisRun => self.receipts.get(key).filter(own).or_else(displaced).cloned(),
                ReceiptOwner::AnyRun => self.receipts.get(key).cloned(),
            }
        };
        effects_of(&self.entries).unwrap().iter().filter_map(receipt).collect()
    }

    /// Performs the next due operation of the run.
    pub(crate) fn advance(&mut self) {
        self.try_advance().unwrap();
    }

    pub(crate) fn try_advance(&mut self) -> Result<(), Refusal> {
        match next(&self.record, &self.plan, self.now) {
            Next::Nothing | Next::NotBefore(_) => Err(Refusal::WrongState { expected: "a due operation" }),
            Next::Claim => self.claim(|claim, env| env.try_decide("worker", claim)),
            Next::TakeOver => self.claim(|claim, env| env.try_decide("worker", TakeOver(claim))),
            Next::OpenWait => {
                let buffered = self
                    .record
                    .buffered_signals
                    .first()
                    .and_then(|signal| self.signals.get(&signal.signal))
                    .cloned();
                self.try_decide("worker", OpenWait { buffered }).map(drop)
            }
            Next::OpenGate => self.try_decide("worker", OpenGate { message: "Go on?".to_owned() }).map(drop),
            Next::TimeOut => self.try_decide("sweep", TimeOut).map(drop),
            Next::RemindApprovers => self.try_decide("sweep", RemindApprovers),
        }
    }

    fn claim(
        &mut self,
        decide: impl FnOnce(Claim, &mut Self) -> Result<ClaimResult, Refusal>,
    ) -> Result<(), Refusal> {
        let action = self.action();
        let claim = Claim {
            owner: WorkerId::new("worker-1").unwrap(),
            lease: LEASE,
            receipt: self.receipts.get(&action.key).cloned(),
            abandoned: false,
            departed: Vec::new(),
            assessment: Some(PolicyEvaluation {
                verdict: verdict(&action),
                observed: Some(json!({ "was": SECRET })),
            }),
            action,
        };
        self.grant = match decide(claim, self)? {
            ClaimResult::Granted(grant) => Some(*grant),
            ClaimResult::Resolved(_) | ClaimResult::AwaitingApproval | ClaimResult::Deferred(_) => None,
        };
        Ok(())
    }

    /// The action of the current step, or of its rollback.
    fn action(&self) -> Action {
        let step = self.plan.step(self.record.at).unwrap();
        let Work::Call(call) = &step.work else { panic!("a wait or a gate is not claimed") };
        let key = match call.tool.as_str() {
            shared if shared.starts_with("shared") => IdempotencyKey::new(shared).unwrap(),
            _ => IdempotencyKey::for_step(&call.tool, &self.record.key.run, &step.id),
        };
        match &step.rollback {
            Some(Undo::Call(rollback)) if self.record.is_rolling_back() => {
                self.action_of(rollback, key.reverse())
            }
            _ => self.action_of(call, key),
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
            connection: None,
        }
    }

    pub(crate) fn finish(&mut self) {
        self.try_finish().unwrap();
    }

    pub(crate) fn try_finish(&mut self) -> Result<(), Refusal> {
        let grant = self.current_grant()?;
        let output = json!({ "answer": SECRET });
        let (provider, model) = ("provider".to_owned(), "model-1".to_owned());
        let usage = ModelUsage { provider, model, input_tokens: 1_000, output_tokens: 20 };
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

    fn current_grant(&self) -> Result<Grant, Refusal> {
        self.grant.clone().ok_or(Refusal::WrongState { expected: "a grant" })
    }

    /// Claims the step and finishes it.
    pub(crate) fn work(&mut self) {
        self.advance();
        if matches!(self.record.step_state, StepState::Running(_)) {
            self.finish();
        }
    }

    /// Claims the step, approves it if necessary, and finishes it.
    pub(crate) fn work_approved(&mut self) {
        self.advance();
        for person in ["paula", "peter"] {
            if self.record.status == RunStatus::WaitingApproval {
                self.vote(person, true);
            }
        }
        if !matches!(self.record.step_state, StepState::Running(_)) {
            self.advance();
        }
        self.finish();
    }

    /// Fails the step permanently.
    pub(crate) fn fail(&mut self) {
        self.try_fail().unwrap();
    }

    pub(crate) fn try_fail(&mut self) -> Result<(), Refusal> {
        let grant = self.current_grant()?;
        let failure = Failure::new("HTTP_STATUS", "400 Bad Request");
        self.try_decide("worker", Fail { fence: Some(grant.fence), failure, receipt: grant.receipt })
            .map(drop)
    }

    /// The attempt had no effect. The next attempt is due at once.
    pub(crate) fn retry_later(&mut self) {
        self.try_retry(EffectOutcome::DidNotHappen).unwrap();
        self.pass_time();
    }

    /// The outcome of the attempt is unknown.
    pub(crate) fn lose_outcome(&mut self) {
        self.try_retry(EffectOutcome::MayHaveHappened).unwrap();
    }

    pub(crate) fn try_retry(&mut self, certainty: EffectOutcome) -> Result<(), Refusal> {
        let grant = self.current_grant()?;
        let failure = Failure::new("HTTP_STATUS", "503 Service Unavailable");
        let retry =
            Retry { fence: grant.fence, failure, certainty, retry_after: None, receipt: grant.receipt };
        self.try_decide("worker", retry).map(drop)
    }

    pub(crate) fn expire_lease(&mut self) {
        self.now = self.now + LEASE;
    }

    /// Advances the clock to the next deadline of the run.
    pub(crate) fn pass_time(&mut self) {
        let until = match &self.record.step_state {
            StepState::Retrying { not_before, .. } => *not_before,
            StepState::WaitingEvent { deadline, .. } | StepState::WaitingApproval { deadline, .. } => {
                *deadline
            }
            StepState::Running(lease) => lease.until,
            StepState::Ready { .. } | StepState::Unresolved { .. } | StepState::Ended { .. } => self.now,
        };
        self.now = self.now.max(until);
    }

    pub(crate) fn pass_time_and_remind(&mut self) {
        let StepState::WaitingApproval { next_reminder_at, .. } = &self.record.step_state else {
            panic!("no approval is pending")
        };
        self.now = self.now.max(*next_reminder_at);
        self.advance();
    }

    pub(crate) fn vote(&mut self, person: &str, approve: bool) {
        self.try_vote(person, approve).unwrap();
    }

    pub(crate) fn try_vote(&mut self, person: &str, approve: bool) -> Result<(), Refusal> {
        let approval =
            self.current_approval().ok_or(Refusal::WrongState { expected: "an approval request" })?;
        let vote = RecordVote {
            approval,
            person: PersonId::new(person).unwrap(),
            approve,
            reason: "looks \u{202e}right <b>to me</b>".to_owned(),
            through: Channel::Slack { team: "T1".to_owned(), user: format!("U-{person}") },
            tenant: Tenant::new(self.record.key.tenant.clone()),
        };
        self.try_decide(person, vote).map(drop)
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
            buffered: false,
        };
        self.try_decide("webhook", DeliverSignal { signal, known: None }).map(drop)
    }

    pub(crate) fn cancel(&mut self) {
        self.decide("olga", Cancel { reason: "no longer wanted".to_owned() });
    }

    pub(crate) fn resume(&mut self) {
        self.decide("olga", Resume { reason: "reviewed".to_owned() });
    }

    pub(crate) fn roll_back(&mut self) {
        self.decide("olga", RollBack { reason: "rollback it all".to_owned(), down_to: None });
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
    let requirement = |people| ApprovalRequirement {
        tier: Tier::Medium,
        people,
        groups: Vec::new(),
        ..ApprovalRequirement::default()
    };
    let ruling = match action.operation() {
        "one" => Ruling::NeedsApproval(requirement(ApproverCount::One)),
        "two" => Ruling::NeedsApproval(requirement(ApproverCount::Two)),
        "deny" => Ruling::Deny,
        _ => Ruling::Allow,
    };
    let reasons = vec![Reason {
        rule: "by-name".to_owned(),
        message: format!("the tool name sets {}", action.operation()),
        file: Some("policy.rego".to_owned()),
        line: Some(7),
    }];
    Verdict { ruling, reasons, policy: Digest::of_bytes(b"policy") }
}
