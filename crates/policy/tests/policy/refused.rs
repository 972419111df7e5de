//! What is not a bundle, with the place and the way out. Every problem has a row.

use std::collections::{BTreeMap, BTreeSet};

use countersign_policy::{Bundle, BundleError, Problem, without_bundle};
use domain::{Digest, Ruling};

use crate::files::files;

/// The names of all problems. A new one does not compile without an arm below, and is missed by the first
/// test without a row.
const PROBLEMS: [&str; 24] = [
    "Empty",
    "TooManyFiles",
    "TooLarge",
    "Path",
    "Syntax",
    "Package",
    "NoRules",
    "NotAMember",
    "Fields",
    "RuleName",
    "DuplicateRule",
    "Misshapen",
    "Reads",
    "Function",
    "Format",
    "With",
    "UnknownInput",
    "NotRead",
    "UnknownName",
    "Recursion",
    "TooDeep",
    "Test",
    "DuplicateTest",
    "Operators",
];

fn name(problem: &Problem) -> &'static str {
    match problem {
        Problem::Empty => "Empty",
        Problem::TooManyFiles { .. } => "TooManyFiles",
        Problem::TooLarge { .. } => "TooLarge",
        Problem::Path { .. } => "Path",
        Problem::Syntax(_) => "Syntax",
        Problem::Package(_) => "Package",
        Problem::NoRules => "NoRules",
        Problem::NotAMember { .. } => "NotAMember",
        Problem::Fields { .. } => "Fields",
        Problem::RuleName => "RuleName",
        Problem::DuplicateRule { .. } => "DuplicateRule",
        Problem::Misshapen { .. } => "Misshapen",
        Problem::Reads => "Reads",
        Problem::Function { .. } => "Function",
        Problem::Format => "Format",
        Problem::With => "With",
        Problem::UnknownInput { .. } => "UnknownInput",
        Problem::NotRead { .. } => "NotRead",
        Problem::UnknownName { .. } => "UnknownName",
        Problem::Recursion { .. } => "Recursion",
        Problem::TooDeep { .. } => "TooDeep",
        Problem::Test(_) => "Test",
        Problem::DuplicateTest { .. } => "DuplicateTest",
        Problem::Operators => "Operators",
    }
}

/// A rule that is right.
const RIGHT: &str = r#"allow contains {"rule": "right", "says": "s"} if true"#;

/// One file, `p.rego`, whose rules begin on line 2 with one that is right, with `rules` from line 3 on.
fn with(rules: &str) -> BTreeMap<String, String> {
    files(&[("p.rego", &format!("package countersign\n{RIGHT}\n{rules}\n"))])
}

fn with_test(tests: &str) -> BTreeMap<String, String> {
    let mut files = with("");
    files.insert(
        "p_test.rego".to_owned(),
        format!("package countersign_test\nimport data.countersign\n{tests}\n"),
    );
    files
}

