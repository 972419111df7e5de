//! What holds for every chain: nothing can be changed in it without showing.

use domain::ChainFault;
use domain::Digest;
use domain::chain::{StoredEvent, verify};
use domain::{RunId, RunKey, TenantId};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::cases;
use crate::story::any_story;
use crate::world::{Run, World};

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_flipped_bit_shows(story in any_story(), entry in any::<Index>(), byte in any::<Index>(), bit in 0..8_u8) {
        let mut run = told(&story);
        let entry = entry.get(&run.chain).clone();
        let at = run.chain.iter().position(|other| *other == entry).unwrap();
        let byte = byte.index(entry.canonical.len() + 32);
        flip(&mut run.chain[at], byte, bit);
        prop_assert!(faulty(&run));
    }

    #[test]
    fn a_dropped_entry_shows(story in any_story(), entry in any::<Index>()) {
        let mut run = told(&story);
        run.chain.remove(entry.index(run.chain.len()));
        prop_assert!(faulty(&run));
    }

    #[test]
    fn a_tail_that_is_cut_off_shows(story in any_story(), kept in any::<Index>()) {
        let mut run = told(&story);
        run.chain.truncate(kept.index(run.chain.len()));
        prop_assert!(ends_elsewhere(&run));
    }

    #[test]
    fn entries_that_change_places_show(story in any_story(), a in any::<Index>(), b in any::<Index>()) {
        let mut run = told(&story);
        let (a, b) = (a.index(run.chain.len()), b.index(run.chain.len()));
        run.chain.swap(a, b);
        prop_assert_eq!(faulty(&run), a != b);
    }

    #[test]
    fn a_doubled_entry_shows(story in any_story(), entry in any::<Index>()) {
        let mut run = told(&story);
        let at = entry.index(run.chain.len());
        run.chain.insert(at, run.chain[at].clone());
        prop_assert!(faulty(&run));
    }

    #[test]
    fn a_chain_is_of_one_run_of_one_tenant(story in any_story()) {
        let run = told(&story);
        let own = run.record.key.clone();
        let other_run = RunKey { run: RunId::new("other").unwrap(), ..own.clone() };
        let other_tenant = RunKey { tenant: TenantId::new("other").unwrap(), ..own };
        for other in [other_run, other_tenant] {
            let fault = verify(&other, &run.chain, run.record.events, &run.record.head);
            prop_assert_eq!(fault.unwrap_err(), ChainFault::Altered { n: 0 });
        }
    }

    #[test]
    fn a_tail_that_was_written_anew_shows_at_the_head(story in any_story(), from in any::<Index>()) {
        let mut run = told(&story);
        rewrite(&mut run, from);
        prop_assert!(ends_elsewhere(&run));
    }
}

fn told(story: &crate::story::Story) -> Run {
    World::tell(story, |_, _| {}).runs.remove(0)
}

fn verified(run: &Run) -> Result<(), ChainFault> {
    verify(&run.record.key, &run.chain, run.record.events, &run.record.head).map(|_| ())
}

fn faulty(run: &Run) -> bool {
    verified(run).is_err()
}

fn ends_elsewhere(run: &Run) -> bool {
    matches!(verified(run), Err(ChainFault::Head { .. }))
}

fn flip(entry: &mut StoredEvent, byte: usize, bit: u8) {
    let in_hash = byte.checked_sub(entry.canonical.len());
    match in_hash {
        Some(byte) => {
            let mut hash = *entry.hash.as_bytes();
            hash[byte] ^= 1 << bit;
            entry.hash = Digest::from(hash);
        }
        None => entry.canonical[byte] ^= 1 << bit,
    }
}

/// A forger with all the rules at hand changes one event and seals everything after it again.
fn rewrite(run: &mut Run, from: Index) {
    let events = verify(&run.record.key, &run.chain, run.record.events, &run.record.head).unwrap();
    let from = from.index(events.len());
    let mut before = Digest::ZERO;
    for (n, mut event) in events.into_iter().enumerate() {
        if n == from {
            event.by.id.push('x');
        }
        let sealed = domain::chain::seal(&run.record.key, &before, event);
        before = sealed.hash;
        run.chain[n] = StoredEvent { canonical: sealed.canonical, hash: sealed.hash };
    }
}
