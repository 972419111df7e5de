//! Stories that once ended badly.

use domain::command::{Certainty, Mode};
use domain::plan::{OnReject, OnTimeout, Undo, Work};
use domain::receipt::ReceiptState;
use domain::schedule::RetryPolicy;
use domain::{Blast, Demand, IdempotencyKey, Live, Millis, PlannedStep, RunStatus};

use crate::plans::{call, event_name, plan, step};
use crate::story::{Binding, Holder, Story, Wish};
use crate::world::{Said, Turn, World};

const YES: Wish = Wish::Answer { back: 0, approve: true, person: 1 };
pub(crate) const FINISH: Wish = Wish::Finish { who: Holder::Newest, hand_on: false };

#[test]
fn a_run_can_begin_with_an_effect_that_another_run_has_done() {
    let mut world = world([vec![shared("native")], vec![shared("native")]]);
    world.wish(1, Wish::Serve);
    world.wish(1, FINISH);

    world.wish(0, Wish::Serve).unwrap();

    assert_eq!(world.runs[0].record.status, RunStatus::Succeeded);
    assert_eq!(world.runs[0].record.effects.done, 0);
}

#[test]
fn a_run_that_waited_for_another_run_to_act_uses_what_came_of_it() {
    let mut world = world([vec![shared("native")], vec![shared("native")]]);
    world.wish(1, Wish::Serve);
    world.wish(0, Wish::Serve);
    world.wish(1, FINISH);

    world.wish(0, Wish::PassUntilDue);
    world.wish(0, Wish::Serve).unwrap();

    assert_eq!(world.runs[0].record.status, RunStatus::Succeeded);
}

#[test]
fn an_effect_that_an_ended_run_left_open_is_put_before_a_person_and_done_on_their_word() {
    let mut world = world([vec![shared("shell")], vec![shared("shell")]]);
    world.wish(1, Wish::Serve);
    world.wish(1, failed(Certainty::MayHaveHappened));
    world.wish(1, Wish::Cancel);
    assert_eq!(world.runs[1].record.status, RunStatus::Canceled);
    let left = world.receipts.values().next().unwrap().clone();

    world.wish(0, Wish::Serve).unwrap();
    assert_eq!(world.runs[0].record.status, RunStatus::Paused);

    world.wish(0, Wish::Resume).unwrap();
    let turn = world.wish(0, Wish::Serve).unwrap();
    assert_eq!(mode(&turn), Some(Mode::Again));
    assert_eq!(turn.decision.receipts[0].displaces.as_ref(), Some(&left));
    world.wish(0, FINISH).unwrap();
    assert_eq!(world.runs[0].record.status, RunStatus::Succeeded);
    assert_eq!(world.runs[0].record.effects.unknown, 0);
}

#[test]
fn a_system_that_does_not_answer_after_a_persons_word_brings_the_run_back_to_them() {
    let mut world = world([vec![shared("shell")], vec![shared("shell")]]);
    world.wish(1, Wish::Serve);
    world.wish(1, failed(Certainty::MayHaveHappened));
    world.wish(1, Wish::Cancel);
    world.wish(0, Wish::Serve).unwrap();
    world.wish(0, Wish::Resume).unwrap();

    world.wish(0, Wish::Postpone).unwrap();
    assert_eq!(world.runs[0].record.status, RunStatus::Paused);

    world.wish(0, Wish::Resume).unwrap();
    let turn = world.wish(0, Wish::Serve).unwrap();
    assert_eq!(mode(&turn), Some(Mode::Again));
}

#[test]
fn a_run_that_is_stopped_before_it_did_what_another_left_open_answers_for_nothing() {
    let mut world = world([vec![shared("shell")], vec![shared("shell")]]);
    world.wish(1, Wish::Serve);
    world.wish(1, failed(Certainty::MayHaveHappened));
    world.wish(1, Wish::Cancel);
    world.wish(0, Wish::Serve).unwrap();

    world.wish(0, Wish::Cancel).unwrap();

    assert_eq!(world.runs[0].record.status, RunStatus::Canceled);
    assert_eq!([0, 1].map(|run: usize| world.runs[run].record.effects.unknown), [0, 1]);
}

#[test]
fn a_retry_that_was_paused_goes_on_where_it_stood() {
    let mut world = world([vec![own("native")], vec![own("read")]]);
    world.wish(0, Wish::Serve);
    world.wish(0, failed(Certainty::MayHaveHappened));
    world.wish(0, Wish::Pause);
    world.wish(0, Wish::Resume);

    let turn = world.wish(0, Wish::Serve).unwrap();

    assert_eq!(mode(&turn), Some(Mode::Again));
}

#[test]
fn a_persons_word_outlives_a_pause() {
    let mut world = world([vec![own("shell")], vec![own("read")]]);
    world.wish(0, Wish::Serve);
    world.wish(0, failed(Certainty::MayHaveHappened));
    world.wish(0, Wish::Resume);
    world.wish(0, Wish::Pause);
    world.wish(0, Wish::Resume);

    let turn = world.wish(0, Wish::Serve).unwrap();

    assert_eq!(mode(&turn), Some(Mode::Again));
}

