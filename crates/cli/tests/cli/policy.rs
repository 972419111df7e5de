//! `policy …`.

use crate::env::CliEnv;

const RULES: &str = r#"package countersign

allow contains {"rule": "posts", "message": "posts may be made"} if {
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

/// A env with a policy in `policy/`, and a workflow.
fn env() -> CliEnv {
    let env = CliEnv::new();
    std::fs::create_dir_all(env.path("policy/tests")).unwrap();
    env.write("policy/rules.rego", RULES);
    env.write("policy/tests/rules_test.rego", TESTS);
    env.write("workflow.yaml", WORKFLOW);
    env
}

#[test]
fn policy_check_prints_hash_rules_and_tests() {
    let env = env();
    env.run("policy check policy").expect(0).prints("policy: policy ").prints("1 rule, 1 test");
    let checked = env.run("policy check policy --json").expect(0).json();
    assert_eq!(checked["files"], serde_json::json!(["rules.rego", "tests/rules_test.rego"]));
    assert_eq!(checked["policy"].as_str().unwrap().len(), 64);
}

#[test]
fn invalid_policy_shows_file_line_and_caret() {
    let env = env();
    env.write("policy/rules.rego", RULES.replace("action.tool", "action.tol"));
    for verb in ["check", "test", "apply"] {
        let answer = env.run(&format!("policy {verb} policy")).expect(2);
        let answer = answer.prints("error: policy/rules.rego:4:").prints("`input.action.tol`").prints("4 | ");
        assert!(answer.err.lines().last().unwrap().trim_end().ends_with('^'), "{answer:?}");
    }
    let error = env.run("policy check policy --json").expect(2).error();
    assert_eq!(
        (&error["location"]["file"], &error["location"]["line"]),
        (&"policy/rules.rego".into(), &4.into())
    );
    assert!(!env.path("countersign.db").exists(), "an invalid policy must not create a store");
}

#[test]
fn unreadable_policy_is_named() {
    let env = env();
    std::fs::create_dir(env.path("empty")).unwrap();
    env.run("policy check empty").expect(2).prints("empty: the bundle is empty");
    env.run("policy check missing").expect(2).prints("cannot read missing");
    env.run("policy check workflow.yaml").expect(2).prints("cannot read workflow.yaml");
    env.write("policy/binary.rego", b"\xff");
    env.run("policy check policy").expect(2).prints("policy/binary.rego is not UTF-8 text");
}

#[test]
fn failing_test_blocks_policy_apply() {
    let env = env();
    env.run("policy test policy").expect(0).prints("1 of 1 tests passed");
    env.write("policy/tests/rules_test.rego", TESTS.replace("\"posts\"", "\"puts\""));
    let failed = "FAILED  test_posts  tests/rules_test.rego:5";
    env.run("policy test policy").expect(1).prints(failed).prints("0 of 1 tests passed");
    assert_eq!(env.run("policy test policy --json").expect(1).json()["green"], false);
    env.run("policy apply policy").expect(1).prints("is not applied").prints(failed);
    env.run("policy apply policy --force").expect(2).prints("unexpected argument");
    std::fs::remove_file(env.path("policy/tests/rules_test.rego")).unwrap();
    env.run("policy test policy").expect(1).prints("no tests found");
    env.run("policy apply policy").expect(1).prints("no tests found");
    assert!(!env.path("countersign.db").exists());
}

#[test]
fn explain_names_rule_file_and_line() {
    let env = env();
    let input = r#"{"to": "ops"}"#;
    let answer = env.run_with("policy explain workflow.yaml --input", input).expect(0);
    let answer = answer
        .prints("the default policy; tenant default has applied none")
        .prints("contacts no external system; policy is not evaluated")
        .prints("needs approval by one person")
        .prints("target   example.com/ops")
        .prints("reason   prod-write: changes in production need approval (approval.rego:8)")
        .prints("waits for an event")
        .prints("reads the output of wait")
        .prints("--output wait=JSON");
    assert_eq!(answer.out.matches("prod-write").count(), 1, "{answer:?}");
    assert!(!env.path("countersign.db").exists(), "policy explain must not create a store");
}

#[test]
fn explain_accepts_samples_and_another_policy() {
    let env = env();
    let explain = "policy explain workflow.yaml --step again --output wait={\"id\":7}";
    let answer = env.run(&format!("{explain} --policy policy")).expect(0);
    // Policy allows the action, but `validation` requires an approval: the workflow runs in production.
    let answer = answer
        .prints("in policy")
        .prints("needs approval by one person, low tier")
        .prints("reason   posts: posts may be made (rules.rego:3)")
        .prints("reason   validation/mode: every action of this workflow needs an approval")
        .prints("example.com/7");
    assert!(!answer.out.contains("shape"), "{answer:?}");

    env.write("workflow.yaml", format!("environment: dev\n{WORKFLOW}"));
    let json = env.run(&format!("{explain} --policy policy --json")).expect(0).json();
    let step = &json["steps"][0];
    assert_eq!((&step["id"], &step["ruling"]), (&"again".into(), &"allow".into()));
    let rule = &step["explanation"]["rules"][0];
    assert_eq!((&rule["rule"], &rule["location"]["line"]), (&"posts".into(), &3.into()));
    assert_eq!(step["explanation"]["input"]["run"]["requester"], "ada");
    assert_eq!(step["verdict"]["reasons"][0]["file"], "rules.rego");
}

#[test]
fn explain_errors_name_the_cause() {
    let env = env();
    env.run("policy explain workflow.yaml --step nope")
        .expect(2)
        .prints("its steps are shape, post, wait, again");
    env.run("policy explain workflow.yaml --output nope=1").expect(2).prints("no step `nope`");
    env.run("policy explain workflow.yaml --output wait").expect(2).prints("expected STEP=JSON");
    env.run("policy explain workflow.yaml --output wait={").expect(2).prints("the output of step `wait`");
    env.run("policy explain missing.yaml").expect(2).prints("cannot read missing.yaml");
    // Without the input, the output of the first step is unknown.
    env.run("policy explain workflow.yaml").expect(0).prints("unknown: `${ trigger.to }`");
}

#[test]
fn explain_works_without_configured_systems() {
    let env = CliEnv::new();
    env.write(
        "workflow.yaml",
        "workflow: triage
version: 1
environment: dev
steps:
  - { id: read, tool: servicenow.get, with: { table: incident, sys_id: '46d44a23a9fe19810012d100cca80666' } }
  - { id: assign, tool: servicenow.update, with: { table: incident, sys_id: '46d44a23a9fe19810012d100cca80666', fields: { urgency: '1' } } }
",
    );
    env.run("policy explain workflow.yaml")
        .expect(0)
        .prints("allowed")
        .prints("servicenow.invalid")
        .prints("non-prod-write");
    let connection = "{ name: servicenow, kind: servicenow, environment: dev, base_url: 'https://acme.example', \
                      credential: { type: bearer, token: 'env://NOT_SET' } }";
    env.write("config.yaml", format!("connections: [ {connection} ]"));
    env.run("policy explain workflow.yaml --config config.yaml").expect(0).prints("acme.example");
}

#[test]
fn explain_applies_the_effect_limit() {
    let env = env();
    env.write("tenant.yaml", "caps: { max_writes_per_run: 1 }");
    env.run("tenant set tenant.yaml").expect(0);
    let input = r#"{"to": "ops"}"#;
    env.run_with("policy explain workflow.yaml --policy policy --output wait={\"id\":7} --input", input)
        .expect(0)
        .prints("denied")
        .prints("reason   caps/max_writes_per_run");
}

#[test]
fn applied_policy_can_be_exported() {
    let env = env();
    let hash = env.run("policy check policy --json").json()["policy"].as_str().unwrap().to_owned();
    env.write("tenant.yaml", "people: { ada: {} }");
    env.run("tenant set tenant.yaml").expect(0);
    env.run("policy apply policy").expect(0).prints("the default policy").prints(&format!("now     {hash}"));
    env.run("policy apply policy").expect(0).prints("is already applied; nothing changed");
    env.run("policy show").expect(0).prints(&hash).prints("applied by tenant default").prints("rules.rego");
    env.run("policy show --tenant other").expect(0).prints("the default policy");
    let input = r#"{"to": "ops"}"#;
    env.run_with("policy explain workflow.yaml --input", input).expect(0).prints("posts may be made");

    env.run("policy show --dir out").expect(0).prints("written to out");
    assert_eq!(std::fs::read_to_string(env.path("out/tests/rules_test.rego")).unwrap(), TESTS);
    assert_eq!(env.run("policy check out --json").expect(0).json()["policy"], *hash);
    env.run("policy show --dir out").expect(1).prints("out already exists");

    env.write("policy/rules.rego", RULES.replace("posts may be made", "why not"));
    let applied = env.run("policy apply policy --json").expect(0).json();
    assert_eq!((&applied["old"], &applied["revision"]), (&hash.into(), &2.into()));
    let tenant = env.run("tenant show --json").expect(0).json();
    assert_eq!((&tenant["policy"], &tenant["people"]["ada"]), (&applied["new"], &serde_json::json!({})));
}

#[test]
fn default_policy_can_be_exported_and_tested() {
    let env = CliEnv::new();
    env.run("policy show --dir mine").expect(0).prints("the default policy");
    env.run("policy test mine").expect(0).prints("tests passed");
}

#[test]
fn applied_policy_governs_runs() {
    let env = env();
    env.write("policy/rules.rego", RULES.replace("== \"http.request\"", "== \"nothing.else\""));
    env.write("policy/tests/rules_test.rego", TESTS.replace("http.request", "nothing.else"));
    env.run("policy apply policy").expect(0);
    let run = env.start(
        "{workflow: w, version: 1, environment: dev, steps: [{id: post, tool: http.request, with: {method: POST, url: 'https://example.com/', effect: native_key}}]}",
    );
    env.run("policy explain workflow.yaml").expect(0).prints("denied");
    env.work("");
    assert_eq!(env.show(&run)["status"], "failed_terminal");
}

#[test]
fn explain_matches_the_worker_verdict() {
    let env = env();
    env.run("policy apply policy").expect(0);
    let input = r#"{"to": "ops"}"#;
    let explained = env.run_with("policy explain workflow.yaml --step post --json --input", input).json();
    let started = env.run_with("run start workflow.yaml --json --input", input).expect(0).json();
    let run = started["run"].as_str().unwrap();
    env.work("");
    let asked = env.run(&format!("approval show {run} post --json")).expect(0).json();
    assert_eq!(asked["approval"]["subject"]["verdict"], explained["steps"][0]["verdict"]);
}

#[test]
fn altered_policy_denies_everything() {
    let env = env();
    env.run("policy apply policy").expect(0);
    let store = rusqlite::Connection::open(env.path("countersign.db")).unwrap();
    let alter = "UPDATE policies SET body = replace(body, 'may be made', 'are fine')";
    assert_eq!(store.execute(alter, []).unwrap(), 1);
    env.run("policy show").expect(1).prints("is invalid").prints("with `policy apply DIR`");
    let input = r#"{"to": "ops"}"#;
    let explained = env.run_with("policy explain workflow.yaml --step post --input", input).expect(0);
    explained.prints("denied").prints("have another hash");
}

const DECLARED_ROLLBACK: &str = "
workflow: move
version: 1
environment: prod
steps:
  - id: move
    tool: servicenow.update
    with: { table: incident, sys_id: 9d385017c611228701d22104cc95c371, fields: { urgency: 1 } }
    rollback:
      tool: servicenow.update
      with: { table: incident, sys_id: '${ trigger.other }', fields: { urgency: 3 } }
";

#[test]
fn explain_lists_the_declared_rollback() {
    let env = CliEnv::new();
    env.write("workflow.yaml", DECLARED_ROLLBACK);
    let input = r#"{"other":"46d44a5dc0a8010e0000d1c4c4d4a5d0"}"#;
    let answer = env.run_with("policy explain workflow.yaml --input", input).expect(0);
    answer
        .prints("move, rollback (servicenow.update)\n  needs approval by one person")
        .prints("incident/46d44a5dc0a8010e0000d1c4c4d4a5d0");
}
