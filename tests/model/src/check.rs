//! Explores a configuration completely. The search is breadth first on one thread, so that two checks of the
//! same configuration give the same result, with the shortest traces.

use std::fmt::Debug;
use std::hash::Hash;
use std::panic::resume_unwind;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use stateright::{Checker, Expectation, Model, Path};

/// Short, so that tiny configurations finish without a noticeable wait.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The configuration of a model: the whole input of a check.
pub(crate) trait Explorable: Serialize {
    type Model: Model<State: Clone + PartialEq + Hash + Send + Sync + 'static, Action: Clone + PartialEq + Debug>
        + Send
        + Sync
        + 'static;

    /// The name in reports.
    fn name(&self) -> &'static str;

    /// The size, for a table.
    fn size(&self) -> String;

    fn model(&self) -> Self::Model;
}

#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub config: &'static str,
    pub unique_states: usize,
    /// The longest trace so far, in states.
    pub depth: usize,
}

/// An invariant that does not hold, and the shortest trace to that state.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    pub config: &'static str,
    pub property: &'static str,
    pub trace: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct CheckResult {
    pub name: &'static str,
    pub size: String,
    pub config: Value,
    pub unique_states: usize,
    /// The longest trace, in states.
    pub max_depth: usize,
    pub violations: Vec<Violation>,
    /// The situations that were reached.
    pub reached: Vec<&'static str>,
}

/// Explores every state of the configuration.
pub(crate) fn check<C: Explorable>(config: &C, on_progress: &mut dyn FnMut(Progress)) -> CheckResult {
    let checker = explore(config, None, on_progress);
    let mut violations = Vec::new();
    let mut reached = Vec::new();
    for property in checker.model().properties() {
        match (property.expectation, checker.discovery(property.name)) {
            (_, None) => {}
            (Expectation::Sometimes, Some(_)) => reached.push(property.name),
            (Expectation::Always | Expectation::Eventually, Some(path)) => {
                let trace = shortest_trace(config, property.name, action_names(path), on_progress);
                violations.push(Violation { config: config.name(), property: property.name, trace });
            }
        }
    }
    CheckResult {
        name: config.name(),
        size: config.size(),
        config: json!(config),
        unique_states: checker.unique_state_count(),
        max_depth: checker.max_depth(),
        violations,
        reached,
    }
}

/// The checker keeps the last counter-example of a block of states. Repeating the search with a smaller depth
/// until it finds none leaves the shortest.
fn shortest_trace<C: Explorable>(
    config: &C,
    property: &'static str,
    mut trace: Vec<String>,
    on_progress: &mut dyn FnMut(Progress),
) -> Vec<String> {
    // A state reached by n actions has depth n + 1.
    while let Some(path) = explore(config, Some(trace.len() + 1), on_progress).discovery(property) {
        trace = action_names(path);
    }
    trace
}

fn action_names<S, A: Debug>(path: Path<S, A>) -> Vec<String> {
    path.into_actions().iter().map(|action| format!("{action:?}")).collect()
}

/// Visits every state, or every state below a given depth. The first state has depth one.
fn explore<C: Explorable>(
    config: &C,
    depth_max: Option<usize>,
    on_progress: &mut dyn FnMut(Progress),
) -> impl Checker<C::Model> + use<C> {
    let mut builder = config.model().checker();
    if let Some(depth_max) = depth_max {
        builder = builder.target_max_depth(depth_max);
    }
    let mut checker = builder.spawn_bfs();
    for thread in checker.handles() {
        while !thread.is_finished() {
            on_progress(progress::<C>(config.name(), &checker));
            sleep(POLL_INTERVAL);
        }
        // A panic is a bug of the model; it must not look like a configuration without violations.
        thread.join().unwrap_or_else(|panic| resume_unwind(panic));
    }
    checker
}

fn progress<C: Explorable>(config: &'static str, checker: &impl Checker<C::Model>) -> Progress {
    Progress { config, unique_states: checker.unique_state_count(), depth: checker.max_depth() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mutant;
    use crate::variants::{experiment, small_variant};

    #[test]
    fn protocol_holds_in_small_configurations() {
        for config in small_variant().configs {
            let checked = check(&config, &mut |_| {});
            assert!(checked.violations.is_empty(), "{:#?}", checked.violations);
            assert!(checked.reached.contains(&"a run succeeds after the last crash of the budget"));
        }
    }

    #[test]
    fn two_explorations_find_the_same_states() {
        let config = &small_variant().configs[0];
        let (one, other) = (check(config, &mut |_| {}), check(config, &mut |_| {}));
        assert_eq!((one.unique_states, one.max_depth), (other.unique_states, other.max_depth));
    }

    #[test]
    fn violation_has_the_shortest_trace() {
        let experiment = experiment(Mutant::MessageDeletedBeforeCommit);
        let checked = check(&experiment.mutated, &mut |_| {});
        let lost = checked.violations.iter().find(|violation| violation.property == experiment.expected);
        assert_eq!(lost.map(|violation| violation.trace.len()), Some(2), "receive the message and crash");
    }
}
