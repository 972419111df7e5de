//! One state: the records of the runs as the ledger has them, the directory, the policy and the external state.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use domain::approval::ApprovalUse;
use domain::command::{AttemptMode, Claim, PolicyEvaluation};
use domain::plan::{Call, Environment, Undo, Work};
use domain::receipt::ReceiptState;
use domain::record::{Effects, OperatorRequest, Rejection, Signal};
use domain::retry_policy::{Backoff, RetryPolicy};
use domain::tenant::{Caps, Person};
use domain::validation::{ActionContext, tighten};
use domain::{
    Action, ActionOrigin, Approval, ApprovalRequirement, ApproverCount, BlastRadius, Cause, Decision, Digest,
    EventBody, EventName, Fence, IdempotencyKey, Initiator, Millis, OpId, ParticipantRole, Participants,
    PersonId, Plan, PlannedStep, Receipt, Reversibility, Ruling, RunId, RunRecord, SignalChange, StepId,
    StepState, Tenant, TenantId, Tier, Timestamp, ToolName, Verdict, Version, WorkerId, WorkflowName,
};
use serde::Serialize;
use serde_json::{Value, json};
use stateright::{Model, Property};

use super::actions::{self, Command};
use super::config::{Act, Config, Limits, Mutant, Need, Rollback, Second, Step};
use super::oracle::{Oracle, People, Proposed, Situation};
use super::properties;
use crate::check::Explorable;

pub(crate) const NOW: Timestamp = Timestamp(1_750_000_000_000);
pub(crate) const TENANT: &str = "acme";
/// Expired as soon as it is granted, so that a crash can happen at any time.
const LEASE: Millis = Millis(0);
const PEOPLE: [&str; 4] = ["Ada", "Bob", "Cyd", "Dee"];

/// A configuration as a stateright model.
#[derive(Clone, Debug)]
pub(crate) struct Governance {
    pub config: Config,
    pub plan: Arc<Plan>,
}

impl Explorable for Config {
    type Model = Governance;

    fn name(&self) -> &'static str {
        self.name
    }

    fn size(&self) -> String {
        format!("{} people, {} steps", self.people, self.steps.len())
    }

    #[expect(clippy::expect_used, reason = "a configuration is a constant of this program")]
    fn model(&self) -> Governance {
        let plan = plan(self).expect("the steps of a configuration are a plan");
        Governance { config: self.clone(), plan: Arc::new(plan) }
    }
}

impl Model for Governance {
    type State = State;
    type Action = Command;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            applied_by: None,
            runs: Vec::new(),
            receipts: BTreeMap::new(),
            directory: People::first(self.config.people),
            policy: 0,
            external: 0,
            left: self.config.limits,
            oracle: Oracle::default(),
        }]
    }

    fn actions(&self, state: &State, commands: &mut Vec<Command>) {
        actions::possible_commands(self, state, commands);
    }

    fn next_state(&self, state: &State, command: Command) -> Option<State> {
        let mut next = state.clone();
        next.oracle.seen = Situation::default();
        actions::apply(self, &mut next, command)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct State {
    pub applied_by: Option<u8>,
    pub runs: Vec<GovernedRun>,
    pub receipts: BTreeMap<IdempotencyKey, Receipt>,
    pub directory: People,
    pub policy: u8,
    pub external: u8,
    pub left: Limits,
    pub oracle: Oracle,
}

/// The records of a run, and the work that a worker holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GovernedRun {
    #[serde(skip)]
    pub plan: Arc<Plan>,
    /// The step of the configuration behind each step of the plan.
    pub steps: Vec<usize>,
    pub record: RunRecord,
    /// The approval that the current step waits for or carries.
    pub approval: Option<Approval>,
    pub held: Option<LeasedWork>,
    pub signals: Vec<Signal>,
    pub signaled: People,
    /// Whose signal ended the wait.
    pub payload: Option<u8>,
}

/// The work that a worker holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LeasedWork {
    pub fresh: bool,
    pub receipt: Option<Receipt>,
}

impl LeasedWork {
    pub(crate) fn new(mode: AttemptMode, receipt: Option<Receipt>) -> Self {
        Self { fresh: mode == AttemptMode::Fresh, receipt }
    }
}

// The records have floats and maps without an order of their own, so a state is hashed in its serialized form.
impl Hash for State {
    #[expect(clippy::expect_used, reason = "every key of the maps is a text")]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write(&serde_json::to_vec(self).expect("a state can be serialized"));
    }
}

