//! Properties of the transitions in the chain.
//!
//! A claim has no event of its own; every other transition has one.

use std::collections::BTreeMap;

use domain::machine::{RunTransition, StepTransition};
use domain::{Event, RunRecord, RunStatus, StepSeq, StepStatus};
use proptest::prelude::*;

use crate::cases;
use crate::env::{Commit, LedgerEnv};
use crate::scenario::any_scenario;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn event_numbers_have_no_gaps(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            let first = commit.before.as_ref().map_or(0, |before| before.events);
            let numbers: Vec<_> = commit.decision.events.iter().map(|chained| chained.event.n).collect();
            assert_eq!(numbers, (first..commit.decision.record.events).collect::<Vec<_>>());
        });
    }

    #[test]
    fn run_transitions_are_legal_and_contiguous(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            let mut status = commit.before.as_ref().map(|before| before.status);
            for moved in events(commit).filter_map(|event| event.run) {
                assert_eq!(moved.from, status);
                assert!(moved.from.is_none_or(|from| is_reachable(from, moved.to, run_moves)), "{moved:?}");
                status = Some(moved.to);
            }
            let last = commit.decision.record.status;
            assert!(status == Some(last) || status.unwrap().after(RunTransition::Claim) == Ok(last));
        });
    }

    #[test]
    fn step_transitions_are_legal_and_contiguous(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            let mut known = status_before(commit.before.as_ref());
            for moved in events(commit).filter_map(|event| event.step.clone()) {
                let from = known.insert(moved.seq, moved.to).unwrap_or(initial_status(commit));
                assert_eq!(moved.from, from, "{moved:?}");
                assert!(is_reachable(from, moved.to, step_moves), "{moved:?}");
            }
        });
    }

    #[test]
    fn ended_step_has_one_record_naming_its_event(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let ended: Vec<_> = events(commit).filter_map(recorded_end).collect();
            let records: Vec<_> =
                commit.decision.steps.iter().map(|record| (record.event, record.seq, record.status)).collect();
            assert_eq!(records, ended);

            let mut all: Vec<_> = env.runs[commit.run].steps.iter().map(|record| (record.seq, record.rollback)).collect();
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count);
        });
    }

    #[test]
    fn earlier_steps_have_succeeded(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let run = &env.runs[commit.run];
            let done = |seq| run.steps.iter().any(|r| r.seq == seq && !r.rollback && r.status == StepStatus::Succeeded);
            assert!((0..run.record.at.0).map(StepSeq).all(done));
        });
    }
}

fn events(commit: &Commit) -> impl Iterator<Item = &Event> {
    commit.decision.events.iter().map(|chained| &chained.event)
}

/// An end that writes a step record. A canceled step writes none: the end of the run covers it.
fn recorded_end(event: &Event) -> Option<(u32, StepSeq, StepStatus)> {
    let moved = event.step.as_ref()?;
    let recorded =
        matches!(moved.to, StepStatus::Succeeded | StepStatus::FailedTerminal | StepStatus::RolledBack);
    recorded.then_some((event.n, moved.seq, moved.to))
}

/// The state belongs to the current step, except during a rollback.
fn status_before(before: Option<&RunRecord>) -> BTreeMap<StepSeq, StepStatus> {
    let forward = before.filter(|before| !before.is_rolling_back());
    forward.map(|before| (before.at, before.step_state.status())).into_iter().collect()
}

/// The status of a step that this commit mentions first: ready, or succeeded and about to be rolled back.
fn initial_status(commit: &Commit) -> StepStatus {
    let undoing = commit.before.as_ref().is_some_and(RunRecord::is_rolling_back);
    if undoing { StepStatus::Succeeded } else { StepStatus::Ready }
}

fn run_moves(from: RunStatus) -> Vec<RunStatus> {
    RunTransition::ALL.iter().filter_map(|by| from.after(*by).ok()).collect()
}

fn step_moves(from: StepStatus) -> Vec<StepStatus> {
    StepTransition::ALL.iter().filter_map(|by| from.after(*by).ok()).collect()
}

/// Whether one move leads there, or two moves that one event records together.
fn is_reachable<T: Copy + PartialEq>(from: T, to: T, moves: fn(T) -> Vec<T>) -> bool {
    moves(from).into_iter().any(|next| next == to || moves(next).contains(&to))
}
