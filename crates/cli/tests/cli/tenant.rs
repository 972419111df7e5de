//! `tenant …`.

use crate::env::CliEnv;

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
fn tenant_set_prints_every_change() {
    let env = CliEnv::new();
    env.write("acme.yaml", FILE);
    let set = env.run("tenant set acme.yaml --tenant acme").expect(0);
    set.prints("tenant acme, revision 0")
        .prints("user ada added, Slack user T0ACME:U0ADA")
        .prints("user bob added")
        .prints("group db-oncall added: ada, bob")
        .prints("maximum effects per run: 64 -> 20");
    env.run("tenant set acme.yaml --tenant acme").expect(0).prints("nothing changed");

    env.write("acme.yaml", FILE.replace("[ada, bob]", "[bob]").replace("U0ADA", "U0NEW"));
    let set =
        env.run("tenant set acme.yaml --tenant acme").expect(0).prints("ada removed from group db-oncall");
    set.prints("Slack user of ada: T0ACME:U0ADA -> T0ACME:U0NEW").prints("revision 1");

    let shown = env.run("tenant show --tenant acme").expect(0).prints("the default policy");
    let rows: Vec<Vec<&str>> = shown.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["ada", "T0ACME:U0NEW"]), "{rows:?}");
    assert!(rows.contains(&vec!["bob", "db-oncall"]), "{rows:?}");
    env.run("tenant show").expect(0).prints("  none; any user with the role approver");
}

#[test]
fn tenant_show_output_can_be_set() {
    let env = CliEnv::new();
    env.write("acme.yaml", FILE);
    env.run("tenant set acme.yaml").expect(0);
    let shown = env.run("tenant show --json").expect(0).json();
    let again = serde_json::json!({
        "people": shown["people"], "groups": shown["groups"], "caps": shown["caps"],
    });
    env.write("again.json", again.to_string());
    env.run("tenant set again.json").expect(0).prints("nothing changed");
}

#[test]
fn invalid_tenant_file_changes_nothing() {
    let env = CliEnv::new();
    for (file, words) in [
        (
            "{people: {ada: {}}, groups: {db: [ada, eve]}}",
            "group `db` contains `eve`, who is not in `people`",
        ),
        (
            "{people: {ada: {slack: 'T0:U1'}, bob: {slack: 'T0:U1'}}}",
            "`ada` and `bob` have the same Slack user T0:U1",
        ),
        ("{people: {ada: {slack: U1}}}", "`slack` of `ada` is \"U1\"; write TEAM:USER"),
        ("{people: {ada: {slak: 'T0:U1'}}}", "slak"),
        ("{peeple: {}}", "peeple"),
        ("{people: {}, policy: abc}", "policy"),
        ("{caps: {max_writes_per_run: -1}}", "max_writes_per_run"),
        ("{people: {'a/b': {}}}", "a/b"),
        ("{people: {ada: {}, ada: {}}}", "ada"),
        ("[]", "tenant.yaml is invalid"),
    ] {
        env.write("tenant.yaml", file);
        env.run("tenant set tenant.yaml").expect(2).prints("tenant.yaml is invalid").prints(words);
    }
    env.run("tenant set missing.yaml").expect(2).prints("cannot read missing.yaml");
    env.run("tenant show").expect(3).prints("countersign.db does not exist");
}

#[test]
fn only_group_members_may_approve() {
    let env = CliEnv::new();
    env.write("acme.yaml", "{people: {ada: {}, bob: {}, eve: {}}, groups: {db-oncall: [bob]}}");
    env.run("tenant set acme.yaml").expect(0);
    std::fs::create_dir(env.path("policy")).unwrap();
    env.write(
        "policy/rules.rego",
        r#"package countersign

needs_approval contains {
	"rule": "oncall", "message": "those on call decide", "tier": "low", "people": 1, "groups": ["db-oncall"],
} if input.action.tool == "http.request"
"#,
    );
    env.write(
        "policy/rules_test.rego",
        r#"package countersign_test

import data.countersign

test_oncall if {
	count(countersign.needs_approval) == 1 with input as {"action": {"tool": "http.request"}}
}
"#,
    );
    env.run("policy apply policy").expect(0);
    let run = env.start(
        "{workflow: w, version: 1, environment: dev, steps: [{id: post, tool: http.request, with: {method: POST, url: 'https://example.com/', effect: native_key}}]}",
    );
    env.run("policy explain workflow.yaml").expect(0).prints("by one person of db-oncall, low tier");
    env.work("");
    env.run(&format!("approval approve {run} post --by eve")).expect(1);
    env.run(&format!("approval reject {run} post --by bob")).expect(0).prints("rejected by bob");
}
