//! What all the checking comes to: one value that a program can read and that knows whether
//! all is well.

use serde::Serialize;
use stateright::Expectation;

use crate::check::{Checked, Progress, Violation, check};
use crate::properties;
use crate::variants::{Variant, experiment};
use crate::world::Mutant;

/// Fewer states than this and the worlds have become too small to mean much.
pub const UNIQUE_STATES_MIN: usize = 1_000_000;

/// A property, over all worlds of a variant.
#[derive(Clone, Debug, Serialize)]
pub struct PropertyReport {
    /// The property, as a sentence.
    pub name: &'static str,
    /// `always` for a promise, `sometimes` for a situation.
    pub kind: &'static str,
    /// A promise was kept in every world, or a situation was reached in one.
    pub holds: bool,
}

/// What became of a mutant.
#[derive(Clone, Debug, Serialize)]
pub struct MutantReport {
    /// The rule that is missing.
    pub name: &'static str,
    /// How many workers its world has.
    pub workers: u8,
    /// How often one of them may die.
    pub crashes: u8,
    /// States of the world without the rule.
    pub unique_states: usize,
    /// The promise it had to break.
    pub expected: &'static str,
    /// The promise it did break: the expected one, or the first of others.
    pub caught_by: Option<&'static str>,
    /// How many steps it takes.
    pub trace_len: usize,
    /// The steps.
    pub trace: Vec<String>,
    /// With the rule in place, the same world keeps every promise.
    pub holds_with_the_rule: bool,
}

impl MutantReport {
    /// Whether the rule was missed as it should be, and only because it is missing.
    pub fn is_as_expected(&self) -> bool {
        self.caught_by == Some(self.expected) && self.holds_with_the_rule
    }
}

/// Everything that was checked.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Which worlds were checked.
    pub variant: &'static str,
    /// States of the protocol's own worlds together, each counted once in its world.
    pub unique_states: usize,
    /// The longest story in any of them, in states.
    pub max_depth: usize,
    /// Every one of them has at least as many workers.
    pub workers: u8,
    /// In every one of them at least as many may die.
    pub crashes: u8,
    /// The properties over all of them.
    pub properties: Vec<PropertyReport>,
    /// How many promises were broken.
    pub violations: usize,
    /// Each of those, with its story.
    pub violation_reports: Vec<Violation>,
    /// The worlds, one by one.
    pub worlds: Vec<Checked>,
    /// How many mutants were tried.
    pub mutants: usize,
    /// How many were caught as they should be.
    pub mutants_as_expected: usize,
    /// The mutants, one by one.
    pub mutant_reports: Vec<MutantReport>,
}

impl Report {
    /// Sums up a variant's worlds and the mutants.
    pub fn new(variant: &Variant, worlds: Vec<Checked>, mutant_reports: Vec<MutantReport>) -> Self {
        let violation_reports: Vec<_> = worlds.iter().flat_map(|world| world.violations.clone()).collect();
        Self {
            variant: variant.name,
            unique_states: worlds.iter().map(|world| world.unique_states).sum(),
            max_depth: worlds.iter().map(|world| world.max_depth).max().unwrap_or(0),
            workers: worlds.iter().map(|checked| checked.world.workers).min().unwrap_or(0),
            crashes: worlds.iter().map(|checked| checked.world.budget.crashes).min().unwrap_or(0),
            properties: properties_over(&worlds),
            violations: violation_reports.len(),
            violation_reports,
            mutants: mutant_reports.len(),
            mutants_as_expected: mutant_reports.iter().filter(|mutant| mutant.is_as_expected()).count(),
            mutant_reports,
            worlds,
        }
    }

    /// Whether every promise was kept, every situation reached, every mutant caught, and the worlds
    /// were large enough for that to mean something.
    pub fn all_is_well(&self) -> bool {
        self.properties.iter().all(|property| property.holds)
            && self.mutants_as_expected == Mutant::ALL.len()
            && self.unique_states >= UNIQUE_STATES_MIN
    }
}

fn properties_over(worlds: &[Checked]) -> Vec<PropertyReport> {
    let property = |(name, expectation)| match expectation {
        Expectation::Sometimes => {
            let holds = worlds.iter().any(|world| world.reached.contains(&name));
            PropertyReport { name, kind: "sometimes", holds }
        }
        Expectation::Always | Expectation::Eventually => {
            let mut violations = worlds.iter().flat_map(|world| &world.violations);
            let holds = !violations.any(|violation| violation.property == name);
            PropertyReport { name, kind: "always", holds }
        }
    };
    properties::all().into_iter().map(|each| (each.name, each.expectation)).map(property).collect()
}

/// Tries a mutant in its world, and the world without it.
pub fn check_mutant(mutant: Mutant, on_progress: &mut dyn FnMut(Progress)) -> MutantReport {
    let experiment = experiment(mutant);
    let whole = check(&experiment.world, on_progress);
    let mutilated = check(&experiment.world.clone().without_rule_of(mutant), on_progress);
    let is_expected = |violation: &&Violation| violation.property == experiment.expected;
    let expected = mutilated.violations.iter().find(is_expected);
    let caught = expected.or(mutilated.violations.first());
    let trace = caught.map(|violation| violation.trace.clone()).unwrap_or_default();
    MutantReport {
        name: mutant.name(),
        workers: mutilated.world.workers,
        crashes: mutilated.world.budget.crashes,
        unique_states: mutilated.unique_states,
        expected: experiment.expected,
        caught_by: caught.map(|violation| violation.property),
        trace_len: trace.len(),
        trace,
        holds_with_the_rule: whole.violations.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::small_variant;

    fn assert_caught(mutant: Mutant) {
        let report = check_mutant(mutant, &mut |_| {});
        assert!(report.is_as_expected(), "{report:#?}");
    }

    #[test]
    fn the_mutant_no_fence_on_commit_is_caught() {
        assert_caught(Mutant::NoFenceOnCommit);
    }

    #[test]
    fn the_mutant_no_intent_is_caught() {
        assert_caught(Mutant::NoIntent);
    }

    #[test]
    fn the_mutant_key_per_attempt_is_caught() {
        assert_caught(Mutant::KeyPerAttempt);
    }

    #[test]
    fn the_mutant_look_up_without_revoke_is_caught() {
        assert_caught(Mutant::LookUpWithoutRevoke);
    }

    #[test]
    fn the_mutant_look_up_without_drain_is_caught() {
        assert_caught(Mutant::LookUpWithoutDrain);
    }

    #[test]
    fn the_mutant_unguarded_cancel_is_caught() {
        assert_caught(Mutant::UnguardedCancel);
    }

    #[test]
    fn the_mutant_message_deleted_before_commit_is_caught() {
        assert_caught(Mutant::MessageDeletedBeforeCommit);
    }

    #[test]
    fn the_mutant_outbox_outside_the_transaction_is_caught() {
        assert_caught(Mutant::OutboxOutsideTheTransaction);
    }

    #[test]
    fn the_mutant_unconditional_decision_is_caught() {
        assert_caught(Mutant::UnconditionalDecision);
    }

    #[test]
    fn the_mutant_retry_on_unknown_outcome_is_caught() {
        assert_caught(Mutant::RetryOnUnknownOutcome);
    }

    #[test]
    fn a_small_world_is_too_small_for_a_good_report() {
        let variant = small_variant();
        let worlds = variant.worlds.iter().map(|world| check(world, &mut |_| {})).collect();
        let report = Report::new(&variant, worlds, Vec::new());
        assert_eq!(report.violations, 0);
        assert!(!report.all_is_well());
    }
}
