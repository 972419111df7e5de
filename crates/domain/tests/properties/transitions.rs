//! What holds for the transitions that the chain tells.
//!
//! A claim leaves no event of its own, so the chain may be silent about a claim; about nothing else.

use std::collections::BTreeMap;

use domain::machine::{RunMove, StepMove};
use domain::{Event, RunRecord, RunStatus, StepSeq, StepStatus};
use proptest::prelude::*;

use crate::cases;
use crate::story::any_story;
use crate::world::{Turn, World};

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn events_are_numbered_without_a_gap(story in any_story()) {
        World::tell(&story, |_, turn| {
            let first = turn.before.as_ref().map_or(0, |before| before.events);
            let numbers: Vec<_> = turn.decision.events.iter().map(|sealed| sealed.event.n).collect();
            assert_eq!(numbers, (first..turn.decision.record.events).collect::<Vec<_>>());
        });
    }

    #[test]
    fn a_runs_transitions_are_legal_and_follow_from_each_other(story in any_story()) {
        World::tell(&story, |_, turn| {
            let mut status = turn.before.as_ref().map(|before| before.status);
            for moved in events(turn).filter_map(|event| event.run) {
                assert_eq!(moved.from, status);
                assert!(moved.from.is_none_or(|from| reaches(from, moved.to, run_moves)), "{moved:?}");
                status = Some(moved.to);
            }
            let last = turn.decision.record.status;
            assert!(status == Some(last) || status.unwrap().after(RunMove::Claim) == Ok(last));
        });
    }

    #[test]
    fn a_steps_transitions_are_legal_and_follow_from_each_other(story in any_story()) {
        World::tell(&story, |_, turn| {
            let mut known = known_before(turn.before.as_ref());
            for moved in events(turn).filter_map(|event| event.step.clone()) {
                let from = known.insert(moved.seq, moved.to).unwrap_or(first_known(turn));
                assert_eq!(moved.from, from, "{moved:?}");
                assert!(reaches(from, moved.to, step_moves), "{moved:?}");
            }
        });
    }

    #[test]
    fn a_step_that_ends_has_exactly_one_record_and_it_names_its_event(story in any_story()) {
        World::tell(&story, |world, turn| {
            let ended: Vec<_> = events(turn).filter_map(ended).collect();
            let records: Vec<_> =
                turn.decision.steps.iter().map(|record| (record.event, record.seq, record.status)).collect();
            assert_eq!(records, ended);

            let mut all: Vec<_> = world.runs[turn.run].steps.iter().map(|record| (record.seq, record.undo)).collect();
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count);
        });
    }

    #[test]
    fn every_step_before_the_current_one_has_succeeded(story in any_story()) {
        World::tell(&story, |world, turn| {
            let run = &world.runs[turn.run];
            let done = |seq| run.steps.iter().any(|r| r.seq == seq && !r.undo && r.status == StepStatus::Succeeded);
            assert!((0..run.record.at.0).map(StepSeq).all(done));
        });
    }
}

fn events(turn: &Turn) -> impl Iterator<Item = &Event> {
    turn.decision.events.iter().map(|sealed| &sealed.event)
}

/// An end that leaves a record. A step that is stopped leaves none: the run's own end says so.
fn ended(event: &Event) -> Option<(u32, StepSeq, StepStatus)> {
    let moved = event.step.as_ref()?;
    let recorded =
        matches!(moved.to, StepStatus::Succeeded | StepStatus::FailedTerminal | StepStatus::RolledBack);
    recorded.then_some((event.n, moved.seq, moved.to))
}

/// The live state is that of the current step, unless that is being taken back.
fn known_before(before: Option<&RunRecord>) -> BTreeMap<StepSeq, StepStatus> {
    let live = before.filter(|before| !before.is_undoing());
    live.map(|before| (before.at, before.live.status())).into_iter().collect()
}

/// What a step was that this commit speaks of first: ready, or done and about to be taken back.
fn first_known(turn: &Turn) -> StepStatus {
    let undoing = turn.before.as_ref().is_some_and(RunRecord::is_undoing);
    if undoing { StepStatus::Succeeded } else { StepStatus::Ready }
}

fn run_moves(from: RunStatus) -> Vec<RunStatus> {
    RunMove::ALL.iter().filter_map(|by| from.after(*by).ok()).collect()
}

fn step_moves(from: StepStatus) -> Vec<StepStatus> {
    StepMove::ALL.iter().filter_map(|by| from.after(*by).ok()).collect()
}

/// Whether one move leads there, or two that one event tells together.
fn reaches<T: Copy + PartialEq>(from: T, to: T, moves: fn(T) -> Vec<T>) -> bool {
    moves(from).into_iter().any(|next| next == to || moves(next).contains(&to))
}
