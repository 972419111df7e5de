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

/// The events of the bundle, if everything in it agrees with them.
pub(crate) fn check(bundle: &Bundle) -> Result<Vec<Event>, Fault> {
    if bundle.format != FORMAT {
        return Err(Fault::Format { found: bundle.format.clone() });
    }
    let events = events(bundle)?;
    let stand = machine::walk(&bundle.steps, &events)?;
    run::check(bundle, &events, &stand)?;
    outcomes::check(bundle, &events)?;
    approvals::check(bundle, &events)?;
    effects::check(bundle, &events)?;
    outcomes::check_sums(bundle)?;
    bundle.log.check_inclusion(&bundle.run)?;
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