#[test]
fn an_unknown_outcome_can_be_canceled_although_that_was_asked_for_before() {
    let mut world = world([vec![own("shell")], vec![own("read")]]);
    world.wish(0, Wish::Serve);
    world.wish(0, Wish::Cancel);
    world.wish(0, failed(Certainty::MayHaveHappened));
    assert_eq!(world.runs[0].record.status, RunStatus::Paused);

    world.wish(0, Wish::Cancel).unwrap();

    assert_eq!(world.runs[0].record.status, RunStatus::Canceled);
    assert_eq!(world.runs[0].record.effects.unknown, 1);
}

#[test]
fn a_run_that_is_rolled_back_owns_up_to_the_effect_it_leaves_open() {
    let mut world = world([vec![undoable("set"), own("native")], vec![own("read")]]);
    world.wish(0, Wish::Serve);
    world.wish(0, FINISH);
    world.wish(0, Wish::Serve);
    world.wish(0, failed(Certainty::MayHaveHappened));

    world.wish(0, Wish::RollBack).unwrap();

    assert_eq!(world.runs[0].record.effects.unknown, 1);
}

#[test]
fn a_step_that_can_no_longer_be_bound_does_not_hide_what_it_may_have_done() {
    let mut world = world([vec![own("native")], vec![own("read")]]);
    world.wish(0, Wish::Serve);
    world.wish(0, failed(Certainty::MayHaveHappened));

    world.wish(0, Wish::FailUnclaimed).unwrap();

    let record = &world.runs[0].record;
    assert_eq!(record.status, RunStatus::Paused);
    assert!(matches!(&record.live, Live::Unresolved { open: Some(_), .. }));
}

#[test]
fn an_undoing_that_did_not_happen_is_not_called_unknown() {
    let mut world = world([vec![undoable("set"), own("read")], vec![own("read")]]);
    world.wish(0, Wish::Serve);
    world.wish(0, FINISH);
    world.wish(0, Wish::RollBack);
    world.wish(0, Wish::Serve);

    world.wish(0, Wish::Fail(Holder::Newest)).unwrap();

    let record = &world.runs[0].record;
    assert_eq!(record.status, RunStatus::Paused);
    assert!(matches!(&record.live, Live::Unresolved { open: None, .. }));
}

#[test]
fn a_persons_word_about_one_effect_does_not_repeat_another_that_is_done() {
    let mut world = world([vec![own("shell")], vec![named("native", "shared:1")]]);
    world.wish(1, Wish::Serve);
    world.wish(1, FINISH);
    world.wish(0, Wish::Serve);
    world.wish(0, failed(Certainty::MayHaveHappened));
    world.wish(0, Wish::Resume);

    let turn = world.wish(0, Wish::Claim(Binding::OtherKey)).unwrap();

    assert_eq!(mode(&turn), None);
    let done = &world.receipts[&IdempotencyKey::new("shared:1").unwrap()];
    assert!(matches!(done.state, ReceiptState::Done { .. }));
    assert_eq!(done.run, world.runs[1].record.key.run);
}

#[test]
fn a_step_that_means_something_else_after_a_persons_word_owns_up_to_what_it_let_go_of() {
    let mut world = world([vec![own("shell")], vec![own("read")]]);
    world.wish(0, Wish::Serve);
    world.wish(0, failed(Certainty::MayHaveHappened));
    world.wish(0, Wish::Resume);

    world.wish(0, Wish::Claim(Binding::OtherKey)).unwrap();
    world.wish(0, FINISH).unwrap();

    let record = &world.runs[0].record;
    assert_eq!(record.status, RunStatus::Succeeded);
    assert_eq!((record.effects.done, record.effects.unknown), (1, 1));
}

#[test]
fn what_another_run_did_is_not_taken_back_here() {
    let undoable = PlannedStep { rollback: Some(Undo::Call(call("set", None))), ..shared("set") };
    let steps = || vec![undoable.clone(), own("read")];
    let mut world = world([steps(), steps()]);
    for run in [1, 0] {
        world.wish(run, Wish::Serve);
        world.wish(run, FINISH);
    }

    assert!(world.wish(0, Wish::RollBack).is_none());
    world.wish(1, Wish::RollBack).unwrap();
}

#[test]
fn a_question_to_a_person_cannot_be_claimed() {
    let gate = Work::Gate {
        message: "Go on?".into(),
        expires_after: Millis::hours(1),
        on_reject: OnReject::Fail,
        demand: Demand::default(),
    };
    let mut world = world([vec![step(gate)], vec![own("read")]]);
    assert!(world.wish(0, Wish::Claim(Binding::Same)).is_none());
}

#[test]
fn a_persons_word_covers_only_what_they_saw() {
    let mut world = world([vec![own("shell")], vec![own("read")]]);
    world.wish(0, Wish::Serve);
    world.wish(0, failed(Certainty::MayHaveHappened));
    world.wish(0, Wish::Resume);

    let turn = world.wish(0, Wish::Claim(Binding::OtherAction)).unwrap();

    assert_eq!(mode(&turn), None);
    assert_eq!(world.runs[0].record.status, RunStatus::Paused);
}

