//! What must hold within a bundle, whoever signed it.
//!
//! A signature says who vouches for a bundle, not that it makes sense. These rules are what a holder of the
//! key cannot get around by signing again: the chain is whole, it tells a story that the machines allow,
//! and everything else in the bundle says the same as the chain.

mod approvals;
pub(crate) mod effects;
mod machine;
mod outcomes;
mod run;

use domain::chain::{self, StoredEvent};
use domain::{Event, json};

use crate::bundle::{Bundle, FORMAT};
use crate::fault::Fault;
use crate::verify::Check;

/// The events of the bundle, if everything in it agrees with them; tells `held` of each check that passed.
pub(crate) fn check(bundle: &Bundle, held: &mut dyn FnMut(Check)) -> Result<Vec<Event>, Fault> {
    if bundle.format != FORMAT {
        return Err(Fault::Format { found: bundle.format.clone() });
    }
    let events = events(bundle)?;
    held(Check::Chain);
    let stand = machine::walk(&bundle.steps, &events)?;
    held(Check::Story);
    run::check(bundle, &events, &stand)?;
    held(Check::Run);
    outcomes::check(bundle, &events)?;
    held(Check::Outcomes);
    approvals::check(bundle, &events)?;
    held(Check::Approvals);
    effects::check(bundle, &events)?;
    held(Check::Effects);
    outcomes::check_sums(bundle)?;
    held(Check::Costs);
    bundle.log.check_inclusion(&bundle.run)?;
    held(Check::Inclusion);
    Ok(events)
}

/// The events of the chain, if it is whole.
fn events(bundle: &Bundle) -> Result<Vec<Event>, Fault> {
    let stored = |(event, hash)| StoredEvent { canonical: json::canonical(event), hash };
    let entries: Vec<_> = bundle.chain.iter().map(|entry| stored((&entry.event, entry.hash))).collect();
    let events = chain::verify(&bundle.run.key(), &entries, bundle.run.events, &bundle.run.head)?;
    for (event, entry) in events.iter().zip(&entries) {
        if json::canonical(event) != entry.canonical {
            return Err(Fault::UnknownField { n: event.n });
        }
    }
    Ok(events)
}

/// Refuses unless `sorted` ascends strictly.
fn ascending<K: Ord>(what: &'static str, sorted: impl Iterator<Item = K>) -> Result<(), Fault> {
    if sorted.is_sorted_by(|one, next| one < next) { Ok(()) } else { Err(Fault::Order { what }) }
}

/// Refuses with the first of `facts` that is not so.
fn all<F: FnOnce(&'static str) -> Fault>(facts: &[(&'static str, bool)], fault: F) -> Result<(), Fault> {
    match facts.iter().find(|(_, holds)| !holds) {
        Some((what, _)) => Err(fault(what)),
        None => Ok(()),
    }
}
