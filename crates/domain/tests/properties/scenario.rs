//! Scenarios: two runs of one tenant, and any operations on them in any order.

use domain::command::EffectOutcome;
use domain::{Millis, Plan};
use proptest::prelude::*;

use crate::plans::{any_plan, governed_plan};

/// Long enough for a run to fail, pause, resume, roll back and end.
const OPS_MAX: usize = 60;

/// The users of the tenant.
pub(crate) const USERS: u8 = 6;

/// The plans of two runs, and the operations on them.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) plans: [Plan; 2],
    pub(crate) ops: Vec<PlannedOp>,
}

/// An operation on one of the runs.
#[derive(Debug, Clone)]
pub(crate) struct PlannedOp {
    pub(crate) run: usize,
    /// Whether the caller decides on the record before its last write.
    pub(crate) stale: bool,
    /// The user who gives the command; an external system, if absent.
    pub(crate) user: Option<u8>,
    pub(crate) op: Op,
}

/// An operation.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// A worker does the next work of the run.
    Advance,
    Claim(Binding),
    TakeOver(Binding),
    Finish {
        who: WorkerRef,
        hand_off: bool,
    },
    Retry {
        who: WorkerRef,
        certainty: EffectOutcome,
        retry_after: Option<Millis>,
    },
    Fail(WorkerRef),
    FailUnclaimed,
    Renew(WorkerRef),
    OpenWait,
    OpenGate,
    Signal {
        event: u8,
        delivery: u8,
    },
    /// A user votes on the newest approval, or on an earlier one.
    Vote {
        back: u8,
        approve: bool,
        person: u8,
    },
    /// A user leaves the tenant's directory, or comes back.
    Directory {
        person: u8,
        present: bool,
    },
    /// A user undoes the first run after it has ended, with a third run.
    Undo,
    TimeOut,
    RemindApprovers,
    Postpone,
    Cancel,
    Pause,
    Resume,
    RollBack,
    Wake,
    /// The clock moves, forwards or backwards.
    Pass {
        ms: i64,
    },
    /// The clock moves to the due time of the run.
    PassUntilDue,
}

/// The worker that reports on granted work.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WorkerRef {
    /// The worker with the latest grant.
    Current,
    /// A worker with an earlier grant.
    Previous(u8),
}

/// The action that a worker proposes when it claims a step.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Binding {
    /// The planned action.
    Same,
    /// Another version of the planned action.
    OtherAction,
    /// An action under a key that other steps use.
    OtherKey,
    /// The planned action, with the receipts as they were before the first write.
    StaleReceipt,
    /// The planned action, under a changed policy.
    OtherPolicy,
    /// The planned action, under a changed policy that requires an approval.
    StricterPolicy,
}

/// Any scenario.
pub(crate) fn any_scenario() -> impl Strategy<Value = Scenario> {
    let ops = prop::collection::vec(any_planned_op(), 0..OPS_MAX);
    ([any_plan(), any_plan()], ops).prop_map(|(plans, ops)| Scenario { plans, ops })
}

/// A scenario in which most steps need an approval, and users do most of what happens.
pub(crate) fn governed_scenario() -> impl Strategy<Value = Scenario> {
    let op = prop_oneof![
        10 => Just(Op::Advance),
        9 => any_vote(),
        4 => Just(Op::Finish { who: WorkerRef::Current, hand_off: false }),
        1 => Just(Op::Fail(WorkerRef::Current)),
        1 => Just(Op::Retry {
            who: WorkerRef::Current,
            certainty: EffectOutcome::MayHaveHappened,
            retry_after: None,
        }),
        3 => Just(Op::Pause),
        5 => Just(Op::Resume),
        4 => (0..2_u8, 0..8_u8).prop_map(|(event, delivery)| Op::Signal { event, delivery }),
        1 => Just(Op::RollBack),
        1 => Just(Op::Cancel),
        3 => any_directory_change(),
        // The policy or the external state changed.
        1 => Just(Op::Claim(Binding::OtherPolicy)),
        1 => Just(Op::Claim(Binding::StricterPolicy)),
        1 => Just(Op::Claim(Binding::OtherAction)),
        2 => Just(Op::Undo),
        1 => Just(Op::PassUntilDue),
    ];
    let run = prop_oneof![3 => Just(0_usize), 1 => Just(2)];
    let planned = (run, prop::option::weighted(0.9, 0..USERS), op).prop_map(|(run, user, op)| PlannedOp {
        run,
        stale: false,
        user,
        op,
    });
    let ops = prop::collection::vec(planned, 20..2 * OPS_MAX);
    (governed_plan(), any_plan(), ops)
        .prop_map(|(governed, other, ops)| Scenario { plans: [governed, other], ops })
}

