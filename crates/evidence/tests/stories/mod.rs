//! Finished runs for tests, made by domain commands.
//!
//! The name of a tool sets its effect class and its verdict: `set.two` is a compare-and-set that needs two approvers,
//! `shell.deny` is opaque and denied.

mod random;
mod story;

use countersign_evidence::{BundleInput, LogEntry, SigningKey, leaf};
use domain::chain::StoredEvent;
use domain::merkle::{Frontier, Position};
use domain::{Approval, Plan, Receipt, RunRecord, StepRecord};

use story::{Story, gate, plan, step, undoable, wait};

pub(crate) const ORIGIN: &str = "log.example/acme";

/// All named stories.
pub(crate) const NAMES: [&str; 22] = [
    "plain",
    "one_effect",
    "approved_by_one",
    "approved_by_two",
    "denied",
    "rolled_back_after_failure",
    "canceled",
    "canceled_in_flight",
    "taken_over",
    "gate_and_time_out",
    "gate_rejected_then_approved",
    "approval_expired",
    "approval_rejected",
    "approval_used_twice",
    "asked_again",
    "outcome_unknown",
    "outcome_unknown_then_done",
    "event_came_early",
    "effect_reused",
    "effect_superseded",
    "undo_denied",
    "sixty_four_steps",
];

/// The ledger's records of a finished run.
pub(crate) struct FinishedRun {
    pub(crate) record: RunRecord,
    pub(crate) plan: Plan,
    pub(crate) entries: Vec<StoredEvent>,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) approvals: Vec<Approval>,
    pub(crate) position: Position,
}

impl FinishedRun {
    pub(crate) fn input(&self) -> BundleInput<'_> {
        BundleInput {
            record: &self.record,
            plan: &self.plan,
            entries: &self.entries,
            steps: &self.steps,
            receipts: &self.receipts,
            approvals: &self.approvals,
            log: LogEntry { origin: ORIGIN, position: &self.position },
        }
    }
}

impl From<Story> for FinishedRun {
    /// The log already has the entries of two other runs.
    fn from(env: Story) -> Self {
        let mut log = Frontier::default();
        for earlier in ["one", "two"] {
            log.push(domain::merkle::leaf(earlier.as_bytes()));
        }
        let position = log.push(leaf(&env.record));
        Self {
            receipts: env.named_receipts(),
            approvals: env.approvals.into_values().collect(),
            record: env.record,
            plan: env.plan,
            entries: env.entries,
            steps: env.steps,
            position,
        }
    }
}

pub(crate) fn key() -> SigningKey {
    SigningKey::from_seed([42; 32])
}

/// The story `name`, or a random one with seed N for `random-N`.
pub(crate) fn story(name: &str) -> FinishedRun {
    if let Some(seed) = name.strip_prefix("random-") {
        return random::story(seed.parse().unwrap()).into();
    }
    let env = match name {
        "plain" => plain(),
        "one_effect" => one_effect(),
        "approved_by_one" => approved_by_one(),
        "approved_by_two" => approved_by_two(),
        "denied" => denied(),
        "rolled_back_after_failure" => rolled_back_after_failure(),
        "canceled" => canceled(),
        "canceled_in_flight" => canceled_in_flight(),
        "taken_over" => taken_over(),
        "gate_and_time_out" => gate_and_time_out(),
        "gate_rejected_then_approved" => gate_rejected_then_approved(),
        "approval_expired" => approval_expired(),
        "approval_rejected" => approval_rejected(),
        "approval_used_twice" => approval_used_twice(),
        "asked_again" => asked_again(),
        "outcome_unknown" => outcome_unknown(),
        "outcome_unknown_then_done" => outcome_unknown_then_done(),
        "event_came_early" => event_came_early(),
        "effect_reused" => effect_reused(),
        "effect_superseded" => effect_superseded(),
        "undo_denied" => undo_denied(),
        "sixty_four_steps" => sixty_four_steps(),
        unknown => panic!("unknown story {unknown}"),
    };
    env.into()
}

fn plain() -> Story {
    let steps = [step("read"), step("set.allow"), wait(), step("set.allow"), step("read")];
    let mut run = Story::start(plan(steps));
    run.work();
    run.work();
    run.advance();
    run.signal();
    run.work();
    run.work();
    run
}

fn one_effect() -> Story {
    let mut run = Story::start(plan([step("set.allow")]));
    run.work();
    run
}

fn approved_by_one() -> Story {
    let mut run = Story::start(plan([step("read"), step("set.one")]));
    run.work();
    run.advance();
    run.vote("paula", true);
    run.work();
    run
}

fn approved_by_two() -> Story {
    let mut run = Story::start(plan([step("shell.two"), step("read")]));
    run.advance();
    run.pass_time_and_remind();
    run.vote("paula", true);
    run.pass_time_and_remind();
    run.vote("peter", true);
    run.work();
    run.work();
    run
}

