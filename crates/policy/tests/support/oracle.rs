//! The default policy a second time. It was written from the description below and not from the Rego, so
//! that a slip in either shows as a difference.
//!
//! - Reading is not judged; nothing is said about it.
//! - A run that has made all the changes it may make makes no more. Taking back is not counted.
//! - A mistake that would reach far, or an action that destroys something, needs two people in the highest
//!   tier, wherever it is.
//! - In production every change needs one person, in the tier of its blast radius. Taking back needs one as
//!   well, unless the recorded inverse does it, which is allowed.
//! - In dev and staging, what can be taken back is allowed, what cannot needs one person in the tier of its
//!   blast radius, and taking back is allowed.
//! - Whatever else there may be is denied.

use domain::plan::Environment;
use domain::{Blast, Demand, EffectClass, People, Reversibility, Ruling, Tier};

use crate::case::Case;

/// What the default policy should say.
pub(crate) fn ruling(case: &Case) -> Ruling {
    if case.action.class == EffectClass::ReadOnly {
        return Ruling::Deny;
    }
    if !case.undo && case.caps.writes_done >= case.caps.writes_max {
        return Ruling::Deny;
    }
    if case.blast == Blast::High || case.action.destructive {
        return people(Tier::High, People::Two);
    }
    match (case.undo, case.environment, &case.action.reversibility) {
        (true, Environment::Dev | Environment::Staging, _)
        | (true, Environment::Prod, Reversibility::Inverse)
        | (
            false,
            Environment::Dev | Environment::Staging,
            Reversibility::Inverse | Reversibility::Compensable,
        ) => Ruling::Allow,
        (_, Environment::Prod, _)
        | (false, Environment::Dev | Environment::Staging, Reversibility::Irreversible(_)) => {
            people(tier(case.blast), People::One)
        }
        (false, Environment::Dev | Environment::Staging, Reversibility::NoEffect) => Ruling::Deny,
    }
}

fn people(tier: Tier, people: People) -> Ruling {
    Ruling::NeedsApproval(Demand { tier, people, groups: Vec::new() })
}

fn tier(blast: Blast) -> Tier {
    match blast {
        Blast::Low => Tier::Low,
        Blast::Medium => Tier::Medium,
        Blast::High => Tier::High,
    }
}
