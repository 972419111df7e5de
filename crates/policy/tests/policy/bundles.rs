//! Hashes, tests and explanations of bundles.

use std::collections::BTreeMap;

use countersign_policy::{PolicyBundle, VerdictCache};
use domain::connection::ActionConnection;
use domain::plan::Environment::{Dev, Prod};
use domain::{ActionOrigin, BlastRadius, ConnectionKind, EffectClass, Ruling, Verdict};
use serde_json::json;

use crate::case::Case;
use crate::files::{bundle, files};

const RULES: &str = "package countersign\nallow contains {\"rule\": \"all\", \"message\": \"s\"} if true\n";
const TESTS: &str =
    "package countersign_test\nimport data.countersign\ntest_all if count(countersign.allow) == 1\n";

fn parsed(texts: &[(&str, &str)]) -> PolicyBundle {
    PolicyBundle::parse(files(texts)).unwrap()
}

#[test]
fn bundle_is_shared_between_threads() {
    fn shared<T: Clone + Send + Sync + std::fmt::Debug>(_: &T) {}
    let bundle = parsed(&[("a.rego", RULES)]);
    shared(&bundle);
    assert_eq!(
        format!("{bundle:?}"),
        format!("PolicyBundle {{ hash: {:?}, files: [\"a.rego\"], .. }}", bundle.hash())
    );
}

#[test]
fn file_names_are_part_of_the_hash() {
    let one = parsed(&[("a.rego", RULES), ("b.rego", "package countersign\n")]);
    let renamed = parsed(&[("a.rego", RULES), ("c.rego", "package countersign\n")]);
    let swapped = parsed(&[("b.rego", RULES), ("a.rego", "package countersign\n")]);
    assert_ne!(one.hash(), renamed.hash());
    assert_ne!(one.hash(), swapped.hash());
}

#[test]
fn tests_are_stored_but_not_hashed() {
    let with = parsed(&[("a.rego", RULES), ("a_test.rego", TESTS)]);
    assert_eq!(with.hash(), parsed(&[("a.rego", RULES)]).hash());
    assert_eq!(with.files().len(), 2);
}

#[test]
fn reparsed_bundle_has_same_hash_and_verdict() {
    let default = PolicyBundle::built_in().unwrap();
    let again = PolicyBundle::parse(default.files().clone()).unwrap();
    let case = Case { environment: Prod, ..Case::default() };
    assert_eq!(default.hash(), again.hash());
    assert_eq!(default.evaluate(&case.request()), again.evaluate(&case.request()));
}

#[test]
fn evaluation_keeps_no_state() {
    let default = PolicyBundle::built_in().unwrap();
    let (dev, prod) =
        (Case { environment: Dev, ..Case::default() }, Case { environment: Prod, ..Case::default() });
    let first = default.evaluate(&dev.request());
    assert_ne!(default.evaluate(&prod.request()).ruling, first.ruling);
    assert_eq!(default.evaluate(&dev.request()), first);
}

#[test]
fn failing_test_is_reported_with_its_location() {
    let failing = format!(
        "{TESTS}test_none if count(countersign.allow) == 0\ntest_false := false\ntest_error if to_number(\"x\") == 1\n"
    );
    let report = parsed(&[("a.rego", RULES), ("a_test.rego", &failing)]).test();
    assert!(!report.is_green());
    assert_eq!(report.passed(), 1);
    let failed: Vec<(&str, u32)> =
        report.failures().map(|test| (test.test.as_str(), test.location.line)).collect();
    let name = |test| format!("data.countersign_test.{test}");
    let (none, wrong, error) = (name("test_none"), name("test_false"), name("test_error"));
    assert_eq!(failed, [(none.as_str(), 4), (wrong.as_str(), 5), (error.as_str(), 6)]);
    let printed = report.to_string();
    assert!(printed.contains("passed  test_all  a_test.rego:3"), "{printed}");
    assert!(
        printed.contains("FAILED  test_none  a_test.rego:4\n        the test is undefined, expected true"),
        "{printed}"
    );
    assert!(printed.ends_with("1 of 4 tests passed"), "{printed}");
}

