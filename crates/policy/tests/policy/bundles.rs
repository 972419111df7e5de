//! What is a bundle, and what two bundles have in common.

use std::collections::BTreeMap;

use countersign_policy::Bundle;
use domain::Ruling;
use domain::plan::Environment::{Dev, Prod};
use serde_json::json;

use crate::case::Case;
use crate::files::{bundle, files};

const RULES: &str = "package countersign\nallow contains {\"rule\": \"all\", \"says\": \"s\"} if true\n";
const TESTS: &str =
    "package countersign_test\nimport data.countersign\ntest_all if count(countersign.allow) == 1\n";

fn parsed(texts: &[(&str, &str)]) -> Bundle {
    Bundle::parse(files(texts)).unwrap()
}

#[test]
fn a_bundle_is_shared_between_threads() {
    fn shared<T: Clone + Send + Sync + std::fmt::Debug>(_: &T) {}
    let bundle = parsed(&[("a.rego", RULES)]);
    shared(&bundle);
    assert_eq!(
        format!("{bundle:?}"),
        format!("Bundle {{ hash: {:?}, files: [\"a.rego\"], .. }}", bundle.hash())
    );
}

#[test]
fn a_files_name_is_part_of_the_hash() {
    let one = parsed(&[("a.rego", RULES), ("b.rego", "package countersign\n")]);
    let renamed = parsed(&[("a.rego", RULES), ("c.rego", "package countersign\n")]);
    let swapped = parsed(&[("b.rego", RULES), ("a.rego", "package countersign\n")]);
    assert_ne!(one.hash(), renamed.hash());
    assert_ne!(one.hash(), swapped.hash());
}

#[test]
fn tests_are_kept_but_are_not_part_of_the_hash() {
    let with = parsed(&[("a.rego", RULES), ("a_test.rego", TESTS)]);
    assert_eq!(with.hash(), parsed(&[("a.rego", RULES)]).hash());
    assert_eq!(with.files().len(), 2);
}

#[test]
fn a_bundle_that_is_parsed_again_has_the_same_hash_and_says_the_same() {
    let shipped = Bundle::shipped().unwrap();
    let again = Bundle::parse(shipped.files().clone()).unwrap();
    let case = Case { environment: Prod, ..Case::default() };
    assert_eq!(shipped.hash(), again.hash());
    assert_eq!(shipped.judge(&case.facts()), again.judge(&case.facts()));
}

#[test]
fn asking_leaves_nothing_behind() {
    let shipped = Bundle::shipped().unwrap();
    let (dev, prod) =
        (Case { environment: Dev, ..Case::default() }, Case { environment: Prod, ..Case::default() });
    let first = shipped.judge(&dev.facts());
    assert_ne!(shipped.judge(&prod.facts()).ruling, first.ruling);
    assert_eq!(shipped.judge(&dev.facts()), first);
}

#[test]
fn a_failing_test_is_reported_with_its_place() {
    let failing = format!(
        "{TESTS}test_none if count(countersign.allow) == 0\ntest_false := false\ntest_error if to_number(\"x\") == 1\n"
    );
    let report = parsed(&[("a.rego", RULES), ("a_test.rego", &failing)]).test();
    assert!(!report.is_green());
    assert_eq!(report.passed(), 1);
    let failed: Vec<(&str, u32)> =
        report.failures().map(|test| (test.test.as_str(), test.place.line)).collect();
    let name = |test| format!("data.countersign_test.{test}");
    let (none, wrong, error) = (name("test_none"), name("test_false"), name("test_error"));
    assert_eq!(failed, [(none.as_str(), 4), (wrong.as_str(), 5), (error.as_str(), 6)]);
    let printed = report.to_string();
    assert!(printed.contains("passed  test_all  a_test.rego:3"), "{printed}");
    assert!(printed.contains("FAILED  test_none  a_test.rego:4\n        it does not hold"), "{printed}");
    assert!(printed.ends_with("1 of 4 tests passed"), "{printed}");
}

