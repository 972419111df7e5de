//! The behavior of each effect class, situation by situation: the rows of `docs/semantics.md`.

use domain::command::{AttemptMode, EffectOutcome};
use domain::record::Effects;
use domain::retry_policy::RetryPolicy;
use domain::{PlannedStep, RunStatus, StepState};

use crate::env::{self, LedgerEnv};
use crate::regressions::{FINISH, env_with, failed, mode, own, undoable};
use crate::scenario::Op;

/// A tool of each class, and the mode of the next attempt when an earlier one may have acted. The last class has none.
const CLASSES: [(&str, Option<AttemptMode>); 5] = [
    ("read", Some(AttemptMode::Fresh)),
    ("native", Some(AttemptMode::Repeat)),
    ("set", Some(AttemptMode::Repeat)),
    ("find", Some(AttemptMode::LookUp)),
    ("shell", None),
];

/// A run of one step, which is leased.
fn leased_env(step: PlannedStep) -> LedgerEnv {
    let mut env = env_with([vec![step], vec![own("read")]]);
    env.apply(0, Op::Advance).unwrap();
    env
}

fn status_and_effects(env: &LedgerEnv) -> (RunStatus, Effects) {
    let record = &env.runs[0].record;
    (record.status, record.effects)
}

fn effects(done: u32, undone: u32, unknown: u32) -> Effects {
    Effects { done, undone, unknown }
}

#[test]
fn take_over_follows_the_effect_class() {
    for (tool, expected) in CLASSES {
        let mut env = leased_env(own(tool));
        env.apply(0, Op::PassUntilDue);
        let commit = env.apply(0, Op::Advance).unwrap();
        assert_eq!(mode(&commit), expected, "{tool}");
        let paused = env.runs[0].record.status == RunStatus::Paused;
        assert_eq!(paused, expected.is_none(), "{tool}");
    }
}

#[test]
fn lost_reply_is_retried_as_the_class_allows() {
    for (tool, expected) in CLASSES {
        let mut env = leased_env(own(tool));
        env.apply(0, failed(EffectOutcome::MayHaveHappened)).unwrap();
        assert_eq!(env.runs[0].record.status == RunStatus::Paused, expected.is_none(), "{tool}");
        env.apply(0, Op::PassUntilDue);
        let next = env.apply(0, Op::Advance);
        assert_eq!(next.as_ref().and_then(mode), expected, "{tool}");
    }
}

#[test]
fn known_failure_is_retried_fresh_in_every_class() {
    let stated = RetryPolicy { once_if_risky: false, ..RetryPolicy::default() };
    for (tool, _) in CLASSES {
        let mut env = leased_env(PlannedStep { retry: stated.clone(), ..own(tool) });
        env.apply(0, failed(EffectOutcome::DidNotHappen)).unwrap();
        env.apply(0, Op::PassUntilDue);
        let next = env.apply(0, Op::Advance).unwrap();
        assert_eq!(mode(&next), Some(AttemptMode::Fresh), "{tool}");
    }
}

#[test]
fn exhausted_attempts_leave_the_intent_open() {
    let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    for (tool, _) in &CLASSES[1..] {
        let mut env = leased_env(PlannedStep { retry: once.clone(), ..own(tool) });
        env.apply(0, failed(EffectOutcome::MayHaveHappened)).unwrap();
        let step_state = &env.runs[0].record.step_state;
        assert!(matches!(step_state, StepState::Unresolved { open: Some(_), .. }), "{tool}: {step_state:?}");
    }
}

#[test]
fn unknown_outcome_keeps_the_cause() {
    let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    for step in [own("shell"), PlannedStep { retry: once, ..own("native") }] {
        let mut env = leased_env(step);
        env.apply(0, failed(EffectOutcome::MayHaveHappened)).unwrap();
        let record = &env.runs[0].record;
        let StepState::Unresolved { failure, .. } = &record.step_state else {
            panic!("{:?}", record.step_state)
        };
        let known = env::failure();
        assert_eq!(failure.code, "OUTCOME_UNKNOWN");
        assert_eq!(failure.message, format!("{}: {}", known.code, known.message));
        let reason = record.pause.as_ref().map(|pause| pause.reason.as_str());
        assert_eq!(reason, Some(format!("OUTCOME_UNKNOWN: {}", failure.message).as_str()));
    }
}

#[test]
fn expired_key_is_not_resent_without_authorization() {
    let mut env = leased_env(own("native.forgetful"));
    env.apply(0, Op::Pass { ms: 3_600_000 });
    let commit = env.apply(0, Op::Advance).unwrap();
    assert_eq!(mode(&commit), None);
    let StepState::Unresolved { failure, open: Some(_), .. } = &env.runs[0].record.step_state else {
        panic!("{:?}", env.runs[0].record.step_state)
    };
    assert_eq!(failure.code, "IDEMPOTENCY_EXPIRED");
}

#[test]
fn canceled_effect_finishes_and_is_rolled_back() {
    for (tool, _) in &CLASSES[1..] {
        let mut env = leased_env(undoable(tool));
        env.apply(0, Op::Cancel).unwrap();
        env.apply(0, FINISH).unwrap();
        assert_eq!(status_and_effects(&env), (RunStatus::RollingBack, effects(1, 0, 0)), "{tool}");
        env.apply(0, Op::Advance).unwrap();
        env.apply(0, FINISH).unwrap();
        assert_eq!(status_and_effects(&env), (RunStatus::Canceled, effects(1, 1, 0)), "{tool}");
    }
}

#[test]
fn late_cancel_changes_nothing() {
    for (tool, _) in &CLASSES[1..] {
        let mut env = leased_env(own(tool));
        env.apply(0, Op::Cancel).unwrap();
        env.apply(0, FINISH).unwrap();
        assert_eq!(status_and_effects(&env), (RunStatus::Succeeded, effects(1, 0, 0)), "{tool}");
    }
}

#[test]
fn canceled_read_is_discarded() {
    let mut env = leased_env(own("read"));
    env.apply(0, Op::Cancel).unwrap();
    env.apply(0, FINISH).unwrap();
    assert_eq!(status_and_effects(&env), (RunStatus::Canceled, effects(0, 0, 0)));
}

#[test]
fn cancel_counts_unknown_effect() {
    let mut env = leased_env(own("shell"));
    env.apply(0, failed(EffectOutcome::MayHaveHappened)).unwrap();
    env.apply(0, Op::Cancel).unwrap();
    assert_eq!(status_and_effects(&env), (RunStatus::Canceled, effects(0, 0, 1)));
}

#[test]
fn resume_authorizes_the_same_effect() {
    let mut env = leased_env(own("shell"));
    env.apply(0, failed(EffectOutcome::MayHaveHappened)).unwrap();
    env.apply(0, Op::Resume).unwrap();
    let commit = env.apply(0, Op::Advance).unwrap();
    assert_eq!(mode(&commit), Some(AttemptMode::Repeat));
    env.apply(0, FINISH).unwrap();
    assert_eq!(status_and_effects(&env), (RunStatus::Succeeded, effects(1, 0, 0)));
}
