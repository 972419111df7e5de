//! Properties of chains: every change is detected.

use domain::ChainError;
use domain::Digest;
use domain::chain::{StoredEvent, verify};
use domain::{RunId, RunKey, TenantId};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::cases;
use crate::env::{LedgerEnv, Run};
use crate::scenario::any_scenario;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn flipped_bit_is_detected(scenario in any_scenario(), entry in any::<Index>(), byte in any::<Index>(), bit in 0..8_u8) {
        let mut run = run_scenario(&scenario);
        let entry = entry.get(&run.chain).clone();
        let at = run.chain.iter().position(|other| *other == entry).unwrap();
        let byte = byte.index(entry.canonical.len() + 32);
        flip(&mut run.chain[at], byte, bit);
        prop_assert!(faulty(&run));
    }

    #[test]
    fn dropped_event_is_detected(scenario in any_scenario(), entry in any::<Index>()) {
        let mut run = run_scenario(&scenario);
        run.chain.remove(entry.index(run.chain.len()));
        prop_assert!(faulty(&run));
    }

    #[test]
    fn truncated_chain_is_detected(scenario in any_scenario(), kept in any::<Index>()) {
        let mut run = run_scenario(&scenario);
        run.chain.truncate(kept.index(run.chain.len()));
        prop_assert!(ends_elsewhere(&run));
    }

    #[test]
    fn reordered_events_are_detected(scenario in any_scenario(), a in any::<Index>(), b in any::<Index>()) {
        let mut run = run_scenario(&scenario);
        let (a, b) = (a.index(run.chain.len()), b.index(run.chain.len()));
        run.chain.swap(a, b);
        prop_assert_eq!(faulty(&run), a != b);
    }

    #[test]
    fn duplicated_event_is_detected(scenario in any_scenario(), entry in any::<Index>()) {
        let mut run = run_scenario(&scenario);
        let at = entry.index(run.chain.len());
        run.chain.insert(at, run.chain[at].clone());
        prop_assert!(faulty(&run));
    }

    #[test]
    fn chain_of_another_run_or_tenant_is_rejected(scenario in any_scenario()) {
        let run = run_scenario(&scenario);
        let own = run.record.key.clone();
        let other_run = RunKey { run: RunId::new("other").unwrap(), ..own.clone() };
        let other_tenant = RunKey { tenant: TenantId::new("other").unwrap(), ..own };
        for other in [other_run, other_tenant] {
            let fault = verify(&other, &run.chain, run.record.events, &run.record.head);
            prop_assert_eq!(fault.unwrap_err(), ChainError::Altered { n: 0 });
        }
    }

    #[test]
    fn rewritten_tail_changes_the_head(scenario in any_scenario(), from in any::<Index>()) {
        let mut run = run_scenario(&scenario);
        rewrite(&mut run, from);
        prop_assert!(ends_elsewhere(&run));
    }
}

fn run_scenario(scenario: &crate::scenario::Scenario) -> Run {
    LedgerEnv::run(scenario, |_, _| {}).runs.remove(0)
}

fn verified(run: &Run) -> Result<(), ChainError> {
    verify(&run.record.key, &run.chain, run.record.events, &run.record.head).map(|_| ())
}

fn faulty(run: &Run) -> bool {
    verified(run).is_err()
}

fn ends_elsewhere(run: &Run) -> bool {
    matches!(verified(run), Err(ChainError::Head { .. }))
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

/// A forger changes one event and computes all later hashes again.
fn rewrite(run: &mut Run, from: Index) {
    let events = verify(&run.record.key, &run.chain, run.record.events, &run.record.head).unwrap();
    let from = from.index(events.len());
    let mut before = Digest::ZERO;
    for (n, mut event) in events.into_iter().enumerate() {
        if n == from {
            event.by.id.push('x');
        }
        let chained = domain::chain::chain_event(&run.record.key, &before, event);
        before = chained.hash;
        run.chain[n] = StoredEvent { canonical: chained.canonical, hash: chained.hash };
    }
}
