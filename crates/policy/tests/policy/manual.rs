//! What the manual at the top of the crate shows is right.

use countersign_policy::Bundle;
use domain::{Demand, GroupName, Ruling};

use crate::case::Case;
use crate::files::files;

/// The Rego in the crate's own documentation, piece by piece.
fn examples() -> Vec<String> {
    let manual = include_str!("../../src/lib.rs");
    let lines: Vec<&str> = manual.lines().filter_map(|line| line.strip_prefix("//!")).collect();
    let text = lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n");
    text.split("```rego\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn its_examples_are_a_bundle_whose_tests_pass() {
    let examples = examples();
    let [policy, tests] = examples.as_slice() else { panic!("{examples:?}") };
    let bundle = Bundle::parse(files(&[("policy.rego", policy), ("policy_test.rego", tests)])).unwrap();
    let report = bundle.test();
    assert!(report.is_green(), "{report}");
    let groups = vec![GroupName::new("db-oncall").unwrap()];
    let demand = Demand { groups, ..Demand::default() };
    assert_eq!(bundle.judge(&Case::default().facts()).ruling, Ruling::NeedsApproval(demand));
}
