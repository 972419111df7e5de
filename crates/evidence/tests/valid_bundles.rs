//! Every run that the domain allows has a bundle that verifies.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod stories;

use countersign_evidence::bundle::EffectStatus;
use countersign_evidence::{
    BuildError, Check, VerifyError, build, html, html_with_notice, verify, verify_with_progress,
};
use domain::RunStatus;
use stories::{NAMES, key, story};

/// A value in the stories' tickets, actions and responses that must not appear in a bundle.
const SECRET: &str = "the-database-password";

#[test]
fn bundle_of_every_story_verifies() {
    for name in NAMES {
        let run = story(name);
        let bytes = build(&run.input(), &key()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let verified = verify(&bytes, &key().public()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(verified.bundle().run.status, run.record.status, "{name}");
    }
}

#[test]
fn progress_reports_every_check_in_order() {
    let bytes = build(&story(NAMES[0]).input(), &key()).unwrap();
    let mut passed = Vec::new();
    verify_with_progress(&bytes, &key().public(), &mut |check| passed.push(check)).unwrap();
    assert_eq!(passed, Check::ALL);
    let mut flipped = bytes;
    let last = flipped.len() - 2;
    flipped[last] ^= 1;
    passed.clear();
    verify_with_progress(&flipped, &key().public(), &mut |check| passed.push(check)).unwrap_err();
    assert!(passed.is_empty(), "a check after the failure is reported: {passed:?}");
}

#[test]
fn bundle_of_every_random_run_is_built() {
    for seed in 0..400 {
        let run = story(&format!("random-{seed}"));
        build(&run.input(), &key()).unwrap_or_else(|error| panic!("random-{seed}: {error}"));
    }
}

#[test]
fn same_run_gives_same_bytes() {
    for name in NAMES {
        let (mut run, again) = (story(name), story(name));
        // The order of the records does not matter.
        run.steps.reverse();
        run.receipts.reverse();
        run.approvals.reverse();
        assert_eq!(build(&run.input(), &key()), build(&again.input(), &key()), "{name}");
    }
}

#[test]
fn bundle_and_report_contain_no_values() {
    for name in NAMES {
        let bytes = build(&story(name).input(), &key()).unwrap();
        let verified = verify(&bytes, &key().public()).unwrap();
        let payload = serde_json::to_string(verified.bundle()).unwrap();
        assert!(!payload.contains(SECRET) && !html(&verified).contains(SECRET), "{name}");
    }
}

#[test]
fn bundle_has_status_costs_and_compensations() {
    let verified = |name| verify(&build(&story(name).input(), &key()).unwrap(), &key().public()).unwrap();
    let rolled_back = verified("rolled_back_after_failure");
    let statuses: Vec<_> = rolled_back.bundle().compensations.iter().map(|line| line.status).collect();
    assert_eq!(statuses, [EffectStatus::RolledBack; 2]);
    assert_eq!(rolled_back.bundle().run.status, RunStatus::FailedTerminal);
    assert_eq!(verified("denied").bundle().compensations[0].status, EffectStatus::InEffect);
    let reused = verified("effect_reused");
    assert_ne!(reused.bundle().receipts[0].run, reused.bundle().run.run);
    assert_eq!(verified("taken_over").bundle().run.resumes, 3);
    let plain = verified("plain");
    let costs = &plain.bundle().costs;
    assert_eq!((costs.total_microusd, costs.models[0].input_tokens), (28, 4_000));
    assert!(plain.summary().contains("triage v3 succeeded: 9 events, 2 receipts, 0 approvals"));
}

#[test]
fn unfinished_run_has_no_bundle() {
    let mut run = story("one_effect");
    run.record.status = RunStatus::Running;
    let refused = build(&run.input(), &key());
    assert!(matches!(refused, Err(BuildError::NotFinished { .. })), "{refused:?}");
}

#[test]
fn inconsistent_records_are_not_signed() {
    let mut run = story("one_effect");
    run.receipts.clear();
    let refused = build(&run.input(), &key());
    assert!(
        matches!(refused, Err(BuildError::Inconsistent(VerifyError::ReceiptMissing { .. }))),
        "{refused:?}"
    );
    let mut run = story("one_effect");
    run.plan.version += 1;
    let refused = build(&run.input(), &key());
    assert!(matches!(refused, Err(BuildError::OtherPlan { .. })), "{refused:?}");
    let mut run = story("one_effect");
    run.record.cost_microusd += 1;
    assert_eq!(build(&run.input(), &key()), Err(BuildError::Inconsistent(VerifyError::Costs)));
}

#[test]
fn report_is_self_contained_and_marks_invisible_text() {
    let bytes = build(&story("approved_by_two").input(), &key()).unwrap();
    let page = html(&verify(&bytes, &key().public()).unwrap());
    for outside in ["<script", "src=", "href=", "url(", "@import", "http:", "https:"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("looks <mark>U+202E</mark>right &lt;b&gt;to me&lt;/b&gt;"), "{page}");
    assert!(!page.contains('\u{202e}') && page.contains("prefers-color-scheme: dark"));
    assert_eq!(page, html(&verify(&bytes, &key().public()).unwrap()));
    let noted = html_with_notice(&verify(&bytes, &key().public()).unwrap(), "signer <not> verified");
    assert!(noted.contains("<p class=\"notice\" role=\"alert\">signer &lt;not&gt; verified</p>"), "{noted}");
}