#[test]
fn bundle_without_tests_is_not_green() {
    assert!(!parsed(&[("a.rego", RULES)]).test().is_green());
}

#[test]
fn helpers_may_have_their_own_package() {
    let texts = [
        (
            "policy.rego",
            "package countersign\nimport data.lib.hosts as h\nallow contains {\"rule\": \"r\", \"message\": \"s\"} if h.known(input.action.target)\n",
        ),
        ("lib/hosts.rego", "package lib.hosts\nknown(target) if startswith(target, \"incident/\")\n"),
    ];
    assert_eq!(parsed(&texts).evaluate(&Case::default().request()).ruling, Ruling::Allow);
}

#[test]
fn input_has_only_values_listed_in_reads() {
    let reading = bundle(
        r#"reads := ["fields.assignment_group"]
        allow contains {"rule": "r", "message": "s"} if input.action.values["fields.assignment_group"] == "db-oncall""#,
    );
    let case = Case::default();
    assert_eq!(reading.evaluate(&case.request()).ruling, Ruling::Allow);
    let input = reading.explain(&case.request()).input.unwrap();
    assert_eq!(input["action"]["values"], json!({"fields.assignment_group": "db-oncall"}));
    let mut other = Case::default();
    other.action.fields["fields"]["assignment_group"] = json!("service-desk");
    assert_eq!(reading.evaluate(&other.request()).ruling, Ruling::Deny);
}

#[test]
fn explanation_lists_every_rule_and_whether_it_matched() {
    let explained = PolicyBundle::built_in().unwrap().explain(&Case::default().request());
    let matched: BTreeMap<&str, bool> =
        explained.rules.iter().map(|t| (t.rule.as_str(), t.matched())).collect();
    assert_eq!(matched.len(), 9);
    assert_eq!(
        matched.iter().filter(|(_, matched)| **matched).map(|(rule, _)| *rule).collect::<Vec<_>>(),
        ["non-prod-write"]
    );
    let printed = explained.to_string();
    for trace in &explained.rules {
        assert!(printed.contains(&trace.rule), "{printed}");
        assert!(printed.contains(&format!("{}:{}", trace.location.file, trace.location.line)), "{printed}");
    }
    assert!(printed.starts_with("allow, by policy "), "{printed}");
    assert!(printed.contains("because non-prod-write: "), "{printed}");
    assert!(printed.contains("\"environment\": \"dev\""), "{printed}");
}

#[test]
fn explanation_has_the_verdict_of_the_evaluation() {
    let default = PolicyBundle::built_in().unwrap();
    for environment in [Dev, Prod] {
        let case = Case { environment, ..Case::default() };
        assert_eq!(default.explain(&case.request()).verdict, default.evaluate(&case.request()));
    }
}

