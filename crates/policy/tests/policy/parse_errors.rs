//! Files that are not a valid bundle. Every kind of error has a row with its location and message.

use std::collections::{BTreeMap, BTreeSet};

use countersign_policy::{PolicyBundle, PolicyError, PolicyErrorKind, without_bundle};
use domain::{Digest, Ruling};

use crate::files::files;

/// All kinds of errors. A new kind does not compile without an arm below, and fails the first test without a row.
const KINDS: [&str; 28] = [
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
    "InvalidMember",
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
    "Pattern",
    "BeforeNot",
    "Glob",
    "Nesting",
];

fn name(kind: &PolicyErrorKind) -> &'static str {
    match kind {
        PolicyErrorKind::Empty => "Empty",
        PolicyErrorKind::TooManyFiles { .. } => "TooManyFiles",
        PolicyErrorKind::TooLarge { .. } => "TooLarge",
        PolicyErrorKind::Path { .. } => "Path",
        PolicyErrorKind::Syntax(_) => "Syntax",
        PolicyErrorKind::Package(_) => "Package",
        PolicyErrorKind::NoRules => "NoRules",
        PolicyErrorKind::NotAMember { .. } => "NotAMember",
        PolicyErrorKind::Fields { .. } => "Fields",
        PolicyErrorKind::RuleName => "RuleName",
        PolicyErrorKind::DuplicateRule { .. } => "DuplicateRule",
        PolicyErrorKind::InvalidMember { .. } => "InvalidMember",
        PolicyErrorKind::Reads => "Reads",
        PolicyErrorKind::Function { .. } => "Function",
        PolicyErrorKind::Format => "Format",
        PolicyErrorKind::With => "With",
        PolicyErrorKind::UnknownInput { .. } => "UnknownInput",
        PolicyErrorKind::NotRead { .. } => "NotRead",
        PolicyErrorKind::UnknownName { .. } => "UnknownName",
        PolicyErrorKind::Recursion { .. } => "Recursion",
        PolicyErrorKind::TooDeep { .. } => "TooDeep",
        PolicyErrorKind::Test(_) => "Test",
        PolicyErrorKind::DuplicateTest { .. } => "DuplicateTest",
        PolicyErrorKind::Operators => "Operators",
        PolicyErrorKind::Pattern { .. } => "Pattern",
        PolicyErrorKind::BeforeNot { .. } => "BeforeNot",
        PolicyErrorKind::Glob => "Glob",
        PolicyErrorKind::Nesting => "Nesting",
    }
}

/// A valid rule.
const VALID: &str = r#"allow contains {"rule": "valid", "message": "s"} if true"#;

/// One file, `p.rego`, with a valid rule on line 2 and `rules` from line 3.
fn with(rules: &str) -> BTreeMap<String, String> {
    files(&[("p.rego", &format!("package countersign\n{VALID}\n{rules}\n"))])
}

fn with_test(tests: &str) -> BTreeMap<String, String> {
    let mut files = with("");
    files.insert(
        "p_test.rego".to_owned(),
        format!("package countersign_test\nimport data.countersign\n{tests}\n"),
    );
    files
}