/// The name under which a person gives commands.
pub(crate) fn command_name(config: &Config, person: u8) -> String {
    let name = PEOPLE[usize::from(person)];
    if config.has(Mutant::NamesNotNormalized) { format!("{name}.2") } else { name.to_owned() }
}

/// The name under which a person votes.
pub(crate) fn voter_id(person: u8) -> Option<PersonId> {
    PersonId::new(&PEOPLE[usize::from(person)].to_lowercase()).ok()
}

pub(crate) fn initiator(config: &Config, person: u8) -> Initiator {
    Initiator::new(Cause::User, command_name(config, person))
}

/// The tenant with these people in its directory.
pub(crate) fn tenant(directory: People) -> Option<Tenant> {
    let mut tenant = Tenant::new(TenantId::new(TENANT).ok()?);
    let present = (0..).take(PEOPLE.len()).filter(|person| directory.has(*person));
    tenant.people = present.filter_map(voter_id).map(|person| (person, Person::default())).collect();
    Some(tenant)
}

fn plan(config: &Config) -> Option<Plan> {
    let steps = (0..config.steps.len()).map(|index| planned_step(config, index)).collect::<Option<_>>()?;
    let author = PersonId::new(&command_name(config, 0)).ok()?;
    Some(Plan {
        author: Some(author).filter(|_| !config.has(Mutant::AuthorMayApprove)),
        ..Plan::new(WorkflowName::new("governed").ok()?, Environment::Dev, steps)
    })
}

fn planned_step(config: &Config, index: usize) -> Option<PlannedStep> {
    let id = StepId::new(&format!("step-{index}")).ok()?;
    let (work, rollback, risky) = match config.steps[index] {
        Step::Wait => (wait()?, None, false),
        Step::Act(act) => (Work::Call(call("act")?), undo(act), act.risky),
    };
    let is_medium = risky && !config.has(Mutant::FailedAttemptRepeated);
    let blast_radius = if is_medium { BlastRadius::Medium } else { BlastRadius::Low };
    Some(PlannedStep { rollback, blast_radius, ..with_one_retry(config, PlannedStep::new(id, work)) })
}

pub(crate) fn with_one_retry(config: &Config, step: PlannedStep) -> PlannedStep {
    let backoff = Backoff::Exponential { base: Millis(0) };
    let retry = RetryPolicy { attempts: 2, once_if_risky: false, backoff, cap: Millis(0) };
    PlannedStep { retry, on_reject: config.on_reject, ..step }
}

fn wait() -> Option<Work> {
    let event = event()?;
    Some(Work::Wait { event, timeout: Millis::hours(1), on_timeout: domain::plan::OnTimeout::Fail })
}

pub(crate) fn event() -> Option<EventName> {
    EventName::new("go").ok()
}

pub(crate) fn call(tool: &str) -> Option<Call> {
    Some(Call { tool: ToolName::new(tool).ok()?, connection: None, with: json!({}) })
}

fn undo(act: Act) -> Option<Undo> {
    match act.rollback {
        Rollback::None => None,
        Rollback::Recorded => Some(Undo::Auto),
        Rollback::Declared => call("undo").map(Undo::Call),
    }
}

/// An action with the facts that policy and the oracle need.
pub(crate) struct BoundAction {
    pub action: Action,
    pub act: Act,
    pub origin: ActionOrigin,
    /// What the table requires, by the configuration and not by `origin`.
    pub need: Need,
}

/// What policy number `policy` requires: the second policy requires one person more.
fn policy_requirement(policy: u8, need: Need) -> Need {
    match (policy, need) {
        (0, need) => need,
        (_, Need::Allowed) => Need::One,
        (_, Need::One | Need::Two) => Need::Two,
    }
}

impl State {
    /// The action that the current step of a run proposes.
    pub(crate) fn bind(&self, model: &Governance, number: usize) -> Option<BoundAction> {
        let run = &self.runs[number];
        let record = &run.record;
        let index = run.steps[record.at.index()];
        let Step::Act(act) = model.config.steps[index] else { return None };
        let undoing = record.is_rolling_back();
        let origin = match run.plan.step(record.at)?.origin(undoing) {
            ActionOrigin::DeclaredRollback if model.config.has(Mutant::DeclaredRollbackAsRecorded) => {
                ActionOrigin::RecordedInverse
            }
            origin => origin,
        };
        let is_inverse = undoing && act.rollback == Rollback::Recorded;
        let need = if is_inverse { Need::Allowed } else { policy_requirement(self.policy, act.need) };
        let action = self.action(model, number, index, act)?;
        Some(BoundAction { action, act, origin, need })
    }