fn denied() -> Story {
    let mut run = Story::start(plan([step("set.allow"), step("shell.deny"), step("read")]));
    run.work();
    run.advance();
    run
}

/// One rollback needs approval too.
fn rolled_back_after_failure() -> Story {
    let steps = [undoable("set.allow", "set.one"), undoable("native.allow", "set.allow"), step("read")];
    let mut run = Story::start(plan(steps));
    run.work();
    run.work();
    run.advance();
    run.fail();
    run.work();
    run.advance();
    run.vote("paula", true);
    run.work();
    run
}

fn canceled() -> Story {
    let mut run = Story::start(plan([step("set.allow"), step("set.one"), step("read")]));
    run.work();
    run.advance();
    run.cancel();
    run
}

/// The cancel request arrives while a worker holds the step: the step finishes and is rolled back.
fn canceled_in_flight() -> Story {
    let mut run = Story::start(plan([undoable("set.allow", "set.allow"), step("read")]));
    run.advance();
    run.cancel();
    run.finish();
    run.work();
    run
}

fn taken_over() -> Story {
    let mut run = Story::start(plan([step("read"), step("native.one"), step("find.allow")]));
    run.advance();
    run.expire_lease();
    run.work();
    run.advance();
    run.vote("paula", true);
    run.advance();
    run.expire_lease();
    run.work();
    run.advance();
    run.expire_lease();
    run.work();
    run
}

fn gate_and_time_out() -> Story {
    let mut run = Story::start(plan([gate(), wait(), step("read")]));
    run.advance();
    run.vote("paula", true);
    run.advance();
    run.pass_time();
    run.advance();
    run.work();
    run
}

fn gate_rejected_then_approved() -> Story {
    let mut run = Story::start(plan([gate(), step("set.allow")]));
    run.advance();
    run.vote("paula", false);
    run.resume();
    run.advance();
    run.vote("peter", true);
    run.work();
    run
}

fn approval_expired() -> Story {
    let mut run = Story::start(plan([undoable("set.allow", "set.allow"), step("set.two")]));
    run.work();
    run.advance();
    run.vote("paula", true);
    run.pass_time();
    run.advance();
    run.work();
    run
}

fn approval_rejected() -> Story {
    let mut run = Story::start(plan([step("set.two")]));
    run.advance();
    run.vote("paula", true);
    run.vote("peter", false);
    run
}

/// The first attempt had no effect, and the approval stays valid for the second.
fn approval_used_twice() -> Story {
    let mut run = Story::start(plan([step("set.one")]));
    run.advance();
    run.vote("paula", true);
    run.advance();
    run.retry_later();
    run.work();
    run
}

/// The approved action changes before it is performed.
fn asked_again() -> Story {
    let mut run = Story::start(plan([step("set.one")]));
    run.advance();
    run.vote("paula", true);
    run.contract += 1;
    run.advance();
    run.vote("peter", true);
    run.work();
    run
}

fn outcome_unknown() -> Story {
    let mut run = Story::start(plan([step("shell.one"), step("read")]));
    run.advance();
    run.vote("paula", true);
    run.advance();
    run.lose_outcome();
    run.cancel();
    run
}

fn outcome_unknown_then_done() -> Story {
    let mut run = Story::start(plan([step("shell.allow")]));
    run.advance();
    run.lose_outcome();
    run.resume();
    run.work();
    run
}

fn event_came_early() -> Story {
    let mut run = Story::start(plan([wait()]));
    run.signal();
    run.advance();
    run
}

/// Another run performed the same effect.
fn effect_reused() -> Story {
    let mut other = Story::start_as("other", plan([step("shared.allow")]));
    other.work();
    let mut run = Story::start(plan([step("shared.allow"), step("read")]));
    run.receipts = other.receipts;
    run.advance();
    run.work();
    run
}

/// The effect failed in this run and succeeded in another run.
fn effect_superseded() -> Story {
    let mut run = Story::start(plan([step("shared.allow")]));
    run.advance();
    run.fail();
    let mut other = Story::start_as("other", plan([step("shared.allow")]));
    other.receipts = run.receipts;
    other.work();
    run.receipts = other.receipts;
    run.displaced = other.displaced;
    run
}

/// Policy denies the rollback; an operator cancels the run.
fn undo_denied() -> Story {
    let mut run = Story::start(plan([undoable("set.allow", "set.deny"), step("read")]));
    run.work();
    run.roll_back();
    run.advance();
    run.resume();
    run.advance();
    run.cancel();
    run
}

fn sixty_four_steps() -> Story {
    let tools = ["read", "set.allow", "set.one", "shell.two"];
    let mut run = Story::start(plan((0..64).map(|n| step(tools[n % tools.len()]))));
    while !run.record.status.is_terminal() {
        run.work_approved();
    }
    run
}
