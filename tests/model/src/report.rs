//! The report over all configurations and mutants, and its verdict.

use serde::Serialize;
use stateright::Expectation;

use crate::check::{CheckResult, Progress, Violation, check};
use crate::config::Mutant;
use crate::properties;
use crate::variants::{Variant, experiment};

/// With fewer states the configurations are too small to be meaningful.
pub const UNIQUE_STATES_MIN: usize = 1_000_000;

/// A property over all configurations of a variant.
#[derive(Clone, Debug, Serialize)]
pub struct PropertyReport {
    pub name: &'static str,
    /// `always` for an invariant, `sometimes` for a situation.
    pub kind: &'static str,
    /// The invariant holds in every configuration, or the situation was reached in one.
    pub holds: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct MutantReport {
    pub name: &'static str,
    pub workers: u8,
    pub crashes: u8,
    /// States of the configuration with the mutant.
    pub unique_states: usize,
    /// The invariant that the mutant must violate.
    pub expected: &'static str,
    /// The invariant that it does violate: the expected one, or the first of others.
    pub caught_by: Option<&'static str>,
    pub trace_len: usize,
    pub trace: Vec<String>,
    /// Without the mutant, the same configuration holds every invariant.
    pub holds_with_the_rule: bool,
}

impl MutantReport {
    /// Whether the mutant violates the expected invariant, and the configuration holds without the mutant.
    pub fn is_as_expected(&self) -> bool {
        self.caught_by == Some(self.expected) && self.holds_with_the_rule
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub variant: &'static str,
    /// The sum over all configurations.
    pub unique_states: usize,
    /// The longest trace of any configuration, in states.
    pub max_depth: usize,
    /// The smallest number of workers of any configuration.
    pub workers: u8,
    /// The smallest crash budget of any configuration.
    pub crashes: u8,
    pub properties: Vec<PropertyReport>,
    pub violations: usize,
    pub violation_reports: Vec<Violation>,
    pub configs: Vec<CheckResult>,
    pub mutants: usize,
    pub mutants_as_expected: usize,
    pub mutant_reports: Vec<MutantReport>,
}

impl Report {
    pub fn new(variant: &Variant, configs: Vec<CheckResult>, mutant_reports: Vec<MutantReport>) -> Self {
        let violation_reports: Vec<_> = configs.iter().flat_map(|config| config.violations.clone()).collect();
        Self {
            variant: variant.name,
            unique_states: configs.iter().map(|config| config.unique_states).sum(),
            max_depth: configs.iter().map(|config| config.max_depth).max().unwrap_or(0),
            workers: configs.iter().map(|checked| checked.config.workers).min().unwrap_or(0),
            crashes: configs.iter().map(|checked| checked.config.budget.crashes).min().unwrap_or(0),
            properties: properties_over(&configs),
            violations: violation_reports.len(),
            violation_reports,
            mutants: mutant_reports.len(),
            mutants_as_expected: mutant_reports.iter().filter(|mutant| mutant.is_as_expected()).count(),
            mutant_reports,
            configs,
        }
    }

    /// Whether every invariant holds, every situation was reached, every mutant was caught, and the configurations
    /// were large enough.
    pub fn passed(&self) -> bool {
        self.properties.iter().all(|property| property.holds)
            && self.mutants_as_expected == Mutant::ALL.len()
            && self.unique_states >= UNIQUE_STATES_MIN
    }
}

fn properties_over(configs: &[CheckResult]) -> Vec<PropertyReport> {
    let property = |(name, expectation)| match expectation {
        Expectation::Sometimes => {
            let holds = configs.iter().any(|config| config.reached.contains(&name));
            PropertyReport { name, kind: "sometimes", holds }
        }
        Expectation::Always | Expectation::Eventually => {
            let mut violations = configs.iter().flat_map(|config| &config.violations);
            let holds = !violations.any(|violation| violation.property == name);
            PropertyReport { name, kind: "always", holds }
        }
    };
    properties::all().into_iter().map(|each| (each.name, each.expectation)).map(property).collect()
}

/// Checks the mutant's configuration with and without the mutant.
pub fn check_mutant(mutant: Mutant, on_progress: &mut dyn FnMut(Progress)) -> MutantReport {
    let experiment = experiment(mutant);
    let whole = check(&experiment.config, on_progress);
    let mutated = check(&experiment.config.clone().with_mutant(mutant), on_progress);
    let is_expected = |violation: &&Violation| violation.property == experiment.expected;
    let expected = mutated.violations.iter().find(is_expected);
    let caught = expected.or(mutated.violations.first());
    let trace = caught.map(|violation| violation.trace.clone()).unwrap_or_default();
    MutantReport {
        name: mutant.name(),
        workers: mutated.config.workers,
        crashes: mutated.config.budget.crashes,
        unique_states: mutated.unique_states,
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
    fn mutant_no_fence_on_commit_is_caught() {
        assert_caught(Mutant::NoFenceOnCommit);
    }

    #[test]
    fn mutant_no_intent_is_caught() {
        assert_caught(Mutant::NoIntent);
    }

    #[test]
    fn mutant_key_per_attempt_is_caught() {
        assert_caught(Mutant::KeyPerAttempt);
    }

    #[test]
    fn mutant_look_up_without_revoke_is_caught() {
        assert_caught(Mutant::LookUpWithoutRevoke);
    }

    #[test]
    fn mutant_look_up_without_drain_is_caught() {
        assert_caught(Mutant::LookUpWithoutDrain);
    }

    #[test]
    fn mutant_unguarded_cancel_is_caught() {
        assert_caught(Mutant::UnguardedCancel);
    }

    #[test]
    fn mutant_message_deleted_before_commit_is_caught() {
        assert_caught(Mutant::MessageDeletedBeforeCommit);
    }

    #[test]
    fn mutant_outbox_outside_the_transaction_is_caught() {
        assert_caught(Mutant::OutboxOutsideTheTransaction);
    }

    #[test]
    fn mutant_unconditional_decision_is_caught() {
        assert_caught(Mutant::UnconditionalDecision);
    }

    #[test]
    fn mutant_retry_on_unknown_outcome_is_caught() {
        assert_caught(Mutant::RetryOnUnknownOutcome);
    }

    #[test]
    fn small_configurations_do_not_pass() {
        let variant = small_variant();
        let configs = variant.configs.iter().map(|config| check(config, &mut |_| {})).collect();
        let report = Report::new(&variant, configs, Vec::new());
        assert_eq!(report.violations, 0);
        assert!(!report.passed());
    }
}