#[test]
fn a_bundle_without_tests_is_not_green() {
    assert!(!parsed(&[("a.rego", RULES)]).test().is_green());
}

#[test]
fn helpers_may_live_in_packages_of_their_own() {
    let texts = [
        (
            "policy.rego",
            "package countersign\nimport data.lib.hosts as h\nallow contains {\"rule\": \"r\", \"says\": \"s\"} if h.known(input.action.target)\n",
        ),
        ("lib/hosts.rego", "package lib.hosts\nknown(target) if startswith(target, \"incident/\")\n"),
    ];
    assert_eq!(parsed(&texts).judge(&Case::default().facts()).ruling, Ruling::Allow);
}

#[test]
fn a_value_is_seen_only_by_a_policy_that_names_it() {
    let reading = bundle(
        r#"reads := ["fields.assignment_group"]
        allow contains {"rule": "r", "says": "s"} if input.action.values["fields.assignment_group"] == "db-oncall""#,
    );
    let case = Case::default();
    assert_eq!(reading.judge(&case.facts()).ruling, Ruling::Allow);
    let input = reading.explain(&case.facts()).input.unwrap();
    assert_eq!(input["action"]["values"], json!({"fields.assignment_group": "db-oncall"}));
    let mut other = Case::default();
    other.action.fields["fields"]["assignment_group"] = json!("service-desk");
    assert_eq!(reading.judge(&other.facts()).ruling, Ruling::Deny);
}

#[test]
fn an_explanation_names_every_rule_with_its_file_and_line_and_whether_it_held() {
    let explained = Bundle::shipped().unwrap().explain(&Case::default().facts());
    let held: BTreeMap<&str, bool> = explained.rules.iter().map(|t| (t.rule.as_str(), t.fired())).collect();
    assert_eq!(held.len(), 9);
    assert_eq!(
        held.iter().filter(|(_, held)| **held).map(|(rule, _)| *rule).collect::<Vec<_>>(),
        ["rehearsal-write"]
    );
    let printed = explained.to_string();
    for trace in &explained.rules {
        assert!(printed.contains(&trace.rule), "{printed}");
        assert!(printed.contains(&format!("{}:{}", trace.place.file, trace.place.line)), "{printed}");
    }
    assert!(printed.starts_with("allow, by policy "), "{printed}");
    assert!(printed.contains("because rehearsal-write: "), "{printed}");
    assert!(printed.contains("\"environment\": \"dev\""), "{printed}");
}

#[test]
fn an_explanation_is_of_the_verdict_that_is_given() {
    let shipped = Bundle::shipped().unwrap();
    for environment in [Dev, Prod] {
        let case = Case { environment, ..Case::default() };
        assert_eq!(shipped.explain(&case.facts()).verdict, shipped.judge(&case.facts()));
    }
}

#[test]
fn an_explanation_of_a_fault_shows_it() {
    let silent = bundle(r#"deny contains {"rule": "r", "says": "s"} if input.step.undo"#);
    let explained = silent.explain(&Case::default().facts());
    assert_eq!(explained.fault.unwrap().kind().rule(), "policy/silent");
    assert!(!explained.rules[0].fired());
}

#[test]
fn the_input_has_exactly_the_paths_that_rules_may_name() {
    let explained = Bundle::shipped().unwrap().explain(&Case::default().facts());
    let input = explained.input.unwrap();
    let mut paths: Vec<String> = Vec::new();
    for (part, fields) in input.as_object().unwrap() {
        paths.extend(fields.as_object().unwrap().keys().map(|field| format!("input.{part}.{field}")));
    }
    for path in &paths {
        let rule = format!("allow contains {{\"rule\": \"r\", \"says\": \"s\"}} if {path} != 0");
        Bundle::parse(files(&[("a.rego", &format!("package countersign\n{rule}"))])).unwrap();
    }
    let error = Bundle::parse(files(&[(
        "a.rego",
        "package countersign\nallow contains {\"rule\": \"r\", \"says\": \"s\"} if input.nothing",
    )]));
    assert!(error.is_err());
    assert_eq!(paths.len(), 26);
}
