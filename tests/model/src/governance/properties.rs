//! The invariants, and the situations that must be reached.

use stateright::Property;

use super::oracle::{Seen, flag};
use super::world::{Governance, World};

pub(crate) const APPROVED: &str = "policy allows an effect, or enough people approved it";
pub(crate) const NOT_SHAPED: &str = "no approver of an effect shaped it";
pub(crate) const EXACT_ACTION: &str = "an approval covers one action under one policy";
pub(crate) const PRESENT: &str = "only people in the directory decide, also after the decision";
pub(crate) const REPEAT_APPROVED: &str = "an unknown outcome is repeated only with a new approval";
pub(crate) const REJECTION_SHOWN: &str = "a request after a rejection names it";
pub(crate) const ATTEMPT_SHOWN: &str = "a request to repeat an unknown outcome says so";

pub(crate) fn all() -> Vec<Property<Governance>> {
    fn broken(world: &World, flag: u16) -> bool {
        world.oracle.broken & flag == 0
    }
    let invariants = vec![
        Property::always(APPROVED, |_, world| broken(world, flag::UNAPPROVED)),
        Property::always(NOT_SHAPED, |_, world| broken(world, flag::SHAPED)),
        Property::always(EXACT_ACTION, |_, world| broken(world, flag::OTHER_ACTION)),
        Property::always(PRESENT, |_, world| broken(world, flag::REMOVED)),
        Property::always(REPEAT_APPROVED, |_, world| broken(world, flag::REPEATED)),
        Property::always(REJECTION_SHOWN, |_, world| broken(world, flag::REJECTION_HIDDEN)),
        Property::always(ATTEMPT_SHOWN, |_, world| broken(world, flag::ATTEMPT_HIDDEN)),
    ];
    invariants.into_iter().chain(situations()).collect()
}

fn situations() -> Vec<Property<Governance>> {
    fn seen(world: &World) -> &Seen {
        &world.oracle.seen
    }
    vec![
        Property::sometimes("an effect that policy allows", |_, world| {
            seen(world).effect && seen(world).need == 0
        }),
        Property::sometimes("an effect that one person approved", |_, world| {
            seen(world).effect && seen(world).need == 1
        }),
        Property::sometimes("an effect that two people approved", |_, world| {
            seen(world).effect && seen(world).need == 2
        }),
        Property::sometimes("an approved effect is continued", |_, world| {
            seen(world).continued && seen(world).need > 0
        }),
        Property::sometimes("an approved rollback", |_, world| seen(world).rollback && seen(world).need > 0),
        Property::sometimes("a recorded inverse", |_, world| {
            seen(world).effect && seen(world).rollback && seen(world).need == 0
        }),
        Property::sometimes("an approved undo of an ended run", |_, world| seen(world).undo),
        Property::sometimes("an unknown outcome is repeated", |_, world| {
            seen(world).again && seen(world).need > 0
        }),
        Property::sometimes("an effect after a rejection", |_, world| seen(world).after_rejection),
        Property::sometimes("an approval without a person who had voted", |_, world| {
            seen(world).without_a_voter
        }),
    ]
}
