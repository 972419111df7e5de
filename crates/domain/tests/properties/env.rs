//! A test environment: a ledger with the conditions of a store, two runs, and a clock that tests can move.

use std::collections::BTreeMap;

use domain::chain::StoredEvent;
use domain::command::{
    Admit, AttemptMode, Cancel, Claim, ClaimResult, Command as _, DeliverSignal, EffectOutcome, Fail, Finish,
    Grant, OpenGate, OpenWait, Pause, PolicyEvaluation, Postpone, RecordVote, RemindApprovers, Renew, Resume,
    Retry, RollBack, TakeOver, TimeOut, Wake, admit,
};
use domain::next::{Next, next};
use domain::payload::Fingerprint;
use domain::plan::{Undo, Work};
use domain::record::{Intent, Signal};
use domain::tenant::Person;
use domain::{
    Approval, ApprovalId, Cause, Channel, Decision, DecisionContext, Draft, Failure, Fence, IdempotencyKey,
    Inherited, Initiator, Millis, OpId, Participants, Payload, PersonId, Plan, PlannedStep, Receipt, Refusal,
    Ruling, RunRecord, SignalChange, SignalId, StepRecord, StepSeq, StepState, Tenant, TenantId, Timestamp,
    WorkerId, WorkspaceId,
};
use serde_json::{Value, json};

use crate::plans;
use crate::scenario::{Binding, Op, PlannedOp, Scenario, WorkerRef};

const LEASE: Millis = Millis::secs(30);

/// A ledger with two runs, and a clock.
pub(crate) struct LedgerEnv {
    pub(crate) now: Timestamp,
    pub(crate) runs: Vec<Run>,
    pub(crate) receipts: BTreeMap<IdempotencyKey, Receipt>,
    /// The current directory.
    pub(crate) tenant: Tenant,
    writes: u32,
}

/// The ledger's data of a run, and the grants of its steps.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) record: RunRecord,
    /// The record before its last write.
    previous: RunRecord,
    pub(crate) chain: Vec<StoredEvent>,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) signals: BTreeMap<SignalId, Signal>,
    pub(crate) approvals: BTreeMap<ApprovalId, Approval>,
    /// The approvals in the order they were requested.
    pub(crate) requested: Vec<ApprovalId>,
    grants: Vec<Grant>,
}

/// A commit, and the state it was made from.
pub(crate) struct Commit {
    pub(crate) run: usize,
    pub(crate) before: Option<RunRecord>,
    /// The user who shaped the run with this command.
    pub(crate) shaped_by: Option<PersonId>,
    /// The fence that the caller claims to hold.
    pub(crate) holds: Option<Fence>,
    /// The receipts that were replaced, by key.
    pub(crate) replaced: Vec<Option<Receipt>>,
    pub(crate) decision: Decision,
    pub(crate) outcome: Outcome,
}

/// What a commit says about external effects.
pub(crate) enum Outcome {
    /// A worker may act.
    Granted(Box<Grant>),
    /// The effect of this key did not happen.
    DidNotHappen(IdempotencyKey),
    /// An operator authorized a repetition of this effect.
    MayHappenAgain(IdempotencyKey),
    /// Nothing.
    Nothing,
}

impl LedgerEnv {
    /// Admits both runs of `scenario`. `check` is called for each commit.
    pub(crate) fn new(scenario: &Scenario, mut check: impl FnMut(&LedgerEnv, &Commit)) -> Self {
        let mut env = Self {
            now: Timestamp(1_750_000_000_000),
            runs: Vec::new(),
            receipts: BTreeMap::new(),
            tenant: plans::tenant(),
            writes: 0,
        };
        for plan in &scenario.plans {
            let commit = env.admit(plan, 0, Participants::default());
            check(&env, &commit);
        }
        env
    }

