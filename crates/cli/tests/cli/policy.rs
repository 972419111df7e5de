//! `policy …`: a policy is checked, tested, explained and settled on.

use crate::shell::Shell;

const RULES: &str = r#"package countersign

allow contains {"rule": "posts", "says": "posts may be made"} if {
	input.action.tool == "http.request"
}
"#;

const TESTS: &str = r#"package countersign_test

import data.countersign

test_posts if {
	some member in countersign.allow with input as {"action": {"tool": "http.request"}}
	member.rule == "posts"
}
"#;

const WORKFLOW: &str = "\
workflow: report
version: 1
steps:
  - { id: shape, tool: transform, with: { value: { to: '${ trigger.to }' } } }
  - { id: post, tool: http.request, with: { method: POST, url: 'https://example.com/${ steps.shape.to }', effect: native_key } }
  - { id: wait, tool: wait.event, with: { event: e } }
  - { id: again, tool: http.request, with: { method: POST, url: 'https://example.com/${ steps.wait.id }', effect: native_key } }
";

/// A shell with a policy in `policy/`, and a workflow.
fn shell() -> Shell {
    let shell = Shell::new();
    std::fs::create_dir_all(shell.path("crates/policy/tests")).unwrap();
    shell.write("policy/rules.rego", RULES);
    shell.write("crates/policy/tests/rules_test.rego", TESTS);
    shell.write("workflow.yaml", WORKFLOW);
    shell
}

#[test]
fn a_policy_is_checked_with_its_hash_rules_and_tests() {
    let shell = shell();
    shell.run("policy check policy").expect(0).says("policy: policy ").says("1 rule, 1 test");
    let checked = shell.run("policy check policy --json").expect(0).json();
    assert_eq!(checked["files"], serde_json::json!(["rules.rego", "tests/rules_test.rego"]));
    assert_eq!(checked["policy"].as_str().unwrap().len(), 64);
}

#[test]
fn a_mistake_in_a_policy_is_told_with_file_line_column_and_caret() {
    let shell = shell();
    shell.write("policy/rules.rego", RULES.replace("action.tool", "action.tol"));
    for verb in ["check", "test", "apply"] {
        let answer = shell.run(&format!("policy {verb} policy")).expect(2);
        let answer = answer.says("error: policy/rules.rego:4:").says("`input.action.tol`").says("4 | ");
        assert!(answer.err.lines().last().unwrap().trim_end().ends_with('^'), "{answer:?}");
    }
    let error = shell.run("policy check policy --json").expect(2).error();
    assert_eq!((&error["place"]["file"], &error["place"]["line"]), (&"policy/rules.rego".into(), &4.into()));
    assert!(!shell.path("countersign.db").exists(), "what is no policy must not create a store");
}

#[test]
fn what_is_no_policy_at_all_is_refused_by_name() {
    let shell = shell();
    std::fs::create_dir(shell.path("empty")).unwrap();
    shell.run("policy check empty").expect(2).says("empty: the bundle is empty");
    shell.run("policy check missing").expect(2).says("missing cannot be read");
    shell.run("policy check workflow.yaml").expect(2).says("workflow.yaml cannot be read");
    shell.write("policy/binary.rego", b"\xff");
    shell.run("policy check policy").expect(2).says("policy/binary.rego is not UTF-8 text");
}

#[test]
fn a_failing_test_is_named_with_its_place_and_keeps_the_policy_from_being_applied() {
    let shell = shell();
    shell.run("policy test policy").expect(0).says("1 of 1 tests passed");
    shell.write("crates/policy/tests/rules_test.rego", TESTS.replace("\"posts\"", "\"puts\""));
    let failed = "FAILED  test_posts  tests/rules_test.rego:5";
    shell.run("policy test policy").expect(1).says(failed).says("0 of 1 tests passed");
    assert_eq!(shell.run("policy test policy --json").expect(1).json()["green"], false);
    shell.run("policy apply policy").expect(1).says("is not applied").says(failed);
    shell.run("policy apply policy --force").expect(2).says("unexpected argument");
    std::fs::remove_file(shell.path("crates/policy/tests/rules_test.rego")).unwrap();
    shell.run("policy test policy").expect(1).says("there are no tests");
    shell.run("policy apply policy").expect(1).says("there are no tests");
    assert!(!shell.path("countersign.db").exists());
}

