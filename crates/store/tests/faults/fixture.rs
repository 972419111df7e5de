//! A run with a fixed sequence of decisions, so that each test knows the expected state.

use countersign_store::{Admission, Ledger, Write};
use domain::command::{Admit, Cancel, ClaimResult, Command, DeliverSignal, Grant, admit};
use domain::plan::{Call, Environment, OnTimeout, Work};
use domain::{
    Cause, Decision, DecisionContext, IdempotencyKey, Initiator, Millis, OpId, Payload, Plan, PlannedStep,
    RecordName, RunKey, SignalId, StepId, TenantId, Timestamp, ToolName, WorkflowName,
};
use serde_json::{Value, json};
use testkit::TestClock;
use testkit::ledger::{self, LedgerRun, admit_command, claim_needing_approval, event, finish};

pub(crate) use testkit::ledger::NOON;

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

/// A clock that does not advance, so that repeated writes are equal.
pub(crate) fn noon() -> TestClock {
    TestClock::at(NOON)
}

/// The run, and all decisions after the first.
pub(crate) struct Scenario {
    run: LedgerRun,
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
    let command = Admit { record: Some(record()), ..admit_command("acme", effect().as_str(), &input) };
    Admission { decision: admit(command, &plan(), context("op")), input: Payload::Inline(input), hold: None }
}

fn decisions() -> Vec<Decision> {
    let mut scenario = until_claimed();
    scenario.add(finish(scenario.grant.clone().unwrap(), json!({ "id": 7 })));
    scenario.add(Cancel { reason: "enough".to_owned() });
    scenario.decisions
}

/// The step is claimed but not finished.
pub(crate) fn until_claimed() -> Scenario {
    let run = LedgerRun::new(&plan(), &admission());
    let mut scenario = Scenario { run, grant: None, decisions: Vec::new() };
    scenario.add(early_signal());
    scenario.add(claim_needing_approval("effect"));
    scenario.add(ledger::approve(scenario.run.approval.clone().unwrap()));
    let claimed = scenario.add(claim_needing_approval("effect"));
    let ClaimResult::Granted(grant) = claimed else { unreachable!("{claimed:?}") };
    scenario.grant = Some(*grant);
    scenario
}

impl Scenario {
    pub(crate) fn add<C: Command>(&mut self, command: C) -> C::Output {
        let context = context(&format!("op-{}", self.decisions.len()));
        let (decision, output) = self.run.decide_with(context, command);
        self.run.apply(&decision);
        self.decisions.push(decision);
        output
    }
}

pub(crate) fn tenant() -> TenantId {
    ledger::tenant("acme")
}

/// The idempotency key of the effect, and of the request to start the run.
pub(crate) fn effect() -> IdempotencyKey {
    ledger::effect("effect")
}

pub(crate) fn delivery() -> SignalId {
    SignalId::new("delivery").unwrap()
}

pub(crate) fn plan() -> Plan {
    let call = Call { tool: ToolName::new("http.request").unwrap(), connection: None, with: Value::Null };
    let wait = Work::Wait { event: event(), timeout: Millis::hours(1), on_timeout: OnTimeout::Fail };
    let step = |id: &str, work| PlannedStep::new(StepId::new(id).unwrap(), work);
    let steps = vec![step("call", Work::Call(call)), step("wait", wait)];
    Plan::new(WorkflowName::new("fixture").unwrap(), Environment::Dev, steps)
}

pub(crate) fn initiator() -> Initiator {
    Initiator::new(Cause::System, "worker")
}

fn context(op: &str) -> DecisionContext {
    DecisionContext { op: OpId::new(op).unwrap(), now: NOON, by: initiator() }
}

fn early_signal() -> DeliverSignal {
    ledger::signal(delivery().as_str())
}