    /// Runs the whole `scenario`. `check` is called for each commit.
    pub(crate) fn run(scenario: &Scenario, mut check: impl FnMut(&LedgerEnv, &Commit)) -> Self {
        let mut env = Self::new(scenario, &mut check);
        for planned in &scenario.ops {
            if let Some(commit) = env.apply_planned(planned) {
                check(&env, &commit);
            }
        }
        env
    }

    fn admit(&mut self, plan: &Plan, requester: u8, shaped_by: Participants) -> Commit {
        let number = self.runs.len();
        let op = Admit {
            tenant: TenantId::new("acme").unwrap(),
            workspace: WorkspaceId::new("main").unwrap(),
            trigger_kind: "api".to_owned(),
            record: None,
            trace: None,
            key: IdempotencyKey::new(&format!("api:test:{number}")).unwrap(),
            input: Fingerprint::of(&Value::Null),
            applied_by: Some(plans::person(4)),
            inherited: Inherited { participants: shaped_by, rejected: None },
        };
        let mut context = self.context(plans::person(requester).as_str());
        context.by.cause = Cause::User;
        let decision = admit(op, plan, context);
        self.runs.push(Run {
            plan: plan.clone(),
            record: decision.record.clone(),
            previous: decision.record.clone(),
            chain: stored(&decision).collect(),
            steps: Vec::new(),
            signals: BTreeMap::new(),
            approvals: BTreeMap::new(),
            requested: Vec::new(),
            grants: Vec::new(),
        });
        Commit {
            run: number,
            before: None,
            shaped_by: Some(plans::person(requester)),
            holds: None,
            replaced: Vec::new(),
            decision,
            outcome: Outcome::Nothing,
        }
    }

    /// A run of the rollbacks of the first run, newest first, once that run has ended.
    fn rollback(&mut self, requester: u8) -> Option<Commit> {
        let first = &self.runs[0];
        if self.runs.len() > 2 || !first.record.status.is_terminal() {
            return None;
        }
        let steps = first.plan.steps.iter().enumerate().rev().filter_map(|(index, step)| {
            let acted = first.record.acted.has(StepSeq(u16::try_from(index).ok()?));
            match &step.rollback {
                Some(Undo::Call(call)) if acted => Some(PlannedStep {
                    blast_radius: step.blast_radius,
                    on_reject: step.on_reject,
                    ..plans::step(Work::Call(call.clone()))
                }),
                _ => None,
            }
        });
        let plan = plans::plan(steps.collect());
        let shaped_by = first.record.all_participants(first.plan.author.as_ref());
        (!plan.steps.is_empty()).then(|| self.admit(&plan, requester, shaped_by))
    }

    fn context(&mut self, by: &str) -> DecisionContext {
        self.writes += 1;
        let op = OpId::new(&format!("op-{}", self.writes)).unwrap();
        DecisionContext { op, now: self.now, by: Initiator::new(Cause::System, by) }
    }

    /// Applies an operation, decided on the current record.
    pub(crate) fn apply(&mut self, run: usize, op: Op) -> Option<Commit> {
        self.apply_planned(&PlannedOp { run, stale: false, user: None, op })
    }

    /// Decides and commits an operation. `None` if it is refused.
    pub(crate) fn apply_planned(&mut self, planned: &PlannedOp) -> Option<Commit> {
        let run = planned.run;
        match &planned.op {
            Op::Undo => return self.rollback(planned.user.unwrap_or(0)),
            _ if run >= self.runs.len() => return None,
            Op::Pass { ms } => self.now = Timestamp(self.now.0 + ms),
            Op::PassUntilDue => self.pass_until_due(run),
            Op::Directory { person, present } => self.change_directory(*person, *present),
            op => {
                let holds = self.runs[run].fence_of(op);
                let (decision, outcome) = self.decide(planned)?;
                let rolls_back =
                    decision.record.is_rolling_back() && !self.runs[run].record.is_rolling_back();
                let shaped_by = match op {
                    Op::Vote { person, approve: false, .. } if rolls_back => Some(*person),
                    _ => planned.user.filter(|_| shapes(op)),
                };
                let shaped_by = shaped_by.map(plans::person);
                return self.commit(run, decision, outcome).map(|commit| Commit {
                    shaped_by,
                    holds,
                    ..commit
                });
            }
        }
        None
    }

