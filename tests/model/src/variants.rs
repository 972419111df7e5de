//! The configurations: small ones for tests, the ones for CI, the long ones, and for each mutant the smallest
//! that catches it.

use crate::config::{Budget, Class, Config, Mutant, Step};
use crate::properties;

const NATIVE_KEY: Step = Step::Act(Class::NativeKey);
const COMPARE_AND_SET: Step = Step::Act(Class::CompareAndSet);
const LOOK_UP: Step = Step::Act(Class::LookUp);
const OPAQUE: Step = Step::Act(Class::Opaque);
const READ: Step = Step::Act(Class::ReadOnly);

const NO_FAULTS: Budget = Budget {
    crashes: 0,
    early_expiries: 0,
    duplicates: 0,
    lost_replies: 0,
    time_outs: 0,
    refusals: 0,
    directives: 0,
};
const ONE_CRASH: Budget = Budget { crashes: 1, ..NO_FAULTS };
const TWO_CRASHES: Budget = Budget { crashes: 2, ..NO_FAULTS };
/// A worker freezes long enough for another to take over its step.
const FREEZE: Budget = Budget { early_expiries: 1, ..NO_FAULTS };
/// A worker gets no answer from a service.
const TIME_OUT: Budget = Budget { time_outs: 1, ..NO_FAULTS };
const TWO_CRASHES_AND_FREEZE: Budget = Budget { crashes: 2, ..FREEZE };

/// With fewer states the configurations are too small to be meaningful.
const UNIQUE_STATES_MIN: usize = 1_000_000;

/// Configurations that are checked together.
#[derive(Clone, Debug)]
pub(crate) struct Variant<C> {
    pub name: &'static str,
    pub unique_states_min: usize,
    pub configs: Vec<C>,
}

/// A few thousand states, for a fast test.
#[cfg(test)]
pub(crate) fn small_variant() -> Variant<Config> {
    let configs = vec![
        Config::new("look-up, frozen worker", 2, &[LOOK_UP], FREEZE).with_cancel(),
        Config::new("two crashes, two steps", 2, &[NATIVE_KEY, COMPARE_AND_SET], TWO_CRASHES),
        Config::new("one crash, wait", 2, &[READ, Step::Wait, OPAQUE], ONE_CRASH),
    ];
    Variant { name: "small", unique_states_min: UNIQUE_STATES_MIN, configs }
}

/// The configurations for every push: three workers with two crashes in each. The first is the largest and has
/// the longest recovery from a crash; the others cover one class or one race each.
pub(crate) fn ci_variant() -> Variant<Config> {
    let timed_out = Budget { time_outs: 1, ..TWO_CRASHES_AND_FREEZE };
    let refused = Budget { refusals: 1, ..TWO_CRASHES_AND_FREEZE };
    let reply_lost = Budget { lost_replies: 1, ..TWO_CRASHES };
    let configs = vec![
        Config::new("look-up", 3, &[LOOK_UP], timed_out).with_cancel(),
        Config::new("native key", 3, &[NATIVE_KEY], refused).with_cancel(),
        Config::new("compare-and-set", 3, &[COMPARE_AND_SET], reply_lost).with_cancel(),
        Config::new("opaque", 3, &[OPAQUE], Budget { directives: 1, ..timed_out }).with_cancel(),
        Config::new("two steps", 3, &[LOOK_UP, NATIVE_KEY], Budget { duplicates: 1, ..reply_lost }),
        Config::new("wait", 3, &[READ, Step::Wait, NATIVE_KEY], TWO_CRASHES).with_cancel(),
    ];
    Variant { name: "ci", unique_states_min: UNIQUE_STATES_MIN, configs }
}

/// The CI configurations, and others with more faults at once or longer runs.
pub(crate) fn long_variant() -> Variant<Config> {
    let timed_out = Budget { time_outs: 1, ..TWO_CRASHES_AND_FREEZE };
    let one_directive = Budget { directives: 1, ..TWO_CRASHES };
    let reply_lost = Budget { lost_replies: 1, ..TWO_CRASHES };
    let three_crashes = Budget { crashes: 3, refusals: 1, ..TWO_CRASHES_AND_FREEZE };
    let mut configs = ci_variant().configs;
    configs.extend([
        Config::new("three crashes", 3, &[COMPARE_AND_SET], three_crashes).with_cancel(),
        Config::new(
            "three steps",
            3,
            &[NATIVE_KEY, LOOK_UP, OPAQUE],
            Budget { early_expiries: 1, ..one_directive },
        ),
        Config::new(
            "two steps, time-out",
            3,
            &[LOOK_UP, NATIVE_KEY],
            Budget { lost_replies: 1, ..timed_out },
        ),
        Config::new("effect, wait, effect", 3, &[NATIVE_KEY, Step::Wait, OPAQUE], one_directive)
            .with_cancel(),
        Config::new("decisions, lost reply", 3, &[READ, Step::Wait, NATIVE_KEY], reply_lost).with_cancel(),
        Config::new("four workers", 4, &[LOOK_UP], timed_out).with_cancel(),
        Config::new("two person decisions", 3, &[OPAQUE], Budget { directives: 2, ..timed_out })
            .with_cancel(),
    ]);
    Variant { name: "long", unique_states_min: UNIQUE_STATES_MIN, configs }
}

/// A configuration with and without a mutant, and the invariant that the mutant must violate there.
#[derive(Clone, Debug)]
pub(crate) struct Experiment<C> {
    pub config: C,
    pub mutated: C,
    /// The invariant that the removed rule protects.
    pub expected: &'static str,
}

/// The smallest configuration in which the mutant violates its invariant.
pub(crate) fn experiment(mutant: Mutant) -> Experiment<Config> {
    use properties as invariant;
    let (workers, steps, budget, expected): (u8, &'static [Step], Budget, &str) = match mutant {
        Mutant::NoFenceOnCommit => (2, &[NATIVE_KEY], FREEZE, invariant::STEP_ENDS_ONCE),
        Mutant::NoIntent => (1, &[OPAQUE], ONE_CRASH, invariant::OPAQUE_AT_MOST_ONCE),
        Mutant::KeyPerAttempt => (1, &[NATIVE_KEY], ONE_CRASH, invariant::EFFECT_AT_MOST_ONCE),
        Mutant::LookUpWithoutRevoke | Mutant::LookUpWithoutDrain => {
            (1, &[LOOK_UP], ONE_CRASH, invariant::EFFECT_AT_MOST_ONCE)
        }
        Mutant::UnguardedCancel => (1, &[NATIVE_KEY], NO_FAULTS, invariant::CANCELED_HIDES_NOTHING),
        Mutant::MessageDeletedBeforeCommit => (1, &[NATIVE_KEY], ONE_CRASH, invariant::IDLE_RUN_IS_RESOLVED),
        Mutant::OutboxOutsideTheTransaction => {
            (1, &[Step::Wait, READ], ONE_CRASH, invariant::IDLE_RUN_IS_RESOLVED)
        }
        Mutant::UnconditionalDecision => (1, &[Step::Wait], NO_FAULTS, invariant::DECISION_IS_FINAL),
        Mutant::RetryOnUnknownOutcome => (1, &[OPAQUE], TIME_OUT, invariant::OPAQUE_AT_MOST_ONCE),
    };
    let config = Config::new(mutant.name(), workers, steps, budget);
    let config = Config { cancel: mutant == Mutant::UnguardedCancel, ..config };
    Experiment { mutated: config.clone().with_mutant(mutant), config, expected }
}