#[test]
fn an_explanation_names_rule_file_and_line_without_running_anything() {
    let shell = shell();
    let input = r#"{"to": "ops"}"#;
    let answer = shell.run_with("policy explain workflow.yaml --input", input).expect(0);
    let answer = answer
        .says("ships with the program; tenant default has settled on none")
        .says("changes nothing outside; policy is not asked")
        .says("needs approval by one person")
        .says("on       example.com/ops")
        .says("because  prod-write: a change in production needs a second pair of eyes (approval.rego:8)")
        .says("waits for an event")
        .says("reads what wait gives")
        .says("--output wait=JSON");
    assert_eq!(answer.out.matches("prod-write").count(), 1, "{answer:?}");
    assert!(!shell.path("countersign.db").exists(), "explaining must not create a store");
}

#[test]
fn an_explanation_takes_samples_of_outputs_and_another_policy() {
    let shell = shell();
    let explain = "policy explain workflow.yaml --step again --output wait={\"id\":7}";
    let answer = shell.run(&format!("{explain} --policy policy")).expect(0);
    // Policy allows it, and the runtime asks all the same: the workflow runs in production.
    let answer = answer
        .says("in policy")
        .says("needs approval by one person, low tier")
        .says("because  posts: posts may be made (rules.rego:3)")
        .says("because  validation/mode: every action of this workflow is seen by a person")
        .says("example.com/7");
    assert!(!answer.out.contains("shape"), "{answer:?}");

    shell.write("workflow.yaml", format!("environment: dev\n{WORKFLOW}"));
    let json = shell.run(&format!("{explain} --policy policy --json")).expect(0).json();
    let step = &json["steps"][0];
    assert_eq!((&step["id"], &step["ruling"]), (&"again".into(), &"allow".into()));
    let rule = &step["explanation"]["rules"][0];
    assert_eq!((&rule["rule"], &rule["place"]["line"]), (&"posts".into(), &3.into()));
    assert_eq!(step["explanation"]["input"]["run"]["requester"], "ada");
    assert_eq!(step["verdict"]["because"][0]["file"], "rules.rego");
}

#[test]
fn what_cannot_be_explained_says_why() {
    let shell = shell();
    shell
        .run("policy explain workflow.yaml --step nope")
        .expect(2)
        .says("there are shape, post, wait, again");
    shell.run("policy explain workflow.yaml --output nope=1").expect(2).says("no step `nope`");
    shell.run("policy explain workflow.yaml --output wait").expect(2).says("write the step, `=`");
    shell.run("policy explain workflow.yaml --output wait={").expect(2).says("the output of step `wait`");
    shell.run("policy explain missing.yaml").expect(2).says("missing.yaml cannot be read");
    // Without the input, nobody knows what the first step gives.
    shell.run("policy explain workflow.yaml").expect(0).says("not known: `${ trigger.to }`");
}

#[test]
fn systems_that_are_not_configured_can_be_explained() {
    let shell = Shell::new();
    shell.write(
        "workflow.yaml",
        "workflow: triage
version: 1
environment: dev
steps:
  - { id: read, tool: servicenow.get, with: { table: incident, sys_id: '46d44a23a9fe19810012d100cca80666' } }
  - { id: assign, tool: servicenow.update, with: { table: incident, sys_id: '46d44a23a9fe19810012d100cca80666', fields: { urgency: '1' } } }
",
    );
    shell
        .run("policy explain workflow.yaml")
        .expect(0)
        .says("allowed")
        .says("servicenow.invalid")
        .says("rehearsal-write");
    shell.write("config.yaml", "servicenow: { base: 'https://acme.example', token_env: NOT_SET }");
    shell.run("policy explain workflow.yaml --config config.yaml").expect(0).says("acme.example");
}

#[test]
fn a_run_that_is_at_its_cap_is_denied_in_the_explanation_too() {
    let shell = shell();
    shell.write("tenant.yaml", "caps: { max_writes_per_run: 1 }");
    shell.run("tenant set tenant.yaml").expect(0);
    let input = r#"{"to": "ops"}"#;
    shell
        .run_with("policy explain workflow.yaml --policy policy --output wait={\"id\":7} --input", input)
        .expect(0)
        .says("denied")
        .says("because  caps/max_writes_per_run");
}