    fn change_directory(&mut self, person: u8, present: bool) {
        let person = plans::person(person);
        if present {
            self.tenant.people.insert(person, Person::default());
        } else {
            self.tenant.people.remove(&person);
        }
    }

    fn pass_until_due(&mut self, run: usize) {
        let record = &self.runs[run].record;
        let due = match &record.step_state {
            StepState::Running(lease) => Some(lease.until),
            StepState::Retrying { not_before, .. } => Some(*not_before),
            _ => record.due_at,
        };
        self.now = due.map_or(self.now, |until| until.max(self.now));
    }

    /// The decision about an operation; `None` if it is refused.
    fn decide(&mut self, planned: &PlannedOp) -> Option<(Decision, Outcome)> {
        let mut context = self.context("caller");
        let PlannedOp { run, op, stale, user } = planned;
        if let Some(user) = user.filter(|_| is_command(op)) {
            context.by = Initiator::new(Cause::User, plans::person(user).as_str());
        }
        if let Op::Vote { person, .. } = op {
            context.by = Initiator::new(Cause::Approval, plans::person(*person).as_str());
        }
        let run = &self.runs[*run];
        let record = if *stale { &run.previous } else { &run.record };
        let approval = record.step_state.approval().and_then(|id| run.approvals.get(id)).cloned();
        let mut draft = Draft::new(record.clone(), &run.plan, context).with_approval(approval);
        let outcome = self.decide_op(run, op, &mut draft).ok()?;
        Some((draft.close(), outcome))
    }

    fn decide_op(&self, run: &Run, op: &Op, draft: &mut Draft<'_>) -> Result<Outcome, Refusal> {
        let reason = || "because".to_owned();
        let nothing = Ok(Outcome::Nothing);
        match op {
            Op::Advance => self.advance(run, draft),
            Op::Claim(binding) => self.claim(draft, *binding).decide(draft).map(granted),
            Op::TakeOver(binding) => TakeOver(self.claim(draft, *binding)).decide(draft).map(granted),
            Op::Finish { who, hand_off } => self.finish(run.grant_of(*who)?, *hand_off, draft),
            Op::Retry { who, certainty, retry_after } => {
                retry(run.grant_of(*who)?, *certainty, *retry_after, draft)
            }
            Op::Fail(who) => fail(run.grant_of(*who)?, draft),
            Op::FailUnclaimed => {
                Fail { fence: None, failure: failure(), receipt: None }.decide(draft).and(nothing)
            }
            Op::Renew(who) => {
                Renew { fence: run.grant_of(*who)?.fence, lease: LEASE }.decide(draft).and(nothing)
            }
            Op::OpenWait => OpenWait { buffered: run.buffered(draft) }.decide(draft).and(nothing),
            Op::OpenGate => OpenGate { message: "Go on?".to_owned() }.decide(draft).and(nothing),
            Op::Signal { event, delivery } => self.signal(run, *event, *delivery).decide(draft).and(nothing),
            Op::Vote { back, approve, person } => {
                run.vote(*back, *approve, *person, &self.tenant)?.decide(draft).and(nothing)
            }
            Op::TimeOut => TimeOut.decide(draft).and(nothing),
            Op::RemindApprovers => RemindApprovers.decide(draft).and(nothing),
            Op::Postpone => Postpone { failure: failure(), retry_after: None }.decide(draft).and(nothing),
            Op::Cancel => Cancel { reason: reason() }.decide(draft).and(nothing),
            Op::Pause => Pause { reason: reason() }.decide(draft).and(nothing),
            Op::Resume => resume(reason(), draft),
            Op::RollBack => RollBack { reason: reason(), down_to: None }.decide(draft).and(nothing),
            Op::Wake => Wake.decide(draft).and(nothing),
            Op::Pass { .. } | Op::PassUntilDue | Op::Directory { .. } | Op::Undo => nothing,
        }
    }

