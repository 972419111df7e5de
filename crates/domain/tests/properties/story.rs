//! Stories: two runs of one tenant, and everything that anybody may wish of them, in any order.

use domain::command::Certainty;
use domain::{Millis, Plan};
use proptest::prelude::*;

use crate::plans::any_plan;

/// Long enough for a run to fail, pause, go on, be taken back and end.
const WISHES_MAX: usize = 60;

/// What happens to two runs.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) plans: [Plan; 2],
    pub(crate) wishes: Vec<Wished>,
}

/// Somebody wishes something of one of the runs.
#[derive(Debug, Clone)]
pub(crate) struct Wished {
    pub(crate) run: usize,
    /// Whether they look at the record as it was before its last write.
    pub(crate) stale: bool,
    pub(crate) wish: Wish,
}

/// What somebody wishes.
#[derive(Debug, Clone)]
pub(crate) enum Wish {
    /// A worker does whatever can be done now.
    Serve,
    Claim(Binding),
    TakeOver(Binding),
    Finish {
        who: Holder,
        hand_on: bool,
    },
    Retry {
        who: Holder,
        certainty: Certainty,
        retry_after: Option<Millis>,
    },
    Fail(Holder),
    FailUnclaimed,
    Renew(Holder),
    OpenWait,
    OpenGate,
    Signal {
        event: u8,
        delivery: u8,
    },
    /// Somebody answers the newest request, or one before it.
    Answer {
        back: u8,
        approve: bool,
        person: u8,
    },
    TimeOut,
    Nudge,
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
    /// The clock moves to when the run is due.
    PassUntilDue,
}

/// Who speaks of work that was granted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Holder {
    /// Whoever was granted it last.
    Newest,
    /// Somebody who was granted it before.
    Older(u8),
}

/// What a worker binds a step to when it claims it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Binding {
    /// What it always meant.
    Same,
    /// Another version of the same change.
    OtherAction,
    /// A change that others have a name for, too.
    OtherKey,
    /// What it always meant, with the receipts as they were before anybody had written one.
    Unaware,
    /// What it always meant, under a policy that has changed.
    OtherPolicy,
}

/// Any story.
pub(crate) fn any_story() -> impl Strategy<Value = Story> {
    let wishes = prop::collection::vec(any_wished(), 0..WISHES_MAX);
    ([any_plan(), any_plan()], wishes).prop_map(|(plans, wishes)| Story { plans, wishes })
}

fn any_wished() -> impl Strategy<Value = Wished> {
    let run = prop_oneof![3 => Just(0_usize), 1 => Just(1)];
    (run, prop::bool::weighted(0.05), any_wish()).prop_map(|(run, stale, wish)| Wished { run, stale, wish })
}

fn any_wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        20 => Just(Wish::Serve),
        16 => any_word_of_a_holder(),
        6 => any_time(),
        5 => any_attempt_at_the_step(),
        8 => any_word_from_outside(),
        8 => any_word_of_an_operator(),
    ]
}

fn any_word_of_a_holder() -> impl Strategy<Value = Wish> {
    let retry_after = prop::option::of((0..7_200_000_u64).prop_map(Millis));
    let certainty = prop_oneof![Just(Certainty::DidNotHappen), Just(Certainty::MayHaveHappened)];
    prop_oneof![
        8 => (any_holder(), any::<bool>()).prop_map(|(who, hand_on)| Wish::Finish { who, hand_on }),
        5 => (any_holder(), certainty, retry_after)
            .prop_map(|(who, certainty, retry_after)| Wish::Retry { who, certainty, retry_after }),
        1 => any_holder().prop_map(Wish::Fail),
        1 => any_holder().prop_map(Wish::Renew),
    ]
}

fn any_holder() -> impl Strategy<Value = Holder> {
    prop_oneof![8 => Just(Holder::Newest), 1 => any::<u8>().prop_map(Holder::Older)]
}

fn any_time() -> impl Strategy<Value = Wish> {
    prop_oneof![
        3 => Just(Wish::PassUntilDue),
        2 => (-7_200_000..7_200_000_i64).prop_map(|ms| Wish::Pass { ms }),
    ]
}

fn any_attempt_at_the_step() -> impl Strategy<Value = Wish> {
    prop_oneof![
        3 => any_binding().prop_map(Wish::Claim),
        3 => any_binding().prop_map(Wish::TakeOver),
        1 => Just(Wish::OpenWait),
        1 => Just(Wish::OpenGate),
        1 => Just(Wish::TimeOut),
        1 => Just(Wish::Nudge),
        1 => Just(Wish::Postpone),
        1 => Just(Wish::FailUnclaimed),
    ]
}

fn any_binding() -> impl Strategy<Value = Binding> {
    prop_oneof![
        4 => Just(Binding::Same),
        1 => Just(Binding::OtherAction),
        1 => Just(Binding::OtherKey),
        2 => Just(Binding::Unaware),
        1 => Just(Binding::OtherPolicy),
    ]
}

fn any_word_from_outside() -> impl Strategy<Value = Wish> {
    prop_oneof![
        1 => (0..3_u8, 0..4_u8).prop_map(|(event, delivery)| Wish::Signal { event, delivery }),
        2 => (0..8_u8, prop::bool::weighted(0.8), 0..5_u8).prop_map(|(back, approve, person)| Wish::Answer {
            back: back / 7,
            approve,
            person
        }),
    ]
}

fn any_word_of_an_operator() -> impl Strategy<Value = Wish> {
    prop_oneof![
        2 => Just(Wish::Cancel),
        2 => Just(Wish::Pause),
        5 => Just(Wish::Resume),
        1 => Just(Wish::RollBack),
        1 => Just(Wish::Wake),
    ]
}
