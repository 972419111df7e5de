//! The default policy.

use countersign_policy::{CapUsage, PolicyBundle};
use domain::plan::Environment::{Dev, Prod, Staging};
use domain::{ActionOrigin, BlastRadius, EffectClass, Reversibility, Ruling};

use crate::case::Case;
use crate::reference_policy;

/// Every combination of the input fields that its rules use, and some that they do not use.
fn combinations() -> Vec<Case> {
    let mut cases = vec![Case::default()];
    cases = varied(&cases, &[Dev, Staging, Prod], |case, environment| case.environment = *environment);
    cases = varied(&cases, &[BlastRadius::Low, BlastRadius::Medium, BlastRadius::High], |case, radius| {
        case.blast_radius = *radius;
    });
    cases = varied(&cases, &classes(), |case, class| case.action.class = *class);
    cases = varied(&cases, &reversibilities(), |case, kind| case.action.reversibility = kind.clone());
    cases = varied(&cases, &[false, true], |case, flag| case.action.destructive = *flag);
    cases = varied(&cases, &[false, true], |case, flag| case.rollback = *flag);
    cases = varied(&cases, &origins(), |case, origin| case.origin = *origin);
    cases = varied(&cases, &[false, true], |case, flag| case.critical = *flag);
    varied(&cases, &[(0, 0), (0, 1), (63, 64), (64, 64), (65, 64)], |case, (writes_done, writes_max)| {
        case.caps = CapUsage { writes_done: *writes_done, writes_max: *writes_max };
    })
}

fn classes() -> [EffectClass; 5] {
    use EffectClass::{CompareAndSet, LookUp, NativeKey, Opaque, ReadOnly};
    [ReadOnly, NativeKey, CompareAndSet, LookUp, Opaque]
}

fn origins() -> [ActionOrigin; 3] {
    [ActionOrigin::Forward, ActionOrigin::RecordedInverse, ActionOrigin::DeclaredRollback]
}

fn reversibilities() -> [Reversibility; 4] {
    use Reversibility::{Compensable, Inverse, Irreversible, NoEffect};
    [NoEffect, Inverse, Compensable, Irreversible("mail was sent".to_owned())]
}

fn varied<T>(cases: &[Case], values: &[T], set: impl Fn(&mut Case, &T)) -> Vec<Case> {
    let with = |case: &Case, value: &T| {
        let mut case = case.clone();
        set(&mut case, value);
        case
    };
    cases.iter().flat_map(|case| values.iter().map(|value| with(case, value)).collect::<Vec<_>>()).collect()
}

#[test]
fn verdicts_equal_the_reference_policy() {
    let bundle = PolicyBundle::built_in().unwrap();
    let cases = combinations();
    assert_eq!(cases.len(), 3 * 3 * 5 * 4 * 2 * 2 * 3 * 2 * 5);
    for case in cases {
        assert_eq!(bundle.evaluate(&case.request()).ruling, reference_policy::ruling(&case), "{case:#?}");
    }
}

#[test]
fn bundle_tests_pass_and_cover_every_rule() {
    let bundle = PolicyBundle::built_in().unwrap();
    let report = bundle.test();
    assert!(report.is_green(), "{report}");
    let tests = &bundle.files()["default_test.rego"];
    for trace in bundle.explain(&Case::default().request()).rules {
        assert!(tests.contains(&format!("{{\"{}\"}}", trace.rule)), "no test expects `{}`", trace.rule);
    }
}

#[test]
fn verdict_has_reason_with_file_and_line() {
    let bundle = PolicyBundle::built_in().unwrap();
    let allowed = bundle.evaluate(&Case::default().request());
    assert_eq!(allowed.ruling, Ruling::Allow);
    let [reason] = allowed.reasons.as_slice() else { panic!("{allowed:?}") };
    assert_eq!((reason.rule.as_str(), reason.file.as_deref()), ("non-prod-write", Some("allow.rego")));
    let line = usize::try_from(reason.line.unwrap()).unwrap();
    let shown: Vec<&str> = bundle.files()["allow.rego"].lines().skip(line - 1).take(2).collect();
    assert_eq!(shown, ["allow contains {", "\t\"rule\": \"non-prod-write\","]);
    assert_eq!(allowed.policy, bundle.hash());
}

#[test]
fn combined_rules_require_the_strictest_approval() {
    let case = Case { environment: Prod, blast_radius: BlastRadius::High, ..Case::default() };
    let verdict = PolicyBundle::built_in().unwrap().evaluate(&case.request());
    let rules: Vec<&str> = verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
    assert_eq!(rules, ["prod-write", "high-blast-radius"]);
    assert_eq!(verdict.ruling, reference_policy::ruling(&case));
}