#[test]
fn an_applied_policy_counts_and_can_be_written_out_again() {
    let shell = shell();
    let hash = shell.run("policy check policy --json").json()["policy"].as_str().unwrap().to_owned();
    shell.write("tenant.yaml", "people: { ada: {} }");
    shell.run("tenant set tenant.yaml").expect(0);
    shell
        .run("policy apply policy")
        .expect(0)
        .says("which ships with the program")
        .says(&format!("now     {hash}"));
    shell.run("policy apply policy").expect(0).says("counts already; nothing changed");
    shell.run("policy show").expect(0).says(&hash).says("settled by tenant default").says("rules.rego");
    shell.run("policy show --tenant other").expect(0).says("ships with the program");
    let input = r#"{"to": "ops"}"#;
    shell.run_with("policy explain workflow.yaml --input", input).expect(0).says("posts may be made");

    shell.run("policy show --dir out").expect(0).says("written to out");
    assert_eq!(std::fs::read_to_string(shell.path("out/tests/rules_test.rego")).unwrap(), TESTS);
    assert_eq!(shell.run("policy check out --json").expect(0).json()["policy"], *hash);
    shell.run("policy show --dir out").expect(1).says("out is there already");

    shell.write("policy/rules.rego", RULES.replace("posts may be made", "why not"));
    let applied = shell.run("policy apply policy --json").expect(0).json();
    assert_eq!((&applied["old"], &applied["revision"]), (&hash.into(), &2.into()));
    let tenant = shell.run("tenant show --json").expect(0).json();
    assert_eq!((&tenant["policy"], &tenant["people"]["ada"]), (&applied["new"], &serde_json::json!({})));
}

#[test]
fn the_policy_that_ships_is_a_model_to_start_from() {
    let shell = Shell::new();
    shell.run("policy show --dir mine").expect(0).says("ships with the program");
    shell.run("policy test mine").expect(0).says("tests passed");
}

#[test]
fn a_run_is_held_to_the_policy_that_was_applied() {
    let shell = shell();
    shell.write("policy/rules.rego", RULES.replace("== \"http.request\"", "== \"nothing.else\""));
    shell.write("crates/policy/tests/rules_test.rego", TESTS.replace("http.request", "nothing.else"));
    shell.run("policy apply policy").expect(0);
    let run = shell.start(
        "{workflow: w, version: 1, environment: dev, steps: [{id: post, tool: http.request, with: {method: POST, url: 'https://example.com/', effect: native_key}}]}",
    );
    shell.run("policy explain workflow.yaml").expect(0).says("denied");
    shell.work("");
    assert_eq!(shell.show(&run)["status"], "failed_terminal");
}

#[test]
fn what_is_explained_is_what_the_worker_then_asks() {
    let shell = shell();
    shell.run("policy apply policy").expect(0);
    let input = r#"{"to": "ops"}"#;
    let explained = shell.run_with("policy explain workflow.yaml --step post --json --input", input).json();
    let started = shell.run_with("run start workflow.yaml --json --input", input).expect(0).json();
    let run = started["run"].as_str().unwrap();
    shell.work("");
    let asked = shell.run(&format!("approval show {run} post --json")).expect(0).json();
    assert_eq!(asked["approval"]["subject"]["verdict"], explained["steps"][0]["verdict"]);
}

#[test]
fn a_policy_that_was_altered_in_the_store_denies_everything() {
    let shell = shell();
    shell.run("policy apply policy").expect(0);
    let store = rusqlite::Connection::open(shell.path("countersign.db")).unwrap();
    let alter = "UPDATE policies SET body = replace(body, 'may be made', 'are fine')";
    assert_eq!(store.execute(alter, []).unwrap(), 1);
    shell.run("policy show").expect(1).says("cannot be used").says("`policy apply DIR` settles on another");
    let input = r#"{"to": "ops"}"#;
    let explained = shell.run_with("policy explain workflow.yaml --step post --input", input).expect(0);
    explained.says("denied").says("is another one");
}
