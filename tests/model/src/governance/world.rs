//! One state: the records of the runs as the ledger has them, the directory, the policy and the external state.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use domain::approval::Consumed;
use domain::command::{Assessment, AttemptMode, Claim};
use domain::plan::{Call, Environment, Undo, Work};
use domain::receipt::ReceiptState;
use domain::record::{Effects, OperatorRequest, Rejection, Signal};
use domain::retry_policy::{Backoff, RetryPolicy};
use domain::tenant::{Caps, Person};
use domain::validation::{ActionContext, tighten};
use domain::{
    Action, ActionOrigin, Approval, ApprovalRequirement, ApproverCount, Cause, Decision, Digest, EventBody,
    EventName, Fence, IdempotencyKey, Initiator, Live, Millis, OpId, ParticipantRole, Participants, PersonId,
    Plan, PlannedStep, Receipt, Reversibility, Ruling, RunId, RunRecord, SignalChange, StepId, Tenant,
    TenantId, Tier, Timestamp, ToolName, Verdict, Version, WorkerId, WorkflowName,
};
use serde::Serialize;
use serde_json::{Value, json};
use stateright::{Model, Property};

use super::actions::{self, Command};
use super::config::{Act, Config, Limits, Mutant, Need, Rollback, Second, Step};
use super::oracle::{Oracle, People, Proposed, Seen};
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
    type State = World;
    type Action = Command;

    fn init_states(&self) -> Vec<World> {
        vec![World {
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

    fn actions(&self, world: &World, commands: &mut Vec<Command>) {
        actions::possible(self, world, commands);
    }

    fn next_state(&self, world: &World, command: Command) -> Option<World> {
        let mut next = world.clone();
        next.oracle.seen = Seen::default();
        actions::apply(self, &mut next, command)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct World {
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
    pub held: Option<Held>,
    pub signals: Vec<Signal>,
    pub signaled: People,
    /// Whose signal ended the wait.
    pub payload: Option<u8>,
}

/// The work that a worker holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Held {
    pub fresh: bool,
    pub receipt: Option<Receipt>,
}

impl Held {
    pub(crate) fn new(mode: AttemptMode, receipt: Option<Receipt>) -> Self {
        Self { fresh: mode == AttemptMode::Fresh, receipt }
    }
}

// The records have floats and maps without an order of their own, so a state is hashed in its serialized form.
impl Hash for World {
    #[expect(clippy::expect_used, reason = "every key of the maps is a text")]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write(&serde_json::to_vec(self).expect("a state can be serialized"));
    }
}

/// The name under which a person gives commands.
pub(crate) fn spelled(config: &Config, person: u8) -> String {
    let name = PEOPLE[usize::from(person)];
    if config.has(Mutant::NamesNotNormalized) { format!("{name}.2") } else { name.to_owned() }
}

/// The name under which a person votes.
pub(crate) fn voter(person: u8) -> Option<PersonId> {
    PersonId::new(&PEOPLE[usize::from(person)].to_lowercase()).ok()
}

pub(crate) fn initiator(config: &Config, person: u8) -> Initiator {
    Initiator::new(Cause::User, spelled(config, person))
}

/// The tenant with these people in its directory.
pub(crate) fn tenant(directory: People) -> Option<Tenant> {
    let mut tenant = Tenant::new(TenantId::new(TENANT).ok()?);
    let present = (0..).take(PEOPLE.len()).filter(|person| directory.has(*person));
    tenant.people = present.filter_map(voter).map(|person| (person, Person::default())).collect();
    Some(tenant)
}

fn plan(config: &Config) -> Option<Plan> {
    let steps = (0..config.steps.len()).map(|index| planned(config, index)).collect::<Option<_>>()?;
    let author = PersonId::new(&spelled(config, 0)).ok()?;
    Some(Plan {
        author: Some(author).filter(|_| !config.has(Mutant::AuthorMayApprove)),
        ..Plan::new(WorkflowName::new("governed").ok()?, Environment::Dev, steps)
    })
}

fn planned(config: &Config, index: usize) -> Option<PlannedStep> {
    let id = StepId::new(&format!("step-{index}")).ok()?;
    let (work, rollback) = match config.steps[index] {
        Step::Wait => (wait()?, None),
        Step::Act(act) => (Work::Call(call("act")?), undo(act)),
    };
    Some(PlannedStep { rollback, ..attempted_twice(config, PlannedStep::new(id, work)) })
}

pub(crate) fn attempted_twice(config: &Config, step: PlannedStep) -> PlannedStep {
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
    Some(Call { tool: ToolName::new(tool).ok()?, with: json!({}) })
}

fn undo(act: Act) -> Option<Undo> {
    match act.rollback {
        Rollback::None => None,
        Rollback::Recorded => Some(Undo::Auto),
        Rollback::Declared => call("undo").map(Undo::Call),
    }
}

/// An action with the facts that policy and the oracle need.
pub(crate) struct Bound {
    pub action: Action,
    pub act: Act,
    pub origin: ActionOrigin,
    /// What the table requires, by the configuration and not by `origin`.
    pub need: Need,
}

/// What policy number `policy` requires: the second policy requires one person more.
fn table(policy: u8, need: Need) -> Need {
    match (policy, need) {
        (0, need) => need,
        (_, Need::Allowed) => Need::One,
        (_, Need::One | Need::Two) => Need::Two,
    }
}

impl World {
    /// The action that the current step of a run proposes.
    pub(crate) fn bind(&self, model: &Governance, number: usize) -> Option<Bound> {
        let run = &self.runs[number];
        let record = &run.record;
        let index = run.steps[record.at.index()];
        let Step::Act(act) = model.config.steps[index] else { return None };
        let undoing = record.is_undoing();
        let origin = match run.plan.step(record.at)?.origin(undoing) {
            ActionOrigin::DeclaredRollback if model.config.has(Mutant::DeclaredRollbackAsRecorded) => {
                ActionOrigin::RecordedInverse
            }
            origin => origin,
        };
        let is_inverse = undoing && act.rollback == Rollback::Recorded;
        let need = if is_inverse { Need::Allowed } else { table(self.policy, act.need) };
        let action = self.action(model, number, index, act)?;
        Some(Bound { action, act, origin, need })
    }

    fn action(&self, model: &Governance, number: usize, index: usize, act: Act) -> Option<Action> {
        let run = &self.runs[number];
        let is_undo_run = model.config.second == Second::Undo && number == 1;
        let undoes = run.record.is_undoing() || is_undo_run;
        let of = if is_undo_run { &self.runs[0] } else { run };
        let key = key(model, &of.record.key.run, index)?;
        let key = if undoes { key.undo() } else { key };
        // A retry of an open effect means the action that was first proposed.
        let own = self.receipts.get(&key).filter(|receipt| {
            receipt.state == ReceiptState::Intent
                && receipt.is_of(&run.record.key.run, run.record.at, run.record.is_undoing())
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
            fields: json!({ "payload": of.payload, "observed": observed }),
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: None,
        })
    }

    /// The claim of the current step of a run, with the verdict of the current policy.
    pub(crate) fn claim(&self, model: &Governance, number: usize, bound: &Bound) -> Option<Claim> {
        let run = &self.runs[number];
        let receipt = self.receipts.get(&bound.action.key).cloned();
        let ended = |receipt: &Receipt| {
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
            abandoned: receipt.as_ref().is_some_and(ended),
            receipt,
            departed: approval.flat_map(|approval| approval.departed(&tenant)).collect(),
            assessment: Some(Assessment { verdict, observed: bound.action.fields.get("observed").cloned() }),
            action: bound.action.clone(),
        })
    }

    /// The verdict of the table, made stricter by the rules of the runtime.
    fn verdict(&self, model: &Governance, run: &GovernedRun, bound: &Bound) -> Verdict {
        let need = match bound.origin {
            ActionOrigin::RecordedInverse => Need::Allowed,
            ActionOrigin::Forward | ActionOrigin::DeclaredRollback => table(self.policy, bound.act.need),
        };
        let people = if need == Need::Two { ApproverCount::Two } else { ApproverCount::One };
        let requirement = ApprovalRequirement { tier: Tier::Medium, people, groups: Vec::new() };
        let ruling = if need == Need::Allowed { Ruling::Allow } else { Ruling::NeedsApproval(requirement) };
        let verdict = Verdict { ruling, reasons: Vec::new(), policy: Digest::of_bytes(&[self.policy]) };
        let (record, live) = (&run.record, &run.record.live);
        let forgets = model.config.has(Mutant::UnknownOutcomeRepeated);
        let context = ActionContext {
            plan: &run.plan,
            record,
            seq: record.at,
            caps: &Caps::default(),
            writes_done: 0,
            origin: bound.origin,
            attempt: live.attempts(),
            may_have_happened: live.may_have_happened() && !forgets,
            confidence: None,
            has_later_effect: true,
        };
        tighten(verdict, &bound.action, &context)
    }

    /// The action as the oracle sees it.
    pub(crate) fn proposed<'a>(&self, number: usize, bound: &'a Bound) -> Proposed<'a> {
        let record = &self.runs[number].record;
        Proposed {
            run: number,
            at: (record.at, record.is_undoing()),
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
        for sealed in &decision.events {
            if let EventBody::EventDelivered { signal, .. } = &sealed.event.body {
                run.payload = signal.as_str().rsplit('-').next().and_then(|person| person.parse().ok());
            }
        }
        run.record = decision.record;
        if model.config.has(Mutant::RejectionForgotten) {
            run.record.rejected = None;
        }
        let live = run.record.live.approval().cloned();
        let saved = decision.approvals.into_iter().find(|approval| Some(&approval.id) == live.as_ref());
        run.approval = saved.or(run.approval.take()).filter(|_| live.is_some());
        if !matches!(run.record.live, Live::Running(_)) {
            run.held = None;
        }
        run.forget_history();
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
    fn forget_history(&mut self) {
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
        forget_names(&mut record.rejected);
        if let Some(approval) = &mut self.approval {
            approval.revision = 0;
            approval.excluded = sorted(&approval.excluded);
            approval.votes.sort_by(|one, other| one.person.cmp(&other.person));
            approval.consumed = approval.consumed.map(|_| Consumed { fence: Fence(0), at: NOW });
            forget_names(&mut approval.rejected);
        }
    }
}

fn forget_names(rejection: &mut Option<Rejection>) {
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

pub(crate) fn op() -> Option<OpId> {
    OpId::new("op").ok()
}

pub(crate) fn output() -> Value {
    json!({ "done": true })
}
