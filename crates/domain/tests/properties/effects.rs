//! What holds for the world outside: what is done, what is done twice, and what is owned up to.

use std::collections::BTreeSet;

use domain::command::{Grant, Mode};
use domain::receipt::ReceiptState;
use domain::{EffectClass, IdempotencyKey, Receipt, StepRecord, StepStatus};
use proptest::prelude::*;

use crate::cases;
use crate::story::any_story;
use crate::world::{Run, Said, World, open_intent};

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn an_effect_nobody_can_ask_about_is_not_repeated_without_a_persons_word(story in any_story()) {
        let mut may_have_happened = BTreeSet::new();
        World::tell(&story, |_, turn| match &turn.said {
            Said::Granted(grant) => {
                if let Some(key) = acts_blindly(grant) {
                    assert!(may_have_happened.insert(key.clone()), "{key} is done again");
                }
            }
            Said::DidNotHappen(key) | Said::MayHappenAgain(key) => {
                may_have_happened.remove(key);
            }
            Said::Nothing => {}
        });
    }

    #[test]
    fn what_is_done_is_never_done_again(story in any_story()) {
        World::tell(&story, |_, turn| {
            for replaced in turn.replaced.iter().flatten() {
                assert!(!is_done(replaced), "{replaced:?}");
            }
        });
    }

    #[test]
    fn nobody_takes_up_what_another_step_intends(story in any_story()) {
        World::tell(&story, |_, turn| {
            for (change, replaced) in turn.decision.receipts.iter().zip(&turn.replaced) {
                let Some(open) = replaced.as_ref().filter(|r| r.state == ReceiptState::Intent) else { continue };
                let new = &change.receipt;
                assert!(open.is_of(&new.run, new.seq, new.undo), "{open:?}");
            }
        });
    }

    #[test]
    fn a_grant_of_an_effect_leaves_its_intent_in_the_ledger(story in any_story()) {
        World::tell(&story, |world, turn| {
            let Said::Granted(grant) = &turn.said else { return };
            if let Some(receipt) = &grant.receipt {
                assert_eq!(world.receipts.get(&receipt.key), Some(receipt));
                assert_eq!(receipt.fence, grant.fence);
            }
        });
    }

    #[test]
    fn every_effect_that_was_done_has_a_step_that_owns_up_to_it(story in any_story()) {
        World::tell(&story, |world, turn| {
            let run = &world.runs[turn.run];
            for receipt in receipts_of(world, run).filter(|receipt| is_done(receipt)) {
                assert!(run.steps.iter().any(|step| owns_up(step, receipt)), "{receipt:?}");
            }
        });
    }

    #[test]
    fn effects_are_counted_as_they_are(story in any_story()) {
        World::tell(&story, |world, turn| {
            let run = &world.runs[turn.run];
            let done = |undo| receipts_of(world, run).filter(|r| is_done(r) && r.undo == undo).count();
            assert_eq!(run.record.effects.done as usize, done(false));
            assert_eq!(run.record.effects.undone as usize, done(true));
        });
    }

    #[test]
    fn every_effect_that_may_have_happened_is_looked_after_or_owned_up_to(story in any_story()) {
        World::tell(&story, |world, turn| {
            let run = &world.runs[turn.run];
            let open = receipts_of(world, run).filter(|r| r.state == ReceiptState::Intent).count();
            let given_up = run.record.effects.unknown as usize;
            let looked_after = usize::from(open_intent(&run.record.live).is_some_and(|open| !open.foreign_intent));
            assert_eq!(open, given_up + looked_after);
        });
    }
}

/// The key of an effect that is done without looking and that nobody could be asked about.
fn acts_blindly(grant: &Grant) -> Option<&IdempotencyKey> {
    let receipt = grant.receipt.as_ref().filter(|receipt| receipt.class == EffectClass::Opaque)?;
    matches!(grant.mode, Mode::Fresh | Mode::Again).then_some(&receipt.key)
}

fn is_done(receipt: &Receipt) -> bool {
    matches!(receipt.state, ReceiptState::Done { .. })
}

fn receipts_of<'w>(world: &'w World, run: &'w Run) -> impl Iterator<Item = &'w Receipt> {
    world.receipts.values().filter(|receipt| receipt.run == run.record.key.run)
}

fn owns_up(step: &StepRecord, receipt: &Receipt) -> bool {
    let ended = if receipt.undo { StepStatus::RolledBack } else { StepStatus::Succeeded };
    step.seq == receipt.seq
        && step.undo == receipt.undo
        && step.receipt.as_ref() == Some(&receipt.key)
        && step.status == ended
}