    fn action(&self, model: &Governance, number: usize, index: usize, act: Act) -> Option<Action> {
        let run = &self.runs[number];
        let is_undo_run = model.config.second == Second::Undo && number == 1;
        let undoes = run.record.is_rolling_back() || is_undo_run;
        let owner = if is_undo_run { &self.runs[0] } else { run };
        let key = key(model, &owner.record.key.run, index)?;
        let key = if undoes { key.reverse() } else { key };
        // A retry of an open effect means the action that was first proposed.
        let own = self.receipts.get(&key).filter(|receipt| {
            receipt.state == ReceiptState::Intent
                && receipt.is_for_step(&run.record.key.run, run.record.at, run.record.is_rolling_back())
        });
        let observed =
            own.map_or_else(|| json!(self.external), |own| own.observed.clone().unwrap_or_default());
        Some(Action {
            tool: ToolName::new(if undoes { "undo" } else { "act" }).ok()?,
            contract: 1,
            class: act.class,
            reversibility: Reversibility::Compensable,
            target: format!("record {index}"),
            key,
            key_retention: act.forgets.then_some(Millis(0)),
            fields: json!({ "payload": owner.payload, "observed": observed }),
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: None,
            connection: None,
        })
    }

    /// The claim of the current step of a run, with the verdict of the current policy.
    pub(crate) fn claim(&self, model: &Governance, number: usize, bound: &BoundAction) -> Option<Claim> {
        let run = &self.runs[number];
        let receipt = self.receipts.get(&bound.action.key).cloned();
        let is_abandoned = |receipt: &Receipt| {
            let owner = self.runs.iter().find(|run| run.record.key.run == receipt.run);
            receipt.state == ReceiptState::Intent
                && receipt.run != run.record.key.run
                && owner.is_some_and(|owner| owner.record.status.is_terminal())
        };
        let tenant = tenant(self.directory)?;
        let counted = [Mutant::RemovedUsersCount, Mutant::DepartedApproversCount];
        let approval =
            run.approval.iter().filter(|_| !counted.into_iter().any(|mutant| model.config.has(mutant)));
        let mut verdict = self.verdict(model, run, bound);
        if model.config.has(Mutant::StricterPolicyIgnored) && receipt.is_some() {
            verdict.ruling = Ruling::Allow;
        }
        Some(Claim {
            owner: WorkerId::new("worker").ok()?,
            lease: LEASE,
            abandoned: receipt.as_ref().is_some_and(is_abandoned),
            receipt,
            departed: approval.flat_map(|approval| approval.departed_approvers(&tenant)).collect(),
            assessment: Some(PolicyEvaluation {
                verdict,
                observed: bound.action.fields.get("observed").cloned(),
            }),
            action: bound.action.clone(),
        })
    }

    /// The verdict of the table, made stricter by the rules of the runtime.
    fn verdict(&self, model: &Governance, run: &GovernedRun, bound: &BoundAction) -> Verdict {
        let need = match bound.origin {
            ActionOrigin::RecordedInverse => Need::Allowed,
            ActionOrigin::Forward | ActionOrigin::DeclaredRollback => {
                policy_requirement(self.policy, bound.act.need)
            }
        };
        let people = if need == Need::Two { ApproverCount::Two } else { ApproverCount::One };
        let requirement = ApprovalRequirement {
            tier: Tier::Medium,
            people,
            groups: Vec::new(),
            ..ApprovalRequirement::default()
        };
        let ruling = if need == Need::Allowed { Ruling::Allow } else { Ruling::NeedsApproval(requirement) };
        let verdict = Verdict { ruling, reasons: Vec::new(), policy: Digest::of_bytes(&[self.policy]) };
        let (record, step_state) = (&run.record, &run.record.step_state);
        let forgets = model.config.has(Mutant::UnknownOutcomeRepeated);
        let context = ActionContext {
            plan: &run.plan,
            record,
            seq: record.at,
            caps: &Caps::default(),
            writes_done: 0,
            origin: bound.origin,
            attempt: step_state.attempts(),
            may_have_happened: step_state.may_have_happened() && !forgets,
            confidence: None,
            has_later_effect: true,
        };
        tighten(verdict, &bound.action, &context)
    }

