//! The policy that ships with the runtime.

use countersign_policy::{Bundle, CapsState};
use domain::plan::Environment::{Dev, Prod, Staging};
use domain::{Blast, EffectClass, Reversibility, Ruling};

use crate::case::Case;
use crate::oracle;

/// Every combination of what its rules look at, and a few of what they do not.
fn combinations() -> Vec<Case> {
    let mut cases = vec![Case::default()];
    cases = varied(&cases, &[Dev, Staging, Prod], |case, environment| case.environment = *environment);
    cases = varied(&cases, &[Blast::Low, Blast::Medium, Blast::High], |case, blast| case.blast = *blast);
    cases = varied(&cases, &classes(), |case, class| case.action.class = *class);
    cases = varied(&cases, &reversibilities(), |case, kind| case.action.reversibility = kind.clone());
    cases = varied(&cases, &[false, true], |case, flag| case.action.destructive = *flag);
    cases = varied(&cases, &[false, true], |case, flag| case.undo = *flag);
    cases = varied(&cases, &[false, true], |case, flag| case.critical = *flag);
    varied(&cases, &[(0, 0), (0, 1), (63, 64), (64, 64), (65, 64)], |case, (writes_done, writes_max)| {
        case.caps = CapsState { writes_done: *writes_done, writes_max: *writes_max };
    })
}

fn classes() -> [EffectClass; 5] {
    use EffectClass::{CompareAndSet, LookUp, NativeKey, Opaque, ReadOnly};
    [ReadOnly, NativeKey, CompareAndSet, LookUp, Opaque]
}

fn reversibilities() -> [Reversibility; 4] {
    use Reversibility::{Compensable, Inverse, Irreversible, NoEffect};
    [NoEffect, Inverse, Compensable, Irreversible("mail is gone".to_owned())]
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
fn it_says_what_its_description_says_in_every_case() {
    let bundle = Bundle::shipped().unwrap();
    let cases = combinations();
    assert_eq!(cases.len(), 3 * 3 * 5 * 4 * 2 * 2 * 2 * 5);
    for case in cases {
        assert_eq!(bundle.judge(&case.facts()).ruling, oracle::ruling(&case), "{case:#?}");
    }
}

#[test]
fn its_own_tests_pass_and_cover_every_rule() {
    let bundle = Bundle::shipped().unwrap();
    let report = bundle.test();
    assert!(report.is_green(), "{report}");
    let tests = &bundle.files()["default_test.rego"];
    for trace in bundle.explain(&Case::default().facts()).rules {
        assert!(tests.contains(&format!("{{\"{}\"}}", trace.rule)), "no test expects `{}`", trace.rule);
    }
}

#[test]
fn every_verdict_says_why_and_where() {
    let bundle = Bundle::shipped().unwrap();
    let allowed = bundle.judge(&Case::default().facts());
    assert_eq!(allowed.ruling, Ruling::Allow);
    let [reason] = allowed.because.as_slice() else { panic!("{allowed:?}") };
    assert_eq!((reason.rule.as_str(), reason.file.as_deref()), ("rehearsal-write", Some("allow.rego")));
    let line = usize::try_from(reason.line.unwrap()).unwrap();
    let shown: Vec<&str> = bundle.files()["allow.rego"].lines().skip(line - 1).take(2).collect();
    assert_eq!(shown, ["allow contains {", "\t\"rule\": \"rehearsal-write\","]);
    assert_eq!(allowed.policy, bundle.hash());
}

#[test]
fn several_demands_are_all_met_by_the_strictest() {
    let case = Case { environment: Prod, blast: Blast::High, ..Case::default() };
    let verdict = Bundle::shipped().unwrap().judge(&case.facts());
    let rules: Vec<&str> = verdict.because.iter().map(|reason| reason.rule.as_str()).collect();
    assert_eq!(rules, ["prod-write", "high-blast-radius"]);
    assert_eq!(verdict.ruling, oracle::ruling(&case));
}