fn any_vote() -> impl Strategy<Value = Op> {
    (0..8_u8, prop::bool::weighted(0.8), 0..USERS).prop_map(|(back, approve, person)| Op::Vote {
        back: back / 7,
        approve,
        person,
    })
}

fn any_directory_change() -> impl Strategy<Value = Op> {
    (0..USERS, any::<bool>()).prop_map(|(person, present)| Op::Directory { person, present })
}

fn any_planned_op() -> impl Strategy<Value = PlannedOp> {
    let run = prop_oneof![3 => Just(0_usize), 1 => Just(1)];
    (run, prop::bool::weighted(0.05), prop::option::weighted(0.8, 0..USERS), any_op())
        .prop_map(|(run, stale, user, op)| PlannedOp { run, stale, user, op })
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => Just(Op::Advance),
        16 => any_worker_op(),
        6 => any_time(),
        5 => any_step_op(),
        8 => any_external_op(),
        8 => any_operator_op(),
    ]
}

fn any_worker_op() -> impl Strategy<Value = Op> {
    let retry_after = prop::option::of((0..7_200_000_u64).prop_map(Millis));
    let certainty = prop_oneof![Just(EffectOutcome::DidNotHappen), Just(EffectOutcome::MayHaveHappened)];
    prop_oneof![
        8 => (any_worker_ref(), any::<bool>()).prop_map(|(who, hand_off)| Op::Finish { who, hand_off }),
        5 => (any_worker_ref(), certainty, retry_after)
            .prop_map(|(who, certainty, retry_after)| Op::Retry { who, certainty, retry_after }),
        1 => any_worker_ref().prop_map(Op::Fail),
        1 => any_worker_ref().prop_map(Op::Renew),
    ]
}

fn any_worker_ref() -> impl Strategy<Value = WorkerRef> {
    prop_oneof![8 => Just(WorkerRef::Current), 1 => any::<u8>().prop_map(WorkerRef::Previous)]
}

fn any_time() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::PassUntilDue),
        2 => (-7_200_000..7_200_000_i64).prop_map(|ms| Op::Pass { ms }),
    ]
}

fn any_step_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => any_binding().prop_map(Op::Claim),
        3 => any_binding().prop_map(Op::TakeOver),
        1 => Just(Op::OpenWait),
        1 => Just(Op::OpenGate),
        1 => Just(Op::TimeOut),
        1 => Just(Op::RemindApprovers),
        1 => Just(Op::Postpone),
        1 => Just(Op::FailUnclaimed),
    ]
}

fn any_binding() -> impl Strategy<Value = Binding> {
    prop_oneof![
        4 => Just(Binding::Same),
        1 => Just(Binding::OtherAction),
        1 => Just(Binding::OtherKey),
        2 => Just(Binding::StaleReceipt),
        1 => Just(Binding::OtherPolicy),
        1 => Just(Binding::StricterPolicy),
    ]
}

fn any_external_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => (0..3_u8, 0..4_u8).prop_map(|(event, delivery)| Op::Signal { event, delivery }),
        1 => any_directory_change(),
        3 => any_vote(),
    ]
}

fn any_operator_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => Just(Op::Cancel),
        2 => Just(Op::Pause),
        5 => Just(Op::Resume),
        1 => Just(Op::RollBack),
        1 => Just(Op::Wake),
    ]
}