    /// What a worker does after it received a message for the run.
    fn advance(&self, run: &Run, draft: &mut Draft<'_>) -> Result<Outcome, Refusal> {
        match next(&draft.record, draft.plan, self.now) {
            Next::Nothing | Next::NotBefore(_) => Err(Refusal::WrongState { expected: "pending work" }),
            Next::Claim => self.decide_op(run, &Op::Claim(Binding::Same), draft),
            Next::TakeOver => self.decide_op(run, &Op::TakeOver(Binding::Same), draft),
            Next::OpenWait => self.decide_op(run, &Op::OpenWait, draft),
            Next::OpenGate => self.decide_op(run, &Op::OpenGate, draft),
            Next::TimeOut => self.decide_op(run, &Op::TimeOut, draft),
            Next::RemindApprovers => self.decide_op(run, &Op::RemindApprovers, draft),
        }
    }

    fn claim(&self, draft: &Draft<'_>, binding: Binding) -> Claim {
        let record = &draft.record;
        let mut action = plans::action(draft.plan, &record.key.run, record.at, record.is_rolling_back());
        match binding {
            Binding::Same | Binding::StaleReceipt | Binding::OtherPolicy | Binding::StricterPolicy => {}
            Binding::OtherAction => action.contract += 1,
            Binding::OtherKey => action.key = IdempotencyKey::new("shared:1").unwrap(),
        }
        // A run cannot miss its own receipts, only those of other runs.
        let current = !matches!(binding, Binding::StaleReceipt) || open_intent(&record.step_state).is_some();
        let receipt = self.receipts.get(&action.key).filter(|_| current).cloned();
        let policy = u8::from(matches!(binding, Binding::OtherPolicy | Binding::StricterPolicy));
        let mut verdict = plans::verdict(draft.step().unwrap(), policy);
        if matches!(binding, Binding::StricterPolicy) {
            verdict = plans::requiring_approval(verdict);
        }
        // The plan says which steps need approval; a read cannot wait for one.
        if !action.class.has_effect() && matches!(verdict.ruling, Ruling::NeedsApproval(_)) {
            verdict.ruling = Ruling::Allow;
        }
        let assessment = Some(PolicyEvaluation { verdict, observed: None });
        let ended = |receipt: &Receipt| {
            let owner = self.runs.iter().find(|run| run.record.key.run == receipt.run);
            owner.is_some_and(|owner| owner.record.status.is_terminal())
        };
        let abandoned = receipt.as_ref().is_some_and(ended);
        Claim {
            owner: WorkerId::new("worker").unwrap(),
            lease: LEASE,
            action,
            receipt,
            abandoned,
            assessment,
            departed: self.departed(&record.key),
        }
    }

    /// The approvers of the run's approvals who are no longer in the directory.
    fn departed(&self, run: &domain::RunKey) -> Vec<PersonId> {
        let run = self.runs.iter().find(|known| known.record.key == *run);
        let approvals = run.into_iter().flat_map(|run| run.approvals.values());
        approvals.flat_map(|approval| approval.departed_approvers(&self.tenant)).collect()
    }

    /// A worker finishes, and may claim the next step in the same commit. It has loaded the next receipt before.
    fn finish(&self, grant: &Grant, hand_off: bool, draft: &mut Draft<'_>) -> Result<Outcome, Refusal> {
        let output = json!({ "done": true });
        let command = Finish {
            fence: grant.fence,
            fingerprint: Fingerprint::of(&output),
            output: Payload::Inline(output),
            response: Value::Null,
            inverse: None,
            cost_microusd: 7,
            usage: None,
            receipt: grant.receipt.clone(),
        };
        command.decide(draft)?;
        let ready =
            matches!(draft.record.step_state, StepState::Ready { .. }) && !draft.record.is_rolling_back();
        if hand_off && ready && next(&draft.record, draft.plan, self.now) == Next::Claim {
            return self.claim(draft, Binding::Same).decide(draft).map(granted);
        }
        Ok(Outcome::Nothing)
    }

