//! The invariants, and the situations that must be reached.

use stateright::Property;

use super::oracle::{Situation, flag};
use super::state::{Governance, State};

pub(crate) const APPROVED: &str = "policy allows an effect, or enough people approved it";
pub(crate) const NOT_SHAPED: &str = "no approver of an effect shaped it";
pub(crate) const EXACT_ACTION: &str = "an approval covers one action under one policy";
pub(crate) const PRESENT: &str = "only people in the directory decide, also after the decision";
pub(crate) const REPEAT_APPROVED: &str = "an unknown outcome is repeated only with a new approval";
pub(crate) const REJECTION_SHOWN: &str = "a request after a rejection names it";
pub(crate) const ATTEMPT_SHOWN: &str = "a request to repeat an unknown outcome says so";

pub(crate) fn all() -> Vec<Property<Governance>> {
    fn holds(state: &State, flag: u16) -> bool {
        state.oracle.broken & flag == 0
    }
    let invariants = vec![
        Property::always(APPROVED, |_, state| holds(state, flag::UNAPPROVED)),
        Property::always(NOT_SHAPED, |_, state| holds(state, flag::SHAPED)),
        Property::always(EXACT_ACTION, |_, state| holds(state, flag::OTHER_ACTION)),
        Property::always(PRESENT, |_, state| holds(state, flag::REMOVED)),
        Property::always(REPEAT_APPROVED, |_, state| holds(state, flag::REPEATED)),
        Property::always(REJECTION_SHOWN, |_, state| holds(state, flag::REJECTION_HIDDEN)),
        Property::always(ATTEMPT_SHOWN, |_, state| holds(state, flag::ATTEMPT_HIDDEN)),
    ];
    invariants.into_iter().chain(situations()).collect()
}

fn situations() -> Vec<Property<Governance>> {
    fn situation(state: &State) -> &Situation {
        &state.oracle.seen
    }
    vec![
        Property::sometimes("an effect that policy allows", |_, state| {
            situation(state).effect && situation(state).need == 0
        }),
        Property::sometimes("an effect that one person approved", |_, state| {
            situation(state).effect && situation(state).need == 1
        }),
        Property::sometimes("an effect that two people approved", |_, state| {
            situation(state).effect && situation(state).need == 2
        }),
        Property::sometimes("an approved effect is continued", |_, state| {
            situation(state).continued && situation(state).need > 0
        }),
        Property::sometimes("an approved rollback", |_, state| {
            situation(state).rollback && situation(state).need > 0
        }),
        Property::sometimes("a recorded inverse", |_, state| {
            situation(state).effect && situation(state).rollback && situation(state).need == 0
        }),
        Property::sometimes("an approved undo of an ended run", |_, state| situation(state).undo),
        Property::sometimes("an unknown outcome is repeated", |_, state| {
            situation(state).again && situation(state).need > 0
        }),
        Property::sometimes("an effect after a rejection", |_, state| situation(state).after_rejection),
        Property::sometimes("an approval without a person who had voted", |_, state| {
            situation(state).without_a_voter
        }),
    ]
}
