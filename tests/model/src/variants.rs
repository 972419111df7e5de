//! The worlds that are checked: the protocol's own, small, for every push and at length, and for each
//! mutant the smallest in which its rule is missed.

use crate::properties;
use crate::world::{Budget, Class, Mutant, Step, World};

const NATIVE_KEY: Step = Step::Act(Class::NativeKey);
const COMPARE_AND_SET: Step = Step::Act(Class::CompareAndSet);
const LOOK_UP: Step = Step::Act(Class::LookUp);
const OPAQUE: Step = Step::Act(Class::Opaque);
const READ: Step = Step::Act(Class::ReadOnly);

const NOTHING: Budget = Budget {
    crashes: 0,
    early_expiries: 0,
    duplicates: 0,
    lost_replies: 0,
    time_outs: 0,
    refusals: 0,
    directives: 0,
};
/// A worker dies.
const DEATH: Budget = Budget { crashes: 1, ..NOTHING };
/// Two workers die, or one dies twice.
const TWO_DEATHS: Budget = Budget { crashes: 2, ..NOTHING };
/// A worker freezes long enough for another to take its step.
const FREEZE: Budget = Budget { early_expiries: 1, ..NOTHING };
/// A worker hears nothing from a service.
const SILENCE: Budget = Budget { time_outs: 1, ..NOTHING };
/// Two workers die and one freezes.
const HARDSHIP: Budget = Budget { crashes: 2, ..FREEZE };

/// Worlds that are checked together.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The name used in reports.
    pub name: &'static str,
    /// Checked one after another.
    pub worlds: Vec<World>,
}

/// A few thousand states, for a test that runs in a moment.
pub fn small_variant() -> Variant {
    let worlds = vec![
        World::new("a frozen worker and a look-up", 2, &[LOOK_UP], FREEZE).with_cancel(),
        World::new("two deaths and two keys", 2, &[NATIVE_KEY, COMPARE_AND_SET], TWO_DEATHS),
        World::new("a death and a wait", 2, &[READ, Step::Wait, OPAQUE], DEATH),
    ];
    Variant { name: "small", worlds }
}

/// What runs on every push: in every world, three workers of which two die. The first is the largest and
/// has the longest way back from a death; the others are about one class or one race each.
pub fn ci_variant() -> Variant {
    let silent = Budget { time_outs: 1, ..HARDSHIP };
    let refused = Budget { refusals: 1, ..HARDSHIP };
    let unheard = Budget { lost_replies: 1, ..TWO_DEATHS };
    let worlds = vec![
        World::new("look-up", 3, &[LOOK_UP], silent).with_cancel(),
        World::new("native key", 3, &[NATIVE_KEY], refused).with_cancel(),
        World::new("compare-and-set", 3, &[COMPARE_AND_SET], unheard).with_cancel(),
        World::new("none", 3, &[OPAQUE], Budget { directives: 1, ..silent }).with_cancel(),
        World::new("two steps", 3, &[LOOK_UP, NATIVE_KEY], Budget { duplicates: 1, ..unheard }),
        World::new("wait", 3, &[READ, Step::Wait, NATIVE_KEY], TWO_DEATHS).with_cancel(),
    ];
    Variant { name: "ci", worlds }
}

/// What runs when there is time: the same, and worlds in which more goes wrong at once or runs are longer.
pub fn long_variant() -> Variant {
    let silent = Budget { time_outs: 1, ..HARDSHIP };
    let answered = Budget { directives: 1, ..TWO_DEATHS };
    let unheard = Budget { lost_replies: 1, ..TWO_DEATHS };
    let mortal = Budget { crashes: 3, refusals: 1, ..HARDSHIP };
    let mut worlds = ci_variant().worlds;
    worlds.extend([
        World::new("three deaths", 3, &[COMPARE_AND_SET], mortal).with_cancel(),
        World::new(
            "three steps",
            3,
            &[NATIVE_KEY, LOOK_UP, OPAQUE],
            Budget { early_expiries: 1, ..answered },
        ),
        World::new("two silent steps", 3, &[LOOK_UP, NATIVE_KEY], Budget { lost_replies: 1, ..silent }),
        World::new("effect, wait, effect", 3, &[NATIVE_KEY, Step::Wait, OPAQUE], answered).with_cancel(),
        World::new("unheard decisions", 3, &[READ, Step::Wait, NATIVE_KEY], unheard).with_cancel(),
        World::new("four workers", 4, &[LOOK_UP], silent).with_cancel(),
        World::new("a person twice", 3, &[OPAQUE], Budget { directives: 2, ..silent }).with_cancel(),
    ]);
    Variant { name: "long", worlds }
}

/// A mutant, the world in which it is tried, and the promise it must break there.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The rule that is taken out.
    pub mutant: Mutant,
    /// The world, with all its rules.
    pub world: World,
    /// The promise that the rule is there for.
    pub expected: &'static str,
}

/// The smallest world in which a mutant does its damage.
pub fn experiment(mutant: Mutant) -> Experiment {
    use properties as promise;
    let (workers, steps, budget, expected): (u8, &'static [Step], Budget, &str) = match mutant {
        Mutant::NoFenceOnCommit => (2, &[NATIVE_KEY], FREEZE, promise::STEP_ENDS_ONCE),
        Mutant::NoIntent => (1, &[OPAQUE], DEATH, promise::OPAQUE_AT_MOST_ONCE),
        Mutant::KeyPerAttempt => (1, &[NATIVE_KEY], DEATH, promise::EFFECT_AT_MOST_ONCE),
        Mutant::LookUpWithoutRevoke | Mutant::LookUpWithoutDrain => {
            (1, &[LOOK_UP], DEATH, promise::EFFECT_AT_MOST_ONCE)
        }
        Mutant::UnguardedCancel => (1, &[NATIVE_KEY], NOTHING, promise::CANCELED_HIDES_NOTHING),
        Mutant::MessageDeletedBeforeCommit => (1, &[NATIVE_KEY], DEATH, promise::REST_IS_SETTLED),
        Mutant::OutboxOutsideTheTransaction => (1, &[Step::Wait, READ], DEATH, promise::REST_IS_SETTLED),
        Mutant::UnconditionalDecision => (1, &[Step::Wait], NOTHING, promise::ANSWER_STAYS),
        Mutant::RetryOnUnknownOutcome => (1, &[OPAQUE], SILENCE, promise::OPAQUE_AT_MOST_ONCE),
    };
    let world = World::new(mutant.name(), workers, steps, budget);
    let cancel = mutant == Mutant::UnguardedCancel;
    Experiment { mutant, world: World { cancel, ..world }, expected }
}