#[test]
fn explanation_contains_the_evaluation_error() {
    let no_match = bundle(r#"deny contains {"rule": "r", "message": "s"} if input.step.rollback"#);
    let explained = no_match.explain(&Case::default().request());
    assert_eq!(explained.error.unwrap().kind().rule(), "policy/no_match");
    assert!(!explained.rules[0].matched());
}

#[test]
fn input_has_exactly_the_paths_rules_may_reference() {
    let mut case = Case::default();
    let without = PolicyBundle::built_in().unwrap().explain(&case.request()).input.unwrap();
    assert_eq!(without.get("connection"), None);
    case.action.connection = Some(ActionConnection {
        name: "sn".parse().unwrap(),
        kind: ConnectionKind::ServiceNow,
        environment: Prod,
    });
    let explained = PolicyBundle::built_in().unwrap().explain(&case.request());
    let input = explained.input.unwrap();
    let mut paths: Vec<String> = Vec::new();
    for (part, fields) in input.as_object().unwrap() {
        paths.extend(fields.as_object().unwrap().keys().map(|field| format!("input.{part}.{field}")));
    }
    for path in &paths {
        let rule = format!("allow contains {{\"rule\": \"r\", \"message\": \"s\"}} if {path} != 0");
        PolicyBundle::parse(files(&[("a.rego", &format!("package countersign\n{rule}"))])).unwrap();
    }
    let error = PolicyBundle::parse(files(&[(
        "a.rego",
        "package countersign\nallow contains {\"rule\": \"r\", \"message\": \"s\"} if input.nothing",
    )]));
    assert!(error.is_err());
    assert_eq!(paths.len(), 30);
}

/// Policies and requests that differ in one field each share one cache.
#[test]
fn cached_verdict_equals_evaluation() {
    let cache = VerdictCache::default();
    let default = PolicyBundle::built_in().unwrap();
    let denies = bundle("deny contains {\"rule\": \"all\", \"message\": \"denied\"} if true");
    let mut cases = vec![Case::default()];
    let mut vary = |change: fn(&mut Case)| {
        let mut case = Case::default();
        change(&mut case);
        cases.push(case);
    };
    vary(|case| case.environment = Prod);
    vary(|case| case.blast_radius = BlastRadius::High);
    vary(|case| case.action.destructive = true);
    vary(|case| case.action.class = EffectClass::ReadOnly);
    vary(|case| case.origin = ActionOrigin::RecordedInverse);
    vary(|case| case.caps.writes_done = 64);
    for _ in 0..2 {
        for (case, bundle) in cases.iter().flat_map(|case| [(case, &default), (case, &denies)]) {
            let expected = bundle.evaluate(&case.request());
            assert_eq!(cache.evaluate(bundle, &case.request()), expected);
            assert_eq!(cache.get(bundle, &case.request()), Some(expected));
        }
    }
}

#[test]
fn error_is_not_remembered() {
    let cache = VerdictCache::default();
    let bundle = bundle("allow contains {\"rule\": \"none\", \"message\": \"never\"} if false");
    let case = Case::default();
    assert_eq!(cache.evaluate(&bundle, &case.request()).ruling, Ruling::Deny);
    assert_eq!(cache.get(&bundle, &case.request()), None);
}

/// A reason takes memory besides its text.
#[test]
fn large_verdict_is_not_remembered() {
    let cache = VerdictCache::default();
    let (case, message) = (Case::default(), "m".repeat(50));
    for (count, is_kept) in [(1, true), (16, false)] {
        let rules: Vec<_> = (0..count)
            .map(|number| {
                format!("deny contains {{\"rule\": \"r{number}\", \"message\": \"{message}\"}} if true")
            })
            .collect();
        let bundle = bundle(&rules.join("\n"));
        assert_eq!(cache.evaluate(&bundle, &case.request()).reasons.len(), count);
        assert_eq!(cache.get(&bundle, &case.request()).is_some(), is_kept, "{count}");
    }
}

#[test]
fn each_approval_rule_needs_its_own_group() {
    let rule = |name: &str, groups: &str| {
        format!(
            "needs_approval contains {{\"rule\": \"{name}\", \"message\": \"{name}\", \"tier\": \"low\", \
             \"people\": 1, \"groups\": {groups}}} if true\n"
        )
    };
    let verdict = |first: &str, second: &str| {
        bundle(&(rule("a", first) + &rule("b", second))).evaluate(&Case::default().request())
    };
    let groups = |verdict: Verdict| match verdict.ruling {
        Ruling::NeedsApproval(requirement) => requirement.groups.iter().map(ToString::to_string).collect(),
        other => vec![format!("{other:?}")],
    };
    assert_eq!(groups(verdict("[\"dba\", \"sre\"]", "[\"sre\", \"security\"]")), ["sre"]);
    assert_eq!(groups(verdict("[\"dba\"]", "[]")), ["dba"]);
    let denied = verdict("[\"dba\"]", "[\"security\"]");
    assert_eq!(denied.ruling, Ruling::Deny);
    assert!(denied.reasons.iter().any(|reason| reason.rule == "approval/groups"), "{denied:?}");
}