    fn signal(&self, run: &Run, event: u8, delivery: u8) -> DeliverSignal {
        let id = SignalId::new(&format!("delivery-{delivery}")).unwrap();
        let body = json!({ "delivery": delivery });
        let signal = Signal {
            event: plans::event_name(event),
            fingerprint: Fingerprint::of(&body),
            payload: Payload::Inline(body),
            at: self.now,
            buffered: false,
            id: id.clone(),
        };
        DeliverSignal { signal, known: run.signals.get(&id).cloned() }
    }

    /// Commits a decision if its conditions hold.
    fn commit(&mut self, number: usize, decision: Decision, outcome: Outcome) -> Option<Commit> {
        if !self.conditions_hold(number, &decision) {
            return None;
        }
        let replaced = decision.receipts.iter().map(|c| self.receipts.get(&c.receipt.key).cloned()).collect();
        for change in &decision.receipts {
            self.receipts.insert(change.receipt.key.clone(), change.receipt.clone());
        }
        let before = self.runs[number].store(&decision);
        if let Outcome::Granted(grant) = &outcome {
            self.runs[number].grants.push(*grant.clone());
        }
        let (before, holds, shaped_by) = (Some(before), None, None);
        Some(Commit { run: number, before, holds, shaped_by, replaced, decision, outcome })
    }

    fn conditions_hold(&self, number: usize, decision: &Decision) -> bool {
        let run = &self.runs[number];
        let mut seen = Vec::new();
        let receipts = decision.receipts.iter().all(|change| {
            let key = &change.receipt.key;
            // Only the first change to a key names the revision that the ledger must have.
            let repeated = seen.contains(&key);
            seen.push(key);
            repeated || self.receipts.get(key).map(|receipt| receipt.revision) == change.replaces
        });
        let signals = decision.signals.iter().all(|change| match change {
            SignalChange::Record(signal) => !run.signals.contains_key(&signal.id),
            SignalChange::Use(id) => run.signals.contains_key(id),
        });
        decision.replaces == Some(run.record.version) && receipts && signals
    }
}

impl Run {
    /// Stores a decision and returns the replaced record.
    fn store(&mut self, decision: &Decision) -> RunRecord {
        self.chain.extend(stored(decision));
        self.steps.extend(decision.steps.iter().cloned());
        for change in &decision.signals {
            match change {
                SignalChange::Record(signal) => {
                    self.signals.insert(signal.id.clone(), signal.as_ref().clone());
                }
                SignalChange::Use(id) => {
                    self.signals.get_mut(id).unwrap().buffered = false;
                }
            }
        }
        for approval in &decision.approvals {
            if self.approvals.insert(approval.id.clone(), approval.clone()).is_none() {
                self.requested.push(approval.id.clone());
            }
        }
        let before = std::mem::replace(&mut self.record, decision.record.clone());
        self.previous = before.clone();
        before
    }

    fn grant_of(&self, who: WorkerRef) -> Result<&Grant, Refusal> {
        let grant = match who {
            WorkerRef::Current => self.grants.last(),
            WorkerRef::Previous(back) => self.grants.iter().rev().nth(usize::from(back % 4)),
        };
        grant.ok_or(Refusal::StaleFence { yours: Fence(0), held: Fence(0) })
    }

    /// The fence that `op` uses.
    fn fence_of(&self, op: &Op) -> Option<Fence> {
        match op {
            Op::Finish { who, .. } | Op::Retry { who, .. } | Op::Fail(who) | Op::Renew(who) => {
                self.grant_of(*who).ok().map(|grant| grant.fence)
            }
            _ => None,
        }
    }

    /// The buffered delivery that the current wait would use.
    fn buffered(&self, draft: &Draft<'_>) -> Option<Signal> {
        let step = draft.step().ok()?;
        let Work::Wait { event, .. } = &step.work else { return None };
        let buffered = draft.record.buffered_signals.iter().find(|buffered| buffered.event == *event)?;
        self.signals.get(&buffered.signal).cloned()
    }

