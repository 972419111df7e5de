//! Runs to make evidence of, told by driving the domain: every event is one that a command decided.
//!
//! What a tool promises and what policy says about it follow from its name: `set.two` is a compare-and-set
//! that two people must approve, `shell.deny` is opaque and denied.

mod chance;
mod teller;

use countersign_evidence::{LogEntry, Material, SigningKey, leaf};
use domain::chain::StoredEvent;
use domain::merkle::{Frontier, Position};
use domain::{Approval, Plan, Receipt, RunRecord, StepRecord};

use teller::{Teller, gate, plan, step, undoable, wait};

/// The name of the log.
pub(crate) const ORIGIN: &str = "log.example/acme";

/// Every story that is told by name.
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

/// All that the ledger holds of a finished run.
pub(crate) struct Told {
    pub(crate) record: RunRecord,
    pub(crate) plan: Plan,
    pub(crate) entries: Vec<StoredEvent>,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) approvals: Vec<Approval>,
    pub(crate) position: Position,
}

impl Told {
    pub(crate) fn material(&self) -> Material<'_> {
        Material {
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

impl From<Teller> for Told {
    /// Two other runs ended before, and have their entries in the log.
    fn from(teller: Teller) -> Self {
        let mut log = Frontier::default();
        for earlier in ["one", "two"] {
            log.push(domain::merkle::leaf(earlier.as_bytes()));
        }
        let position = log.push(leaf(&teller.record));
        Self {
            receipts: teller.named_receipts(),
            approvals: teller.approvals.into_values().collect(),
            record: teller.record,
            plan: teller.plan,
            entries: teller.entries,
            steps: teller.steps,
            position,
        }
    }
}

/// The key that signs evidence.
pub(crate) fn key() -> SigningKey {
    SigningKey::from_seed([42; 32])
}

/// The story called `name`, or the one that chance tells for `chance-N`.
pub(crate) fn tell(name: &str) -> Told {
    if let Some(seed) = name.strip_prefix("chance-") {
        return chance::tell(seed.parse().unwrap()).into();
    }
    let told = match name {
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
        unknown => panic!("no story is called {unknown}"),
    };
    told.into()
}

fn plain() -> Teller {
    let steps = [step("read"), step("set.allow"), wait(), step("set.allow"), step("read")];
    let mut run = Teller::begin(plan(steps));
    run.work();
    run.work();
    run.serve();
    run.signal();
    run.work();
    run.work();
    run
}

fn one_effect() -> Teller {
    let mut run = Teller::begin(plan([step("set.allow")]));
    run.work();
    run
}

fn approved_by_one() -> Teller {
    let mut run = Teller::begin(plan([step("read"), step("set.one")]));
    run.work();
    run.serve();
    run.answer("paula", true);
    run.work();
    run
}

fn approved_by_two() -> Teller {
    let mut run = Teller::begin(plan([step("shell.two"), step("read")]));
    run.serve();
    run.wait_and_nudge();
    run.answer("paula", true);
    run.wait_and_nudge();
    run.answer("peter", true);
    run.work();
    run.work();
    run
}

fn denied() -> Teller {
    let mut run = Teller::begin(plan([step("set.allow"), step("shell.deny"), step("read")]));
    run.work();
    run.serve();
    run
}

/// One undoing needs a person, too.
fn rolled_back_after_failure() -> Teller {
    let steps = [undoable("set.allow", "set.one"), undoable("native.allow", "set.allow"), step("read")];
    let mut run = Teller::begin(plan(steps));
    run.work();
    run.work();
    run.serve();
    run.fail();
    run.work();
    run.serve();
    run.answer("paula", true);
    run.work();
    run
}

fn canceled() -> Teller {
    let mut run = Teller::begin(plan([step("set.allow"), step("set.one"), step("read")]));
    run.work();
    run.serve();
    run.cancel();
    run
}

/// The request comes while the step is held: it finishes, and is taken back.
fn canceled_in_flight() -> Teller {
    let mut run = Teller::begin(plan([undoable("set.allow", "set.allow"), step("read")]));
    run.serve();
    run.cancel();
    run.finish();
    run.work();
    run
}

fn taken_over() -> Teller {
    let mut run = Teller::begin(plan([step("read"), step("native.one"), step("find.allow")]));
    run.serve();
    run.fall_silent();
    run.work();
    run.serve();
    run.answer("paula", true);
    run.serve();
    run.fall_silent();
    run.work();
    run.serve();
    run.fall_silent();
    run.work();
    run
}

fn gate_and_time_out() -> Teller {
    let mut run = Teller::begin(plan([gate(), wait(), step("read")]));
    run.serve();
    run.answer("paula", true);
    run.serve();
    run.let_time_pass();
    run.serve();
    run.work();
    run
}

fn gate_rejected_then_approved() -> Teller {
    let mut run = Teller::begin(plan([gate(), step("set.allow")]));
    run.serve();
    run.answer("paula", false);
    run.resume();
    run.serve();
    run.answer("peter", true);
    run.work();
    run
}

fn approval_expired() -> Teller {
    let mut run = Teller::begin(plan([undoable("set.allow", "set.allow"), step("set.two")]));
    run.work();
    run.serve();
    run.answer("paula", true);
    run.let_time_pass();
    run.serve();
    run.work();
    run
}

fn approval_rejected() -> Teller {
    let mut run = Teller::begin(plan([step("set.two")]));
    run.serve();
    run.answer("paula", true);
    run.answer("peter", false);
    run
}

/// The first attempt did not happen, and the yes still holds for the second.
fn approval_used_twice() -> Teller {
    let mut run = Teller::begin(plan([step("set.one")]));
    run.serve();
    run.answer("paula", true);
    run.serve();
    run.retry_later();
    run.work();
    run
}

/// What was approved has changed before it was used.
fn asked_again() -> Teller {
    let mut run = Teller::begin(plan([step("set.one")]));
    run.serve();
    run.answer("paula", true);
    run.contract += 1;
    run.serve();
    run.answer("peter", true);
    run.work();
    run
}

fn outcome_unknown() -> Teller {
    let mut run = Teller::begin(plan([step("shell.one"), step("read")]));
    run.serve();
    run.answer("paula", true);
    run.serve();
    run.lose_track();
    run.cancel();
    run
}

fn outcome_unknown_then_done() -> Teller {
    let mut run = Teller::begin(plan([step("shell.allow")]));
    run.serve();
    run.lose_track();
    run.resume();
    run.work();
    run
}

fn event_came_early() -> Teller {
    let mut run = Teller::begin(plan([wait()]));
    run.signal();
    run.serve();
    run
}

/// Another run had the same effect.
fn effect_reused() -> Teller {
    let mut other = Teller::begin_as("other", plan([step("shared.allow")]));
    other.work();
    let mut run = Teller::begin(plan([step("shared.allow"), step("read")]));
    run.receipts = other.receipts;
    run.serve();
    run.work();
    run
}

/// The effect did not happen here; another run tried the same and had more luck.
fn effect_superseded() -> Teller {
    let mut run = Teller::begin(plan([step("shared.allow")]));
    run.serve();
    run.fail();
    let mut other = Teller::begin_as("other", plan([step("shared.allow")]));
    other.receipts = run.receipts;
    other.work();
    run.receipts = other.receipts;
    run.displaced = other.displaced;
    run
}

/// Policy denies the undoing; a person gives up.
fn undo_denied() -> Teller {
    let mut run = Teller::begin(plan([undoable("set.allow", "set.deny"), step("read")]));
    run.work();
    run.roll_back();
    run.serve();
    run.resume();
    run.serve();
    run.cancel();
    run
}

fn sixty_four_steps() -> Teller {
    let tools = ["read", "set.allow", "set.one", "shell.two"];
    let mut run = Teller::begin(plan((0..64).map(|n| step(tools[n % tools.len()]))));
    while !run.record.status.is_terminal() {
        run.work_approved();
    }
    run
}
