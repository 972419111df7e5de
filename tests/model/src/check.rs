//! Explores a world completely and says what was found. Breadth first and on one thread, so that two
//! checks of the same world tell the same story, and the shortest one.

use std::panic::resume_unwind;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;
use stateright::{Checker, Expectation, Model, Path};

use crate::action::Action;
use crate::model::Protocol;
use crate::state::State;
use crate::world::World;

/// Short enough that a tiny world does not wait for the look at it.
const GLANCE: Duration = Duration::from_millis(5);

/// How far an exploration has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The world being explored.
    pub world: &'static str,
    /// States found so far, each counted once.
    pub unique_states: usize,
    /// The longest story so far, in states.
    pub depth: usize,
}

/// A promise broken, and the shortest way there.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// The world in which it happened.
    pub world: &'static str,
    /// The promise.
    pub property: &'static str,
    /// What happened, step by step.
    pub trace: Vec<String>,
}

/// What a complete exploration found.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// What was explored.
    #[serde(flatten)]
    pub world: World,
    /// Its states, each counted once.
    pub unique_states: usize,
    /// The longest story, in states.
    pub max_depth: usize,
    /// Promises that were broken.
    pub violations: Vec<Violation>,
    /// Situations that were reached.
    pub reached: Vec<&'static str>,
}

/// Explores every state of the world.
pub fn check(world: &World, on_progress: &mut dyn FnMut(Progress)) -> Checked {
    let checker = explore(world, None, on_progress);
    let mut violations = Vec::new();
    let mut reached = Vec::new();
    for property in checker.model().properties() {
        match (property.expectation, checker.discovery(property.name)) {
            (_, None) => {}
            (Expectation::Sometimes, Some(_)) => reached.push(property.name),
            (Expectation::Always | Expectation::Eventually, Some(path)) => {
                let trace = shortest(world, property.name, told(path), on_progress);
                violations.push(Violation { world: world.name, property: property.name, trace });
            }
        }
    }
    Checked {
        world: world.clone(),
        unique_states: checker.unique_state_count(),
        max_depth: checker.max_depth(),
        violations,
        reached,
    }
}

/// The checker keeps the last counter-example of a block of states. Asking again, each time for a
/// shorter one, until there is none, leaves the shortest.
fn shortest(
    world: &World,
    property: &'static str,
    mut trace: Vec<String>,
    on_progress: &mut dyn FnMut(Progress),
) -> Vec<String> {
    // A state reached by as many steps as the trace has is as deep as the trace has steps, and one.
    while let Some(path) = explore(world, Some(trace.len() + 1), on_progress).discovery(property) {
        trace = told(path);
    }
    trace
}

fn told(path: Path<State, Action>) -> Vec<String> {
    path.into_actions().iter().map(|action| format!("{action:?}")).collect()
}

/// Visits every state, or every state at less than a given depth, the depth of the first being one.
fn explore(
    world: &World,
    depth_max: Option<usize>,
    on_progress: &mut dyn FnMut(Progress),
) -> impl Checker<Protocol> + use<> {
    let mut builder = Protocol(world.clone()).checker();
    if let Some(depth_max) = depth_max {
        builder = builder.target_max_depth(depth_max);
    }
    let mut checker = builder.spawn_bfs();
    for thread in checker.handles() {
        while !thread.is_finished() {
            on_progress(progress(world, &checker));
            sleep(GLANCE);
        }
        // A panic in there is a flaw of the model; it must not look like a world without violations.
        thread.join().unwrap_or_else(|panic| resume_unwind(panic));
    }
    checker
}

fn progress(world: &World, checker: &impl Checker<Protocol>) -> Progress {
    Progress { world: world.name, unique_states: checker.unique_state_count(), depth: checker.max_depth() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::{experiment, small_variant};
    use crate::world::Mutant;

    #[test]
    fn the_protocol_holds_in_a_small_world() {
        for world in small_variant().worlds {
            let checked = check(&world, &mut |_| {});
            assert!(checked.violations.is_empty(), "{:#?}", checked.violations);
            assert!(checked.reached.contains(&"a run succeeds after every crash it can suffer"));
        }
    }

    #[test]
    fn two_explorations_of_a_world_find_the_same() {
        let world = &small_variant().worlds[0];
        let (one, other) = (check(world, &mut |_| {}), check(world, &mut |_| {}));
        assert_eq!((one.unique_states, one.max_depth), (other.unique_states, other.max_depth));
    }

    #[test]
    fn a_violation_is_told_by_its_shortest_story() {
        let experiment = experiment(Mutant::MessageDeletedBeforeCommit);
        let checked = check(&experiment.world.without_rule_of(experiment.mutant), &mut |_| {});
        let lost = checked.violations.iter().find(|violation| violation.property == experiment.expected);
        assert_eq!(lost.map(|violation| violation.trace.len()), Some(2), "receive the message and die");
    }
}