    fn vote(&self, back: u8, approve: bool, person: u8, tenant: &Tenant) -> Result<RecordVote, Refusal> {
        let id = self.requested.iter().rev().nth(usize::from(back)).ok_or(Refusal::NothingToRollBack)?;
        Ok(RecordVote {
            approval: self.approvals[id].clone(),
            person: plans::person(person),
            approve,
            reason: "because".to_owned(),
            through: Channel::CommandLine,
            tenant: tenant.clone(),
        })
    }
}

/// Whether a user gives the command, as opposed to a worker.
fn is_command(op: &Op) -> bool {
    shapes(op) || matches!(op, Op::Pause)
}

/// Whether the command shapes the actions of the run.
fn shapes(op: &Op) -> bool {
    matches!(op, Op::Signal { .. } | Op::Resume | Op::RollBack | Op::Cancel)
}

fn stored(decision: &Decision) -> impl Iterator<Item = StoredEvent> + '_ {
    decision
        .events
        .iter()
        .map(|chained| StoredEvent { canonical: chained.canonical.clone(), hash: chained.hash })
}

/// The intent that an earlier attempt left open.
pub(crate) fn open_intent(step_state: &StepState) -> Option<&Intent> {
    match step_state {
        StepState::Ready { authorized: open, .. }
        | StepState::Retrying { open, .. }
        | StepState::WaitingApproval { open, .. }
        | StepState::Unresolved { open, .. } => open.as_ref(),
        StepState::Running(lease) => lease.intent.as_ref(),
        StepState::WaitingEvent { .. } | StepState::Ended { .. } => None,
    }
}

fn granted(claimed: ClaimResult) -> Outcome {
    match claimed {
        ClaimResult::Granted(grant) => Outcome::Granted(grant),
        ClaimResult::Resolved(_) | ClaimResult::Deferred(_) | ClaimResult::AwaitingApproval => {
            Outcome::Nothing
        }
    }
}

/// A worker whose attempt repeats an earlier one cannot know that nothing happened.
fn retry(
    grant: &Grant,
    certainty: EffectOutcome,
    retry_after: Option<Millis>,
    draft: &mut Draft<'_>,
) -> Result<Outcome, Refusal> {
    let certainty = if grant.mode == AttemptMode::Fresh { certainty } else { EffectOutcome::MayHaveHappened };
    let receipt = grant.receipt.clone();
    Retry { fence: grant.fence, failure: failure(), certainty, retry_after, receipt }.decide(draft)?;
    Ok(match (&grant.receipt, certainty) {
        (Some(receipt), EffectOutcome::DidNotHappen) => Outcome::DidNotHappen(receipt.key.clone()),
        (Some(_) | None, _) => Outcome::Nothing,
    })
}

fn fail(grant: &Grant, draft: &mut Draft<'_>) -> Result<Outcome, Refusal> {
    let Some(receipt) = &grant.receipt else {
        return Fail { fence: Some(grant.fence), failure: failure(), receipt: None }
            .decide(draft)
            .map(|_| Outcome::Nothing);
    };
    if grant.mode != AttemptMode::Fresh {
        return retry(grant, EffectOutcome::MayHaveHappened, None, draft);
    }
    Fail { fence: Some(grant.fence), failure: failure(), receipt: Some(receipt.clone()) }.decide(draft)?;
    Ok(Outcome::DidNotHappen(receipt.key.clone()))
}

fn resume(reason: String, draft: &mut Draft<'_>) -> Result<Outcome, Refusal> {
    let open = open_intent(&draft.record.step_state).cloned();
    Resume { reason }.decide(draft)?;
    Ok(open.map_or(Outcome::Nothing, |open| Outcome::MayHappenAgain(open.key)))
}

pub(crate) fn failure() -> Failure {
    Failure::new("TEST", "it did not work")
}
