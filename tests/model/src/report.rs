//! The report over all configurations and mutants, and its verdict.

use serde::Serialize;
use stateright::{Expectation, Model};

use crate::check::{CheckResult, Explorable, Progress, Violation, check};
use crate::variants::{Experiment, Variant};

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
    /// With fewer states the configurations are too small to be meaningful.
    pub unique_states_min: usize,
    /// The longest trace of any configuration, in states.
    pub max_depth: usize,
    pub properties: Vec<PropertyReport>,
    pub violations: usize,
    pub violation_reports: Vec<Violation>,
    pub configs: Vec<CheckResult>,
    pub mutants: usize,
    pub mutants_as_expected: usize,
    pub mutant_reports: Vec<MutantReport>,
}

impl Report {
    pub(crate) fn new<C: Explorable>(
        variant: &Variant<C>,
        configs: Vec<CheckResult>,
        mutant_reports: Vec<MutantReport>,
    ) -> Self {
        let violation_reports: Vec<_> = configs.iter().flat_map(|config| config.violations.clone()).collect();
        Self {
            variant: variant.name,
            unique_states: configs.iter().map(|config| config.unique_states).sum(),
            unique_states_min: variant.unique_states_min,
            max_depth: configs.iter().map(|config| config.max_depth).max().unwrap_or(0),
            properties: properties_over(variant, &configs),
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
            && self.mutants > 0
            && self.mutants_as_expected == self.mutants
            && self.unique_states >= self.unique_states_min
    }
}

fn properties_over<C: Explorable>(variant: &Variant<C>, configs: &[CheckResult]) -> Vec<PropertyReport> {
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
    let all = variant.configs.first().map(|config| config.model().properties()).unwrap_or_default();
    all.into_iter().map(|each| (each.name, each.expectation)).map(property).collect()
}

/// An event that [`run`] reports.
#[derive(Clone, Copy, Debug)]
pub enum CheckEvent<'a> {
    Progress(Progress),
    Checked(&'a CheckResult),
}

/// Checks every configuration of the variant and every mutant.
pub(crate) fn run<C: Explorable>(
    variant: &Variant<C>,
    experiments: &[Experiment<C>],
    on_event: &mut dyn FnMut(CheckEvent<'_>),
) -> Report {
    let configs = variant.configs.iter().map(|config| {
        let checked = check(config, &mut |progress| on_event(CheckEvent::Progress(progress)));
        on_event(CheckEvent::Checked(&checked));
        checked
    });
    let configs = configs.collect();
    let mutant =
        |experiment| check_mutant(experiment, &mut |progress| on_event(CheckEvent::Progress(progress)));
    let mutants = experiments.iter().map(mutant).collect();
    Report::new(variant, configs, mutants)
}

/// Checks a mutant's configuration with and without the mutant.
pub(crate) fn check_mutant<C: Explorable>(
    experiment: &Experiment<C>,
    on_progress: &mut dyn FnMut(Progress),
) -> MutantReport {
    let unmutated = check(&experiment.config, on_progress);
    let mutated = check(&experiment.mutated, on_progress);
    let is_expected = |violation: &&Violation| violation.property == experiment.expected;
    let expected = mutated.violations.iter().find(is_expected);
    let caught = expected.or(mutated.violations.first());
    let trace = caught.map(|violation| violation.trace.clone()).unwrap_or_default();
    MutantReport {
        name: experiment.config.name(),
        unique_states: mutated.unique_states,
        expected: experiment.expected,
        caught_by: caught.map(|violation| violation.property),
        trace_len: trace.len(),
        trace,
        holds_with_the_rule: unmutated.violations.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mutant;
    use crate::variants::{experiment, small_variant};

    fn assert_caught(mutant: Mutant) {
        let report = check_mutant(&experiment(mutant), &mut |_| {});
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
