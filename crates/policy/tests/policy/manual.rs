//! The examples in the crate documentation are a valid bundle.

use countersign_policy::PolicyBundle;
use domain::{ApprovalRequirement, GroupName, Ruling};

use crate::case::Case;
use crate::files::files;

/// The Rego blocks of the crate documentation.
fn examples() -> Vec<String> {
    let manual = include_str!("../../src/lib.rs");
    let lines: Vec<&str> = manual.lines().filter_map(|line| line.strip_prefix("//!")).collect();
    let text = lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n");
    text.split("```rego\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn documentation_examples_pass_their_tests() {
    let examples = examples();
    let [policy, tests] = examples.as_slice() else { panic!("{examples:?}") };
    let bundle = PolicyBundle::parse(files(&[("policy.rego", policy), ("policy_test.rego", tests)])).unwrap();
    let report = bundle.test();
    assert!(report.is_green(), "{report}");
    let groups = vec![GroupName::new("db-oncall").unwrap()];
    let requirement = ApprovalRequirement { groups, ..ApprovalRequirement::default() };
    assert_eq!(bundle.evaluate(&Case::default().request()).ruling, Ruling::NeedsApproval(requirement));
}