    /// The action as the oracle sees it.
    pub(crate) fn proposed<'a>(&self, number: usize, bound: &'a BoundAction) -> Proposed<'a> {
        let record = &self.runs[number].record;
        Proposed {
            run: number,
            at: (record.at, record.is_rolling_back()),
            key: &bound.action.key,
            action: bound.action.hash(),
            policy: self.policy,
            need: bound.need,
            is_repeatable: bound.act.is_repeatable(),
        }
    }

    /// Stores a decision.
    pub(crate) fn commit(&mut self, model: &Governance, number: usize, decision: Decision) {
        for change in decision.receipts {
            // Older than the decision, so that the external system has forgotten the key.
            let intended_at = NOW.earlier(Millis(1));
            let receipt = Receipt { revision: 0, fence: Fence(0), intended_at, ..change.receipt };
            self.receipts.insert(receipt.key.clone(), receipt);
        }
        let run = &mut self.runs[number];
        for change in decision.signals {
            match change {
                SignalChange::Record(signal) if signal.buffered => run.signals.push(*signal),
                SignalChange::Record(_) => {}
                SignalChange::Use(id) => run.signals.retain(|signal| signal.id != id),
            }
        }
        for chained in &decision.events {
            if let EventBody::EventDelivered { signal, .. } = &chained.event.body {
                run.payload = signal.as_str().rsplit('-').next().and_then(|person| person.parse().ok());
            }
        }
        run.record = decision.record;
        if model.config.has(Mutant::RejectionForgotten) {
            run.record.rejected = None;
        }
        let live = run.record.step_state.approval().cloned();
        let saved = decision.approvals.into_iter().find(|approval| Some(&approval.id) == live.as_ref());
        run.approval = saved.or(run.approval.take()).filter(|_| live.is_some());
        if !matches!(run.record.step_state, StepState::Running(_)) {
            run.held = None;
        }
        run.reset_history();
    }
}

pub(crate) fn key(model: &Governance, run: &RunId, index: usize) -> Option<IdempotencyKey> {
    match model.config.second {
        Second::SameKeys => IdempotencyKey::new(&format!("shared:{index}")).ok(),
        Second::None | Second::Undo => {
            let step = StepId::new(&format!("step-{index}")).ok()?;
            Some(IdempotencyKey::for_step(&ToolName::new("act").ok()?, run, &step))
        }
    }
}

impl GovernedRun {
    /// Resets what no command compares, so that histories with the same future are one state.
    fn reset_history(&mut self) {
        let record = &mut self.record;
        record.version = Version(0);
        record.events = 1;
        record.head = Digest::ZERO;
        record.fence = Fence(0);
        record.resumes = 0;
        record.approvals = 0;
        record.effects = Effects::default();
        record.due_at = None;
        record.participants = sorted(&record.participants);
        for request in [&mut record.pause, &mut record.cancel].into_iter().flatten() {
            *request = OperatorRequest { by: String::new(), reason: String::new(), at: NOW };
        }
        reset_rejecter(&mut record.rejected);
        if let Some(approval) = &mut self.approval {
            approval.revision = 0;
            approval.excluded = sorted(&approval.excluded);
            approval.votes.sort_by(|one, other| one.person.cmp(&other.person));
            approval.consumed = approval.consumed.map(|_| ApprovalUse { fence: Fence(0), at: NOW });
            reset_rejecter(&mut approval.rejected);
        }
    }
}

fn reset_rejecter(rejection: &mut Option<Rejection>) {
    if let Some(rejection) = rejection {
        rejection.by.clone_from(&REJECTER);
    }
}

static REJECTER: std::sync::LazyLock<PersonId> = std::sync::LazyLock::new(|| {
    PersonId::new("rejecter").unwrap_or_else(|_| unreachable!("the name is valid"))
});

fn sorted(participants: &Participants) -> Participants {
    let mut people: Vec<_> = participants.each().map(|participant| participant.person.clone()).collect();
    people.sort();
    let mut sorted = Participants::default();
    for person in people {
        sorted.add(person, ParticipantRole::Signaler);
    }
    sorted
}

pub(crate) fn op_id() -> Option<OpId> {
    OpId::new("op").ok()
}

pub(crate) fn output() -> Value {
    json!({ "done": true })
}