/// Files, and the start of the expected error.
type Row = (BTreeMap<String, String>, &'static str);

fn rows() -> Vec<Row> {
    [file_rows(), set_rows(), function_rows(), name_rows()].concat()
}

fn file_rows() -> Vec<Row> {
    let many = (0..65).map(|i| (format!("f{i}.rego"), VALID.to_owned())).collect();
    let large = format!("# {}\n", "x".repeat(1000)).repeat(300);
    vec![
        (files(&[]), "the bundle is empty"),
        (files(&[("a_test.rego", "package a_test")]), "the bundle is empty"),
        (many, "the bundle has 65 files; at most 64"),
        (with(&large), "the bundle has 300"),
        (files(&[("../p.rego", VALID)]), "invalid path `../p.rego`"),
        (files(&[("/p.rego", VALID)]), "invalid path `/p.rego`"),
        (files(&[("p.json", "{}")]), "invalid path `p.json`"),
        (files(&[("a:1:1.rego", VALID)]), "invalid path `a:1:1.rego`"),
        (files(&[(".rego", VALID)]), "invalid path `.rego`"),
        (with("deny contains {"), "p.rego:4:"),
        (
            with(&format!("x := {}", "[".repeat(40))),
            "p.rego:3:20: brackets are nested more than 14 levels deep",
        ),
        (with(&format!("x := {}1", "- ".repeat(100))), "p.rego:3:132: expression has more than 64 operators"),
        (with("x := undefined_thing"), "p.rego:3:6: unknown name `undefined_thing`"),
        (
            files(&[("p.rego", "package countersign_entry")]),
            "p.rego:1:1: package `countersign_entry` is reserved",
        ),
        (
            files(&[("p.rego", "package p_test")]),
            "p.rego:1:1: a package that ends in `_test` is allowed only",
        ),
        (
            files(&[("p_test.rego", "package p"), ("p.rego", "package p")]),
            "p_test.rego:1:1: a `_test.rego` file needs",
        ),
        (
            files(&[(
                "p.rego",
                "package other\nallow contains {\"rule\": \"r\", \"message\": \"s\"} if true",
            )]),
            "the bundle has no rules",
        ),
    ]
}

fn set_rows() -> Vec<Row> {
    vec![
        (with("deny := true"), "p.rego:3:1: `deny` must be a set of objects"),
        (with("default allow := false"), "p.rego:3:1: `allow` must be a set of objects"),
        (with("deny contains \"text\" if true"), "p.rego:3:1: `deny` must be a set of objects"),
        (with("deny(x) := x"), "p.rego:3:1: `deny` must be a set of objects"),
        (
            with("allow.more contains {\"rule\": \"r\", \"message\": \"s\"} if true"),
            "p.rego:3:1: `allow` must be a set",
        ),
        (
            with(r#"deny contains {"rule": "r"} if true"#),
            "p.rego:3:1: a member of `deny` must have exactly the fields `rule` and `message`; this member has no `message`",
        ),
        (
            with(r#"deny contains {"message": "s"} if true"#),
            "p.rego:3:1: a member of `deny` must have exactly the fields `rule` and `message`; this member has no `rule`",
        ),
        (
            with(r#"deny contains {"rule": "r", "message": "s", "until": 1} if true"#),
            "p.rego:3:46: a member of `deny` must have exactly the fields `rule` and `message`; this member has the unknown field `until`",
        ),
        (with(r#"deny contains {"rule": "r", "message": "s", lower("A"): 1} if true"#), "p.rego:3:"),
        (
            with(r#"deny contains {"rule": "two words", "message": "s"} if true"#),
            "p.rego:3:17: invalid rule name",
        ),
        (
            with(r#"deny contains {"rule": lower("R"), "message": "s"} if true"#),
            "p.rego:3:17: invalid rule name",
        ),
        (
            with(r#"deny contains {"rule": "valid", "message": "s"} if true"#),
            "p.rego:3:1: duplicate rule `valid`, first defined at p.rego:2:1",
        ),
        (
            with(
                r#"needs_approval contains {"rule": "r", "message": "s", "tier": "extreme", "people": 1, "groups": []} if true"#,
            ),
            "p.rego:3:1: rule `r` is invalid: unknown variant `extreme`",
        ),
        (
            with(
                r#"needs_approval contains {"rule": "r", "message": "s", "tier": "low", "people": 3, "groups": []} if true"#,
            ),
            "p.rego:3:1: rule `r` is invalid: `people` is 3",
        ),
        (
            with(
                r#"needs_approval contains {"rule": "r", "message": "s", "tier": "low", "people": 1, "groups": ["a b"]} if true"#,
            ),
            "p.rego:3:1: rule `r` is invalid: group contains ' '",
        ),
        (with(r#"reads := [lower("A")]"#), "p.rego:3:1: `reads` must be defined once"),
        (with(r#"reads := [""]"#), "p.rego:3:1: `reads` must be defined once"),
        (with("reads contains \"a\" if true"), "p.rego:3:1: `reads` must be defined once"),
        (with("reads := [\"a\"]\nreads := [\"b\"]"), "p.rego:4:1: `reads` must be defined once"),
    ]
}

fn function_rows() -> Vec<Row> {
    vec![
        (
            with(r#"x if rand.intn("a", 2) == 1"#),
            "p.rego:3:6: function `rand.intn` is not available in policies; a verdict depends",
        ),
        (with("x if time.now_ns() > 1"), "p.rego:3:6: function `time.now_ns`"),
        (
            with(r#"x := http.send({"url": "http://x"})"#),
            "p.rego:3:6: function `http.send` is not available in policies; policies have no",
        ),
        (with("x if print(1)"), "p.rego:3:6: function `print`"),
        (with("x := numbers.range(0, 9000000000000)"), "p.rego:3:6: function `numbers.range`"),
        (with("x := no_such_function(1)"), "p.rego:3:6: function `no_such_function`"),
        (with(r#"x := sprintf("%999999999d", [1])"#), "p.rego:3:6: the format of `sprintf`"),
        (with("x := sprintf(input.run.tenant, [1])"), "p.rego:3:6: the format of `sprintf`"),
        (
            with(r#"x if glob.match("[^a]*", [], input.run.tenant)"#),
            "p.rego:3:6: `[^`, `[]`, `-]` and `***` mean something else in OPA's globs; write `[!a]`",
        ),
        (
            with(r#"x if regex.match("(?=a)", input.run.tenant)"#),
            "p.rego:3:6: invalid pattern: a group that RE2 does not have; write the pattern in RE2 syntax",
        ),
    ]
}

fn name_rows() -> Vec<Row> {
    let deep: Vec<String> = (0..100).map(|i| format!("r{i} := r{}", i + 1)).collect();
    vec![
        (
            with("x if { input.step.rollback with input.step.rollback as true }"),
            "p.rego:3:33: `with` is allowed only in tests",
        ),
        (
            with_test("test_x if count(countersign.allow) == 1 with data.countersign.allow as []"),
            "p_test.rego:3:46: `with` is allowed only in tests",
        ),
        (
            with_test("test_x if count(countersign.allow) == 1 with count as 1"),
            "p_test.rego:3:46: `with` is allowed only in tests",
        ),
        (
            with("x if input.run.enviroment == \"prod\""),
            "p.rego:3:6: unknown field `input.run.enviroment`; the condition would never match; available: `input.run.environment`",
        ),
        (
            with("x if input.environment == \"prod\""),
            "p.rego:3:6: unknown field `input.environment`; the condition would never match; available: `input.action`",
        ),
        (
            with("x if input.run.environment.name == \"prod\""),
            "p.rego:3:6: unknown field `input.run.environment.name`",
        ),
        (
            with("x if input[\"run\"][\"enviroment\"] == \"prod\""),
            "p.rego:3:6: unknown field `input.run.enviroment`",
        ),
        (
            with_test("test_x if count(countersign.allow) == 1 with input.run.enviroment as 1"),
            "p_test.rego:3:46: unknown field `input.run.enviroment`",
        ),
        (
            with("x if input.action.values.note == \"\""),
            "p.rego:3:6: value `note` is not in `reads`; add it to `reads`",
        ),
        (
            with(r#"x if not startswith(input.action.fields.note, "a")"#),
            "p.rego:3:21: `input.action.fields.note` may have no value, and then `not` is undefined in OPA; assign it first",
        ),
        (
            with("y := 1 if input.step.rollback\nx if not y < 2"),
            "p.rego:4:10: `y` may have no value, and then",
        ),
        (
            with("owners := {\"a\": \"b\"}\nx if not startswith(owners.c, \"b\")"),
            "p.rego:4:21: `owners.c` may have no value",
        ),
        (with("x if not count([max(input.action.changes)]) > 1"), "p.rego:3:17: `max(…)` may have no value"),
        (with("x := data.countersign.nothing"), "p.rego:3:6: unknown name `data.countersign.nothing`"),
        (with("x := data.countersign_test.y"), "p.rego:3:6: unknown name `data.countersign_test.y`"),
        (with("f(x) := g(x)\ng(x) := f(x)"), "p.rego:3:1: rule `f` depends on itself"),
        (with("f(x) := data.countersign.f(x)"), "p.rego:3:1: rule `f` depends on itself"),
        (with("x := y\ny := x"), "p.rego:3:1: rule `x` depends on itself"),
        (with("x := count(data.countersign)"), "p.rego:3:1: rule `x` depends on itself"),
        (with(&format!("{}\nr100 := 1", deep.join("\n"))), "p.rego:"),
        (with("test_x if true"), "p.rego:3:1: tests run only from `_test.rego` files"),
        (with_test("test_x(y) if y"), "p_test.rego:3:1: a test must be a rule without arguments"),
        (
            with_test("test_x if true\ntest_x if false"),
            "p_test.rego:4:1: duplicate test `test_x`, first defined at p_test.rego:3:1",
        ),
    ]
}

fn refused(files: &BTreeMap<String, String>) -> PolicyError {
    PolicyBundle::parse(files.clone()).map_or_else(|error| error, |_| panic!("{files:?} parses as a bundle"))
}

#[test]
fn every_error_has_its_location_and_fix() {
    let mut seen = BTreeSet::new();
    for (files, expected) in rows() {
        let error = refused(&files);
        assert!(error.to_string().starts_with(expected), "expected {expected:?}, found {error}");
        seen.insert(name(&error.kind));
    }
    let all: BTreeSet<&str> = KINDS.into_iter().collect();
    assert_eq!(seen, all);
}

#[test]
fn invalid_bundle_denies_everything() {
    for (files, _) in rows() {
        let verdict = without_bundle(Digest::ZERO, &refused(&files).to_string());
        assert_eq!(verdict.ruling, Ruling::Deny);
    }
}

#[test]
fn error_is_rendered_with_source_line_and_caret() {
    let files = with("x if input.run.enviroment == \"prod\"");
    let rendered = refused(&files).render(&files);
    assert!(
        rendered.ends_with("\n  |\n3 | x if input.run.enviroment == \"prod\"\n  |      ^\n"),
        "{rendered}"
    );
}

#[test]
fn operand_of_not_that_has_a_value_is_accepted() {
    let rules = r#"
        hosts := {"a", "b"}
        default risky := false
        risky if input.action.destructive
        a if not startswith(lower(input.action.tool), "servicenow.")
        b if not input.run.workflow in hosts
        c if not input.action.fields.note == "a"
        d if not count([x | some x in input.action.fields.note]) > 1
        e if { note := input.action.fields.note; not startswith(note, "a") }
        f if not risky != true
        g if not object.get(input.action.fields, "note", "") in hosts
    "#;
    PolicyBundle::parse(with(rules)).unwrap();
}

#[test]
fn line_may_be_long() {
    let names: Vec<String> = (0..400).map(|n| format!("\"name-{n}\"")).collect();
    PolicyBundle::parse(with(&format!("names := {{{}}}", names.join(", ")))).unwrap();
}

#[test]
fn dynamic_input_paths_are_accepted() {
    let rules = r#"
        part := "environment"
        x if input.run[part] == "prod"
        y if some name, kind in input.action.fields
        z if "assignment_group" in input.action.changes
        v if input.action.fields["fields.urgency"] == "number"
    "#;
    PolicyBundle::parse(with(rules)).unwrap();
}
