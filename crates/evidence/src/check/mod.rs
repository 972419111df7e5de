//! Consistency checks of a bundle.
//!
//! A signature proves who signed a bundle, not that its content is consistent. The holder of the key cannot bypass these
//! checks by signing again: the chain is complete, its events replay through the state machines, and every other record
//! matches the chain.

mod approvals;
pub(crate) mod effects;
mod machine;
mod outcomes;
mod run;

use domain::chain::{self, StoredEvent};
use domain::{Event, json};

use crate::bundle::{EvidenceBundle, FORMAT};
use crate::error::VerifyError;
use crate::verify::Check;

/// The events of the bundle, if every record matches them. Calls `passed` after each check that passes.
pub(crate) fn check(
    bundle: &EvidenceBundle,
    passed: &mut dyn FnMut(Check),
) -> Result<Vec<Event>, VerifyError> {
    if bundle.format != FORMAT {
        return Err(VerifyError::Format { found: bundle.format.clone() });
    }
    let events = events(bundle)?;
    passed(Check::Chain);
    let replay = machine::replay(&bundle.steps, &events)?;
    passed(Check::Transitions);
    run::check(bundle, &events, &replay)?;
    passed(Check::Run);
    outcomes::check(bundle, &events)?;
    passed(Check::Outcomes);
    approvals::check(bundle, &events)?;
    passed(Check::Approvals);
    effects::check(bundle, &events)?;
    passed(Check::Effects);
    outcomes::check_sums(bundle, &events)?;
    passed(Check::Costs);
    bundle.log.check_inclusion(&bundle.run)?;
    passed(Check::Inclusion);
    Ok(events)
}

/// The events of the chain, if it is complete.
fn events(bundle: &EvidenceBundle) -> Result<Vec<Event>, VerifyError> {
    let stored = |(event, hash)| StoredEvent { canonical: json::canonical(event), hash };
    let entries: Vec<_> = bundle.chain.iter().map(|entry| stored((&entry.event, entry.hash))).collect();
    let events = chain::verify(&bundle.run.key(), &entries, bundle.run.events, &bundle.run.head)?;
    for (event, entry) in events.iter().zip(&entries) {
        if json::canonical(event) != entry.canonical {
            return Err(VerifyError::UnknownField { n: event.n });
        }
    }
    Ok(events)
}

/// Checks that `sorted` is strictly ascending.
fn check_ascending<K: Ord>(what: &'static str, sorted: impl Iterator<Item = K>) -> Result<(), VerifyError> {
    if sorted.is_sorted_by(|one, next| one < next) { Ok(()) } else { Err(VerifyError::Order { what }) }
}

/// Checks all of `conditions`. The error names the first that is false.
fn check_all<F: FnOnce(&'static str) -> VerifyError>(
    conditions: &[(&'static str, bool)],
    error: F,
) -> Result<(), VerifyError> {
    match conditions.iter().find(|(_, holds)| !holds) {
        Some((what, _)) => Err(error(what)),
        None => Ok(()),
    }
}
