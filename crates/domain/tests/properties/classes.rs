//! What each class of effect comes to, situation by situation: the rows of `docs/semantics.md`.

use domain::command::{Certainty, Mode};
use domain::record::Effects;
use domain::schedule::RetryPolicy;
use domain::{Live, PlannedStep, RunStatus};

use crate::flaws::{FINISH, failed, mode, own, undoable, world};
use crate::story::Wish;
use crate::world::{self, World};

/// A tool of each class, and how work on it begins when an earlier attempt may have acted. Nobody may act for
/// the last one.
const CLASSES: [(&str, Option<Mode>); 5] = [
    ("read", Some(Mode::Fresh)),
    ("native", Some(Mode::Again)),
    ("set", Some(Mode::Again)),
    ("find", Some(Mode::LookUp)),
    ("shell", None),
];

/// A run of one call of `tool`, which a worker holds.
fn held(step: PlannedStep) -> World {
    let mut world = world([vec![step], vec![own("read")]]);
    world.wish(0, Wish::Serve).unwrap();
    world
}

fn stands(world: &World) -> (RunStatus, Effects) {
    let record = &world.runs[0].record;
    (record.status, record.effects)
}

fn effects(done: u32, undone: u32, unknown: u32) -> Effects {
    Effects { done, undone, unknown }
}

#[test]
fn a_silent_holders_step_is_taken_over_as_its_class_allows() {
    for (tool, begins) in CLASSES {
        let mut world = held(own(tool));
        world.wish(0, Wish::PassUntilDue);
        let turn = world.wish(0, Wish::Serve).unwrap();
        assert_eq!(mode(&turn), begins, "{tool}");
        let paused = world.runs[0].record.status == RunStatus::Paused;
        assert_eq!(paused, begins.is_none(), "{tool}");
    }
}

#[test]
fn an_attempt_without_a_reply_is_made_again_as_its_class_allows() {
    for (tool, begins) in CLASSES {
        let mut world = held(own(tool));
        world.wish(0, failed(Certainty::MayHaveHappened)).unwrap();
        assert_eq!(world.runs[0].record.status == RunStatus::Paused, begins.is_none(), "{tool}");
        world.wish(0, Wish::PassUntilDue);
        let next = world.wish(0, Wish::Serve);
        assert_eq!(next.as_ref().and_then(mode), begins, "{tool}");
    }
}

#[test]
fn an_attempt_that_is_known_to_have_done_nothing_is_made_anew_in_every_class() {
    for (tool, _) in CLASSES {
        let mut world = held(own(tool));
        world.wish(0, failed(Certainty::DidNotHappen)).unwrap();
        world.wish(0, Wish::PassUntilDue);
        let next = world.wish(0, Wish::Serve).unwrap();
        assert_eq!(mode(&next), Some(Mode::Fresh), "{tool}");
    }
}

#[test]
fn when_attempts_run_out_without_an_answer_a_person_is_shown_what_is_open() {
    let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    for (tool, _) in &CLASSES[1..] {
        let mut world = held(PlannedStep { retry: once.clone(), ..own(tool) });
        world.wish(0, failed(Certainty::MayHaveHappened)).unwrap();
        let live = &world.runs[0].record.live;
        assert!(matches!(live, Live::Unresolved { open: Some(_), .. }), "{tool}: {live:?}");
    }
}

#[test]
fn what_was_known_of_a_failure_is_told_to_whoever_must_find_out_the_rest() {
    let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    for step in [own("shell"), PlannedStep { retry: once, ..own("native") }] {
        let mut world = held(step);
        world.wish(0, failed(Certainty::MayHaveHappened)).unwrap();
        let record = &world.runs[0].record;
        let Live::Unresolved { failure, .. } = &record.live else { panic!("{:?}", record.live) };
        let known = world::failure();
        assert_eq!(failure.code, "OUTCOME_UNKNOWN");
        assert_eq!(failure.message, format!("{}: {}", known.code, known.message));
        let told = record.pause.as_ref().map(|pause| pause.reason.as_str());
        assert_eq!(told, Some(format!("OUTCOME_UNKNOWN: {}", failure.message).as_str()));
    }
}

#[test]
fn a_key_that_the_other_side_may_have_forgotten_is_not_sent_again_without_a_person() {
    let mut world = held(own("native.forgetful"));
    world.wish(0, Wish::Pass { ms: 3_600_000 });
    let turn = world.wish(0, Wish::Serve).unwrap();
    assert_eq!(mode(&turn), None);
    let Live::Unresolved { failure, open: Some(_), .. } = &world.runs[0].record.live else {
        panic!("{:?}", world.runs[0].record.live)
    };
    assert_eq!(failure.code, "IDEMPOTENCY_EXPIRED");
}

#[test]
fn an_effect_that_is_under_way_when_somebody_stops_the_run_finishes_and_is_taken_back() {
    for (tool, _) in &CLASSES[1..] {
        let mut world = held(undoable(tool));
        world.wish(0, Wish::Cancel).unwrap();
        world.wish(0, FINISH).unwrap();
        assert_eq!(stands(&world), (RunStatus::RollingBack, effects(1, 0, 0)), "{tool}");
        world.wish(0, Wish::Serve).unwrap();
        world.wish(0, FINISH).unwrap();
        assert_eq!(stands(&world), (RunStatus::Canceled, effects(1, 1, 0)), "{tool}");
    }
}

#[test]
fn a_wish_to_stop_that_comes_too_late_changes_nothing() {
    for (tool, _) in &CLASSES[1..] {
        let mut world = held(own(tool));
        world.wish(0, Wish::Cancel).unwrap();
        world.wish(0, FINISH).unwrap();
        assert_eq!(stands(&world), (RunStatus::Succeeded, effects(1, 0, 0)), "{tool}");
    }
}

#[test]
fn what_was_only_read_when_somebody_stops_the_run_is_thrown_away() {
    let mut world = held(own("read"));
    world.wish(0, Wish::Cancel).unwrap();
    world.wish(0, FINISH).unwrap();
    assert_eq!(stands(&world), (RunStatus::Canceled, effects(0, 0, 0)));
}

#[test]
fn an_effect_that_nobody_knows_of_is_owned_up_to_when_the_run_is_stopped() {
    let mut world = held(own("shell"));
    world.wish(0, failed(Certainty::MayHaveHappened)).unwrap();
    world.wish(0, Wish::Cancel).unwrap();
    assert_eq!(stands(&world), (RunStatus::Canceled, effects(0, 0, 1)));
}

#[test]
fn a_persons_word_lets_the_same_effect_be_done_again_and_no_other() {
    let mut world = held(own("shell"));
    world.wish(0, failed(Certainty::MayHaveHappened)).unwrap();
    world.wish(0, Wish::Resume).unwrap();
    let turn = world.wish(0, Wish::Serve).unwrap();
    assert_eq!(mode(&turn), Some(Mode::Again));
    world.wish(0, FINISH).unwrap();
    assert_eq!(stands(&world), (RunStatus::Succeeded, effects(1, 0, 0)));
}
