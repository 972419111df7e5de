//! `tenant …`: what a tenant settles for all its runs.

use crate::shell::Shell;

const FILE: &str = "\
people:
  ada: { slack: T0ACME:U0ADA }
  bob:
groups:
  db-oncall: [ada, bob]
caps:
  max_writes_per_run: 20
";

#[test]
fn what_a_file_says_is_settled_and_every_change_is_told() {
    let shell = Shell::new();
    shell.write("acme.yaml", FILE);
    let set = shell.run("tenant set acme.yaml --tenant acme").expect(0);
    set.says("tenant acme, revision 0")
        .says("ada is new, in Slack T0ACME:U0ADA")
        .says("bob is new")
        .says("group db-oncall is new: ada, bob")
        .says("a run could have 64 effects and may have 20 now");
    shell.run("tenant set acme.yaml --tenant acme").expect(0).says("nothing changed");

    shell.write("acme.yaml", FILE.replace("[ada, bob]", "[bob]").replace("U0ADA", "U0NEW"));
    let set = shell.run("tenant set acme.yaml --tenant acme").expect(0).says("ada left group db-oncall");
    set.says("ada was T0ACME:U0ADA in Slack and is T0ACME:U0NEW now").says("revision 1");

    let shown = shell.run("tenant show --tenant acme").expect(0).says("the one that ships with the program");
    let rows: Vec<Vec<&str>> = shown.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["ada", "T0ACME:U0NEW"]), "{rows:?}");
    assert!(rows.contains(&vec!["bob", "db-oncall"]), "{rows:?}");
    shell.run("tenant show").expect(0).says("nobody is named");
}

#[test]
fn what_is_shown_can_be_set_again() {
    let shell = Shell::new();
    shell.write("acme.yaml", FILE);
    shell.run("tenant set acme.yaml").expect(0);
    let shown = shell.run("tenant show --json").expect(0).json();
    let again = serde_json::json!({
        "people": shown["people"], "groups": shown["groups"], "caps": shown["caps"],
    });
    shell.write("again.json", again.to_string());
    shell.run("tenant set again.json").expect(0).says("nothing changed");
}

#[test]
fn a_file_that_would_let_the_wrong_one_approve_is_refused_and_changes_nothing() {
    let shell = Shell::new();
    for (file, words) in [
        (
            "{people: {ada: {}}, groups: {db: [ada, eve]}}",
            "group `db` names `eve`, who is not among `people`",
        ),
        (
            "{people: {ada: {slack: 'T0:U1'}, bob: {slack: 'T0:U1'}}}",
            "`ada` and `bob` are both the Slack user T0:U1",
        ),
        ("{people: {ada: {slack: U1}}}", "`slack` of `ada` is \"U1\"; write TEAM:USER"),
        ("{people: {ada: {slak: 'T0:U1'}}}", "slak"),
        ("{peeple: {}}", "peeple"),
        ("{people: {}, policy: abc}", "policy"),
        ("{caps: {max_writes_per_run: -1}}", "max_writes_per_run"),
        ("{people: {'a/b': {}}}", "a/b"),
        ("{people: {ada: {}, ada: {}}}", "ada"),
        ("[]", "tenant.yaml cannot be used"),
    ] {
        shell.write("tenant.yaml", file);
        shell.run("tenant set tenant.yaml").expect(2).says("tenant.yaml cannot be used").says(words);
    }
    shell.run("tenant set missing.yaml").expect(2).says("missing.yaml cannot be read");
    shell.run("tenant show").expect(3).says("there is no store");
}

#[test]
fn only_those_in_the_group_may_approve_what_policy_hands_to_it() {
    let shell = Shell::new();
    shell.write("acme.yaml", "{people: {ada: {}, bob: {}, eve: {}}, groups: {db-oncall: [bob]}}");
    shell.run("tenant set acme.yaml").expect(0);
    std::fs::create_dir(shell.path("policy")).unwrap();
    shell.write(
        "policy/rules.rego",
        r#"package countersign

needs_approval contains {
	"rule": "oncall", "says": "those on call decide", "tier": "low", "people": 1, "groups": ["db-oncall"],
} if input.action.tool == "http.request"
"#,
    );
    shell.write(
        "policy/rules_test.rego",
        r#"package countersign_test

import data.countersign

test_oncall if {
	count(countersign.needs_approval) == 1 with input as {"action": {"tool": "http.request"}}
}
"#,
    );
    shell.run("policy apply policy").expect(0);
    let run = shell.start(
        "{workflow: w, version: 1, environment: dev, steps: [{id: post, tool: http.request, with: {method: POST, url: 'https://example.com/', effect: native_key}}]}",
    );
    shell.run("policy explain workflow.yaml").expect(0).says("by one person of db-oncall, low tier");
    shell.work("");
    shell.run(&format!("approval approve {run} post --by eve")).expect(1);
    shell.run(&format!("approval reject {run} post --by bob")).expect(0).says("rejected by bob");
}
