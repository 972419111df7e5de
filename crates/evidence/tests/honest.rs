//! Whatever really happened can be shown: every run that the domain allows has a bundle, and it verifies.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a story fails by panicking")]

mod stories;

use countersign_evidence::bundle::EffectStatus;
use countersign_evidence::{BuildError, Check, Fault, build, examine, html, verify};
use domain::RunStatus;
use stories::{NAMES, key, tell};

/// What the stories' tickets, actions and answers hold, and no bundle may.
const SECRET: &str = "the-database-password";

#[test]
fn every_story_has_a_bundle_that_verifies() {
    for name in NAMES {
        let told = tell(name);
        let bytes = build(&told.material(), &key()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let verified = verify(&bytes, &key().public()).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert_eq!(verified.bundle().run.status, told.record.status, "{name}");
    }
}

#[test]
fn whoever_watches_sees_every_check_pass_in_its_order() {
    let bytes = build(&tell(NAMES[0]).material(), &key()).unwrap();
    let mut held = Vec::new();
    examine(&bytes, &key().public(), &mut |check| held.push(check)).unwrap();
    assert_eq!(held, Check::ALL);
    let mut flipped = bytes;
    let last = flipped.len() - 2;
    flipped[last] ^= 1;
    held.clear();
    examine(&flipped, &key().public(), &mut |check| held.push(check)).unwrap_err();
    assert!(held.is_empty(), "what was not reached is not said to hold: {held:?}");
}

#[test]
fn every_run_that_chance_tells_has_a_bundle() {
    for seed in 0..400 {
        let told = tell(&format!("chance-{seed}"));
        build(&told.material(), &key()).unwrap_or_else(|error| panic!("chance-{seed}: {error}"));
    }
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    for name in NAMES {
        let (mut told, again) = (tell(name), tell(name));
        // The order in which the ledger gives its records is of no matter.
        told.steps.reverse();
        told.receipts.reverse();
        told.approvals.reverse();
        assert_eq!(build(&told.material(), &key()), build(&again.material(), &key()), "{name}");
    }
}

#[test]
fn no_value_reaches_a_bundle_or_its_report() {
    for name in NAMES {
        let bytes = build(&tell(name).material(), &key()).unwrap();
        let verified = verify(&bytes, &key().public()).unwrap();
        let payload = serde_json::to_string(verified.bundle()).unwrap();
        assert!(!payload.contains(SECRET) && !html(&verified).contains(SECRET), "{name}");
    }
}

#[test]
fn a_run_ends_as_its_bundle_says() {
    let ends = |name| verify(&build(&tell(name).material(), &key()).unwrap(), &key().public()).unwrap();
    let rolled_back = ends("rolled_back_after_failure");
    let fates: Vec<_> = rolled_back.bundle().compensations.iter().map(|line| line.status).collect();
    assert_eq!(fates, [EffectStatus::RolledBack; 2]);
    assert_eq!(rolled_back.bundle().run.status, RunStatus::FailedTerminal);
    assert_eq!(ends("denied").bundle().compensations[0].status, EffectStatus::InEffect);
    let reused = ends("effect_reused");
    assert_ne!(reused.bundle().receipts[0].run, reused.bundle().run.run);
    assert_eq!(ends("taken_over").bundle().run.resumes, 3);
    let plain = ends("plain");
    let costs = &plain.bundle().costs;
    assert_eq!((costs.total_microusd, costs.models[0].input_tokens), (28, 4_000));
    assert!(plain.summary().contains("triage v3 succeeded: 9 events, 2 receipts, 0 approvals"));
}

#[test]
fn a_run_that_is_not_over_has_no_bundle() {
    let mut told = tell("one_effect");
    told.record.status = RunStatus::Running;
    let refused = build(&told.material(), &key());
    assert!(matches!(refused, Err(BuildError::NotOver { .. })), "{refused:?}");
}

#[test]
fn what_would_not_verify_is_not_signed() {
    let mut told = tell("one_effect");
    told.receipts.clear();
    let refused = build(&told.material(), &key());
    assert!(matches!(refused, Err(BuildError::Fault(Fault::ReceiptMissing { .. }))), "{refused:?}");
    let mut told = tell("one_effect");
    told.plan.version += 1;
    let refused = build(&told.material(), &key());
    assert!(matches!(refused, Err(BuildError::OtherPlan { .. })), "{refused:?}");
    let mut told = tell("one_effect");
    told.record.cost_microusd += 1;
    assert_eq!(build(&told.material(), &key()), Err(BuildError::Fault(Fault::Costs)));
}

#[test]
fn a_report_stands_by_itself_and_shows_what_is_hidden() {
    let bytes = build(&tell("approved_by_two").material(), &key()).unwrap();
    let page = html(&verify(&bytes, &key().public()).unwrap());
    for outside in ["<script", "src=", "href=", "url(", "@import", "http:", "https:"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("looks <mark>U+202E</mark>right &lt;b&gt;to me&lt;/b&gt;"), "{page}");
    assert!(!page.contains('\u{202e}') && page.contains("prefers-color-scheme: dark"));
    assert_eq!(page, html(&verify(&bytes, &key().public()).unwrap()));
}