/// Files, and how the refusal of them begins.
type Row = (BTreeMap<String, String>, &'static str);

fn rows() -> Vec<Row> {
    [about_files(), about_sets(), about_functions(), about_names()].concat()
}

fn about_files() -> Vec<Row> {
    let many = (0..65).map(|i| (format!("f{i}.rego"), RIGHT.to_owned())).collect();
    let large = format!("# {}\n", "x".repeat(1000)).repeat(300);
    vec![
        (files(&[]), "the bundle is empty"),
        (files(&[("a_test.rego", "package a_test")]), "the bundle is empty"),
        (many, "the bundle has 65 files; at most 64"),
        (with(&large), "the bundle has 300"),
        (files(&[("../p.rego", RIGHT)]), "`../p.rego` is no path of a bundle"),
        (files(&[("/p.rego", RIGHT)]), "`/p.rego` is no path"),
        (files(&[("p.json", "{}")]), "`p.json` is no path"),
        (files(&[("a:1:1.rego", RIGHT)]), "`a:1:1.rego` is no path"),
        (files(&[(".rego", RIGHT)]), "`.rego` is no path"),
        (with("deny contains {"), "p.rego:4:"),
        (
            with(&format!("x := {}1", "- ".repeat(100))),
            "p.rego:3:132: this expression has more than 64 operators",
        ),
        (with("x := undefined_thing"), "p.rego:3:6: nothing is called `undefined_thing` here"),
        (files(&[("p.rego", "package countersign_entry")]), "p.rego:1:1: the package `countersign_entry` is"),
        (files(&[("p.rego", "package p_test")]), "p.rego:1:1: a package that ends in `_test` belongs"),
        (
            files(&[("p_test.rego", "package p"), ("p.rego", "package p")]),
            "p_test.rego:1:1: a `_test.rego` file needs",
        ),
        (
            files(&[("p.rego", "package other\nallow contains {\"rule\": \"r\", \"says\": \"s\"} if true")]),
            "the bundle says nothing",
        ),
    ]
}

fn about_sets() -> Vec<Row> {
    vec![
        (with("deny := true"), "p.rego:3:1: `deny` is one of the three sets"),
        (with("default allow := false"), "p.rego:3:1: `allow` is one of the three sets"),
        (with("deny contains \"text\" if true"), "p.rego:3:1: `deny` is one of the three sets"),
        (with("deny(x) := x"), "p.rego:3:1: `deny` is one of the three sets"),
        (
            with("allow.more contains {\"rule\": \"r\", \"says\": \"s\"} if true"),
            "p.rego:3:1: `allow` is one",
        ),
        (
            with(r#"deny contains {"rule": "r"} if true"#),
            "p.rego:3:1: a member of `deny` has exactly the fields `rule` and `says`; this one has no `says`",
        ),
        (
            with(r#"deny contains {"says": "s"} if true"#),
            "p.rego:3:1: a member of `deny` has exactly the fields `rule` and `says`; this one has no `rule`",
        ),
        (
            with(r#"deny contains {"rule": "r", "says": "s", "until": 1} if true"#),
            "p.rego:3:43: a member of `deny` has exactly the fields `rule` and `says`; this one has `until`",
        ),
        (with(r#"deny contains {"rule": "r", "says": "s", lower("A"): 1} if true"#), "p.rego:3:"),
        (
            with(r#"deny contains {"rule": "two words", "says": "s"} if true"#),
            "p.rego:3:17: the name of a rule",
        ),
        (
            with(r#"deny contains {"rule": lower("R"), "says": "s"} if true"#),
            "p.rego:3:17: the name of a rule",
        ),
        (
            with(r#"deny contains {"rule": "right", "says": "s"} if true"#),
            "p.rego:3:1: the rule `right` stands twice, first at p.rego:2:1",
        ),
        (
            with(
                r#"needs_approval contains {"rule": "r", "says": "s", "tier": "extreme", "people": 1, "groups": []} if true"#,
            ),
            "p.rego:3:1: the rule `r` is misshapen: unknown variant `extreme`",
        ),
        (
            with(
                r#"needs_approval contains {"rule": "r", "says": "s", "tier": "low", "people": 3, "groups": []} if true"#,
            ),
            "p.rego:3:1: the rule `r` is misshapen: `people` is 3",
        ),
        (
            with(
                r#"needs_approval contains {"rule": "r", "says": "s", "tier": "low", "people": 1, "groups": ["a b"]} if true"#,
            ),
            "p.rego:3:1: the rule `r` is misshapen: group holds ' '",
        ),
        (with(r#"reads := [lower("A")]"#), "p.rego:3:1: `reads` is one list"),
        (with(r#"reads := [""]"#), "p.rego:3:1: `reads` is one list"),
        (with("reads contains \"a\" if true"), "p.rego:3:1: `reads` is one list"),
        (with("reads := [\"a\"]\nreads := [\"b\"]"), "p.rego:4:1: `reads` is one list"),
    ]
}

fn about_functions() -> Vec<Row> {
    vec![
        (
            with(r#"x if rand.intn("a", 2) == 1"#),
            "p.rego:3:6: there is no function `rand.intn` for policies; a verdict may depend",
        ),
        (with("x if time.now_ns() > 1"), "p.rego:3:6: there is no function `time.now_ns`"),
        (
            with(r#"x := http.send({"url": "http://x"})"#),
            "p.rego:3:6: there is no function `http.send` for policies; a policy does not reach",
        ),
        (with("x if print(1)"), "p.rego:3:6: there is no function `print`"),
        (with("x := numbers.range(0, 9000000000000)"), "p.rego:3:6: there is no function `numbers.range`"),
        (with("x := no_such_function(1)"), "p.rego:3:6: there is no function `no_such_function`"),
        (with(r#"x := sprintf("%999999999d", [1])"#), "p.rego:3:6: the format of `sprintf`"),
        (with("x := sprintf(input.run.tenant, [1])"), "p.rego:3:6: the format of `sprintf`"),
    ]
}

fn about_names() -> Vec<Row> {
    let deep: Vec<String> = (0..100).map(|i| format!("r{i} := r{}", i + 1)).collect();
    vec![
        (with("x if { input.step.undo with input.step.undo as true }"), "p.rego:3:29: `with` is for tests"),
        (
            with_test("test_x if count(countersign.allow) == 1 with data.countersign.allow as []"),
            "p_test.rego:3:46: `with` is for tests",
        ),
        (
            with_test("test_x if count(countersign.allow) == 1 with count as 1"),
            "p_test.rego:3:46: `with` is for tests",
        ),
        (
            with("x if input.run.enviroment == \"prod\""),
            "p.rego:3:6: there is no `input.run.enviroment`, so this would never hold; there are `input.run.environment`",
        ),
        (
            with("x if input.environment == \"prod\""),
            "p.rego:3:6: there is no `input.environment`, so this would never hold; there are `input.action`",
        ),
        (
            with("x if input.run.environment.name == \"prod\""),
            "p.rego:3:6: there is no `input.run.environment.name`",
        ),
        (
            with("x if input[\"run\"][\"enviroment\"] == \"prod\""),
            "p.rego:3:6: there is no `input.run.enviroment`",
        ),
        (
            with_test("test_x if count(countersign.allow) == 1 with input.run.enviroment as 1"),
            "p_test.rego:3:46: there is no `input.run.enviroment`",
        ),
        (
            with("x if input.action.values.note == \"\""),
            "p.rego:3:6: the value `note` is not shown to this policy; add it to `reads`",
        ),
        (
            with("x := data.countersign.nothing"),
            "p.rego:3:6: nothing is called `data.countersign.nothing` here",
        ),
        (with("x := data.countersign_test.y"), "p.rego:3:6: nothing is called `data.countersign_test.y`"),
        (with("f(x) := g(x)\ng(x) := f(x)"), "p.rego:3:1: `f` leads back to itself"),
        (with("f(x) := data.countersign.f(x)"), "p.rego:3:1: `f` leads back to itself"),
        (with("x := y\ny := x"), "p.rego:3:1: `x` leads back to itself"),
        (with("x := count(data.countersign)"), "p.rego:3:1: `x` leads back to itself"),
        (with(&format!("{}\nr100 := 1", deep.join("\n"))), "p.rego:"),
        (with("test_x if true"), "p.rego:3:1: a rule called `test_…` belongs into a `_test.rego` file"),
        (with_test("test_x(y) if y"), "p_test.rego:3:1: a test is a plain rule"),
        (
            with_test("test_x if true\ntest_x if false"),
            "p_test.rego:4:1: the test `test_x` stands twice, first at p_test.rego:3:1",
        ),
    ]
}

fn refused(files: &BTreeMap<String, String>) -> BundleError {
    Bundle::parse(files.clone()).map_or_else(|error| error, |_| panic!("{files:?} is taken as a bundle"))
}

#[test]
fn every_problem_is_refused_with_its_place_and_the_way_out() {
    let mut seen = BTreeSet::new();
    for (files, expected) in rows() {
        let error = refused(&files);
        assert!(error.to_string().starts_with(expected), "expected {expected:?}, found {error}");
        seen.insert(name(&error.problem));
    }
    let all: BTreeSet<&str> = PROBLEMS.into_iter().collect();
    assert_eq!(seen, all);
}

#[test]
fn a_tenant_whose_bundle_is_refused_is_denied_everything() {
    for (files, _) in rows() {
        let verdict = without_bundle(Digest::ZERO, &refused(&files).to_string());
        assert_eq!(verdict.ruling, Ruling::Deny);
    }
}

#[test]
fn an_error_is_shown_with_its_line_and_a_caret() {
    let files = with("x if input.run.enviroment == \"prod\"");
    let shown = refused(&files).render(&files);
    assert!(shown.ends_with("\n  |\n3 | x if input.run.enviroment == \"prod\"\n  |      ^\n"), "{shown}");
}

#[test]
fn a_rule_may_read_a_part_of_the_input_that_is_known_only_when_it_runs() {
    let rules = r#"
        part := "environment"
        x if input.run[part] == "prod"
        y if some name, kind in input.action.fields
        z if "assignment_group" in input.action.changes
        v if input.action.fields["fields.urgency"] == "number"
    "#;
    Bundle::parse(with(rules)).unwrap();
}