#[test]
fn doing_again_what_nobody_can_ask_about_is_asked_about_again() {
    let mut world = world([vec![PlannedStep { blast: Blast::Medium, ..own("shell") }], vec![own("read")]]);
    world.wish(0, Wish::Serve);
    world.wish(0, YES);
    world.wish(0, Wish::Serve);
    world.wish(0, failed(Certainty::MayHaveHappened));
    world.wish(0, Wish::Resume);

    world.wish(0, Wish::Serve).unwrap();

    let record = &world.runs[0].record;
    assert!(matches!(&record.live, Live::WaitingApproval { open: Some(_), .. }), "{:?}", record.live);
    world.wish(0, YES).unwrap();
    let turn = world.wish(0, Wish::Serve).unwrap();
    assert_eq!(mode(&turn), Some(Mode::Again));
}

#[test]
fn a_key_that_names_another_action_is_a_conflict_and_not_a_result() {
    let mut world = world([vec![shared("native")], vec![shared("native")]]);
    world.wish(1, Wish::Serve);
    world.wish(1, FINISH);

    world.wish(0, Wish::Claim(Binding::OtherAction)).unwrap();

    let run = &world.runs[0];
    assert_eq!((run.record.status, run.record.effects.done), (RunStatus::FailedTerminal, 0));
}

#[test]
fn a_pause_is_nobodys_word_that_something_may_be_done_again() {
    let mut world = world([vec![own("native.forgetful")], vec![own("read")]]);
    world.wish(0, Wish::Serve);
    world.wish(0, failed(Certainty::MayHaveHappened));
    world.wish(0, Wish::Pause);
    world.wish(0, Wish::Pass { ms: 3_600_000 });
    world.wish(0, Wish::Resume);

    let turn = world.wish(0, Wish::Serve).unwrap();

    assert_eq!(mode(&turn), None, "the other side has forgotten the key by now");
    assert_eq!(world.runs[0].record.status, RunStatus::Paused);
}

#[test]
fn a_run_that_waits_for_an_event_can_be_held_and_misses_none() {
    let wait = Work::Wait { event: event_name(0), timeout: Millis::secs(60), on_timeout: OnTimeout::Fail };
    let mut world = world([vec![step(wait), own("read")], vec![own("read")]]);
    world.wish(0, Wish::Serve);
    assert_eq!(world.runs[0].record.status, RunStatus::WaitingEvent);
    world.wish(0, Wish::Pause).unwrap();
    assert_eq!(world.runs[0].record.due_at, None, "its time does not run out while it is held");

    world.wish(0, Wish::Pass { ms: 3_600_000 });
    world.wish(0, Wish::Signal { event: 0, delivery: 0 }).unwrap();
    assert_eq!(world.runs[0].record.status, RunStatus::Paused);
    assert!(world.wish(0, Wish::Signal { event: 1, delivery: 0 }).is_none(), "one id, one event");
    world.wish(0, Wish::Resume);
    world.wish(0, Wish::Serve).unwrap();

    assert_eq!((world.runs[0].record.at.0, world.runs[0].record.status), (1, RunStatus::Running));
}

#[test]
fn a_run_that_asks_about_taking_back_is_not_stopped_half_way() {
    let undo = PlannedStep { blast: Blast::Medium, ..undoable("set") };
    let mut world = world([vec![undo, own("read")], vec![own("read")]]);
    world.wish(0, Wish::Serve);
    world.wish(0, YES);
    world.wish(0, Wish::Serve);
    world.wish(0, FINISH);
    world.wish(0, Wish::RollBack);
    world.wish(0, Wish::Serve);
    assert_eq!(world.runs[0].record.status, RunStatus::WaitingApproval);

    world.wish(0, Wish::Cancel);

    assert_eq!(world.runs[0].record.status, RunStatus::WaitingApproval);
}

pub(crate) fn world(steps: [Vec<PlannedStep>; 2]) -> World {
    World::new(&Story { plans: steps.map(plan), wishes: Vec::new() }, |_, _| {})
}

/// A call whose effect is this step's own.
pub(crate) fn own(tool: &str) -> PlannedStep {
    step(Work::Call(call(tool, None)))
}

/// A call whose effect both runs mean.
fn shared(tool: &str) -> PlannedStep {
    named(tool, "shared:0")
}

fn named(tool: &str, key: &str) -> PlannedStep {
    step(Work::Call(call(tool, Some(key))))
}

/// A call that can be taken back, in one attempt.
pub(crate) fn undoable(tool: &str) -> PlannedStep {
    let retry = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    PlannedStep { rollback: Some(Undo::Call(call(tool, None))), retry, ..own(tool) }
}

pub(crate) fn failed(certainty: Certainty) -> Wish {
    Wish::Retry { who: Holder::Newest, certainty, retry_after: None }
}

/// How the work begins that a commit has granted.
pub(crate) fn mode(turn: &Turn) -> Option<Mode> {
    match &turn.said {
        Said::Granted(grant) => Some(grant.mode),
        _ => None,
    }
}
