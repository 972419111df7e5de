//! Properties of effects: which are performed, repeated, and counted as unknown.

use std::collections::BTreeSet;

use domain::command::{AttemptMode, Grant};
use domain::receipt::ReceiptState;
use domain::{EffectClass, IdempotencyKey, Receipt, StepRecord, StepStatus};
use proptest::prelude::*;

use crate::cases;
use crate::env::{LedgerEnv, Outcome, Run, open_intent};
use crate::scenario::any_scenario;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn opaque_effect_repeats_only_with_authorization(scenario in any_scenario()) {
        let mut may_have_happened = BTreeSet::new();
        LedgerEnv::run(&scenario, |_, commit| match &commit.outcome {
            Outcome::Granted(grant) => {
                if let Some(key) = performs_opaque(grant) {
                    assert!(may_have_happened.insert(key.clone()), "{key} is done again");
                }
            }
            Outcome::DidNotHappen(key) | Outcome::MayHappenAgain(key) => {
                may_have_happened.remove(key);
            }
            Outcome::Nothing => {}
        });
    }

    #[test]
    fn performed_effect_is_never_repeated(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            for replaced in commit.replaced.iter().flatten() {
                assert!(!is_done(replaced), "{replaced:?}");
            }
        });
    }

    #[test]
    fn intent_of_another_step_is_never_continued(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |_, commit| {
            for (change, replaced) in commit.decision.receipts.iter().zip(&commit.replaced) {
                let Some(open) = replaced.as_ref().filter(|r| r.state == ReceiptState::Intent) else { continue };
                let new = &change.receipt;
                assert!(open.is_for_step(&new.run, new.seq, new.rollback), "{open:?}");
            }
        });
    }

    #[test]
    fn granted_effect_has_an_intent_in_the_ledger(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let Outcome::Granted(grant) = &commit.outcome else { return };
            if let Some(receipt) = &grant.receipt {
                assert_eq!(env.receipts.get(&receipt.key), Some(receipt));
                assert_eq!(receipt.fence, grant.fence);
            }
        });
    }

    #[test]
    fn every_performed_effect_has_a_step_record(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let run = &env.runs[commit.run];
            for receipt in receipts_of(env, run).filter(|receipt| is_done(receipt)) {
                assert!(run.steps.iter().any(|step| records(step, receipt)), "{receipt:?}");
            }
        });
    }

    #[test]
    fn effect_counts_match_receipts(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let run = &env.runs[commit.run];
            let done = |rollback| receipts_of(env, run).filter(|r| is_done(r) && r.rollback == rollback).count();
            assert_eq!(run.record.effects.done as usize, done(false));
            assert_eq!(run.record.effects.undone as usize, done(true));
        });
    }

    #[test]
    fn every_open_intent_is_tracked_or_counted_unknown(scenario in any_scenario()) {
        LedgerEnv::run(&scenario, |env, commit| {
            let run = &env.runs[commit.run];
            let open = receipts_of(env, run).filter(|r| r.state == ReceiptState::Intent).count();
            let unknown = run.record.effects.unknown as usize;
            let tracked = usize::from(open_intent(&run.record.step_state).is_some_and(|open| !open.foreign));
            assert_eq!(open, unknown + tracked);
        });
    }
}

/// The key of an opaque effect that the grant performs without a look-up.
fn performs_opaque(grant: &Grant) -> Option<&IdempotencyKey> {
    let receipt = grant.receipt.as_ref().filter(|receipt| receipt.class == EffectClass::Opaque)?;
    matches!(grant.mode, AttemptMode::Fresh | AttemptMode::Repeat).then_some(&receipt.key)
}

fn is_done(receipt: &Receipt) -> bool {
    matches!(receipt.state, ReceiptState::Done { .. })
}

fn receipts_of<'w>(env: &'w LedgerEnv, run: &'w Run) -> impl Iterator<Item = &'w Receipt> {
    env.receipts.values().filter(|receipt| receipt.run == run.record.key.run)
}

fn records(step: &StepRecord, receipt: &Receipt) -> bool {
    let ended = if receipt.rollback { StepStatus::RolledBack } else { StepStatus::Succeeded };
    step.seq == receipt.seq
        && step.rollback == receipt.rollback
        && step.receipt.as_ref() == Some(&receipt.key)
        && step.status == ended
}
