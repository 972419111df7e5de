//! Runs from start to end on a store.

use crate::env::CliEnv;
use crate::http_stub::HttpStub;

const WAIT_ASK_ACT: &str = "\
workflow: change
version: 1
environment: dev
steps:
  - { id: approved, tool: wait.event, with: { event: change.approved, timeout: 2h } }
  - { id: ask, tool: approval.gate, with: { message: \"Really?\", on_reject: pause } }
  - { id: sum, tool: transform, with: { value: \"${ steps.approved.by } and ${ steps.ask.by }\" } }
";

/// The first suggested command.
fn first_suggestion(seen: &serde_json::Value) -> String {
    seen["waiting"]["next_actions"][0]["command"].as_str().unwrap().to_owned()
}

#[test]
fn suggested_commands_complete_a_run() {
    let env = CliEnv::new();
    let run = env.start(WAIT_ASK_ACT);
    env.run(&format!("run show {run}")).expect(0).prints("countersign worker");
    env.work("");

    let waiting = env.show(&run);
    assert_eq!(waiting["status"], "waiting_event");
    let signal = first_suggestion(&waiting).replace("{}", r#"{"by": "bob"}"#);
    env.run_in_shell(&signal).expect(0).prints("delivered; the run continues");
    env.work("");

    let asking = env.show(&run);
    assert_eq!(asking["status"], "waiting_approval");
    assert!(asking["waiting"]["reason"].as_str().unwrap().contains("Really?"));
    let approve = first_suggestion(&asking);
    env.run_in_shell(&approve.replace("NAME", "ada"))
        .expect(1)
        .prints("the user who requested a run cannot approve it");
    env.run_in_shell(&approve.replace("NAME", "grace"))
        .expect(0)
        .prints("ask approved by grace; the run continues");
    env.work("");

    let ended = env.show(&run);
    assert_eq!(ended["status"], "succeeded");
    assert_eq!(ended["steps"][2]["output"], "bob and grace");
    assert_eq!(ended["waiting"], serde_json::Value::Null);
    assert_eq!(ended["chain"]["verified"], true);
    env.run("run list").expect(0).prints(&run).prints("succeeded");
    env.run("run list --status paused").expect(0).prints("no paused runs");
}

#[test]
fn run_watch_prints_every_event() {
    let env = CliEnv::new();
    env.write(
        "workflow.yaml",
        "{workflow: w, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}",
    );
    let worker = env.worker("");
    let answer = env.run("run start workflow.yaml --watch").expect(0);
    let answer = answer.prints("started by ada: workflow w, version 1").prints("a: completed by worker-");
    assert!(answer.out.trim_end().ends_with("the run is succeeded"), "{answer:?}");
    drop(worker);
    let run = env.run("run list --json").json()["runs"][0]["run"].as_str().unwrap().to_owned();
    let events = env.run(&format!("run watch {run} --json")).expect(0).out;
    let kinds: Vec<String> = events
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|event| event["event"]["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["run_admitted", "step_succeeded"]);
}

#[test]
fn rejected_run_pauses_until_retry() {
    let env = CliEnv::new();
    let run = env.start(WAIT_ASK_ACT);
    env.run_with(&format!("run signal {run} change.approved --payload"), r#"{"by":"bob"}"#)
        .expect(0)
        .prints("stored until one does");
    env.work("");
    env.run(&format!("approval reject {run} ask --by eve --reason no")).expect(0).prints("the run is paused");
    env.run(&format!("run watch {run}")).expect(4).prints("ask: rejected by eve: no").prints("run show");
    env.run(&format!("run resume {run} --reason please")).expect(0);
    env.work("");
    env.run(&format!("approval approve {run} ask --by grace")).expect(0);
    env.run(&format!("approval approve {run} ask --by grace")).expect(0).prints("nothing changed");
    env.run(&format!("approval reject {run} ask --by eve"))
        .expect(1)
        .prints("already decided: approved by grace at 20");
    env.work("");
    assert_eq!(env.show(&run)["status"], "succeeded");
}

#[test]
fn canceled_run_is_terminal() {
    let env = CliEnv::new();
    let run = env.start(WAIT_ASK_ACT);
    env.work("");
    env.run_with(&format!("run cancel {run} --reason"), "wrong host").expect(0).prints("the run is canceled");
    env.run(&format!("run cancel {run}")).expect(0).prints("nothing changed");
    env.run(&format!("run retry {run}")).expect(1).prints("[RUN_TERMINAL_STATE]").prints("help: ");
    env.run(&format!("run watch {run}")).expect(1).prints("canceled: wrong host; the run is canceled");
    env.run(&format!("run show {run}")).expect(0).prints("no effects");
}

#[test]
fn run_start_is_idempotent_per_key() {
    let env = CliEnv::new();
    env.write("workflow.yaml", WAIT_ASK_ACT);
    env.write("one.json", r#"{"a": 1}"#);
    let start = "run start workflow.yaml --key INC-7 --input";
    let first = env.run(&format!("{start} @one.json --json")).expect(0).json();
    let again = env.run_on(&format!("{start} - --json"), br#"{ "a" : 1 }"#).expect(0).json();
    assert_eq!((&first["new"], &again["new"]), (&true.into(), &false.into()));
    assert_eq!(first["run"], again["run"]);
    env.run(&format!("{start} @one.json")).expect(0).prints("already started").prints("key INC-7");
    assert_eq!((&first["key"], &again["key"]), (&"INC-7".into(), &"INC-7".into()));
    env.run_with(start, r#"{"a":2}"#).expect(1).prints("[IDEMPOTENCY_CONFLICT]").prints("use another --key");
    let error = env.run(&format!("{start} 2 --json")).expect(1).error();
    assert_eq!(error["code"], "IDEMPOTENCY_CONFLICT");
    assert_eq!(env.run("run list --json").json()["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn failed_step_shows_its_error() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let address = stub.address();
    let run = env.start(&format!(
        "{{workflow: w, version: 1, environment: dev, steps: [{{id: get, tool: http.request, with: {{url: 'http://{address}/missing'}}}}]}}"
    ));
    env.work(&format!("--allow-host {address}"));
    env.run(&format!("run show {run}"))
        .expect(0)
        .prints("failed_terminal")
        .prints("get: HTTP_STATUS: ")
        .prints("404");
    env.run(&format!("run watch {run}")).expect(1);
}

#[test]
fn internal_host_requires_allow_host() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let address = stub.address();
    let run = env.start(&format!(
        "{{workflow: w, version: 1, environment: dev, steps: [{{id: get, tool: http.request, with: {{url: 'http://{address}/'}}}}]}}"
    ));
    env.work("");
    env.run(&format!("run show {run}")).expect(0).prints("HTTP_BLOCKED").prints("loopback");
    assert_eq!(stub.requests(), []);
}

#[test]
fn retried_step_shows_the_next_attempt() {
    let env = CliEnv::new();
    // No process listens there.
    let run = env.start(
        "{workflow: w, version: 1, environment: dev, steps: [{id: get, tool: http.request, with: {url: 'http://127.0.0.1:9/'}}]}",
    );
    let worker = env.worker("--allow-host 127.0.0.1:9");
    let retrying = env.wait_until(&run, |seen| seen["status"] == "failed_retryable");
    drop(worker);
    assert_eq!(retrying["steps"][0]["failure"]["code"], "HTTP_UNREACHABLE");
    assert!(
        retrying["waiting"]["next_actions"][0]["description"]
            .as_str()
            .unwrap()
            .starts_with("the retry starts at 20")
    );
    env.run(&format!("run pause {run}")).expect(0).prints("the run is paused");
    env.run(&format!("run cancel {run}")).expect(0);
}

#[test]
fn run_list_pages_to_older_runs() {
    let env = CliEnv::new();
    for _ in 0..3 {
        env.start(WAIT_ASK_ACT);
    }
    let first = env.run("run list --limit 2 --json").expect(0).json();
    assert_eq!(first["runs"].as_array().unwrap().len(), 2);
    let older = env.run("run list --limit 2").expect(0).prints("next page: ");
    let line = older.out.lines().last().unwrap().trim_start_matches("next page: ").to_owned();
    let second = env.run_in_shell(&format!("{line} --json")).expect(0).json();
    assert_eq!(second["runs"].as_array().unwrap().len(), 1);
    assert_eq!(second["next"], serde_json::Value::Null);
}

#[test]
fn new_store_has_no_dead_letters() {
    let env = CliEnv::new();
    env.start(WAIT_ASK_ACT);
    env.run("queue dead-letters").expect(0).prints("no dead-letter messages");
    assert_eq!(env.run("queue redrive --json").expect(0).json()["redriven"], 0);
}

/// The text of a ticket can be part of a question and of a reason.
#[test]
fn untrusted_text_imitates_no_field_of_an_approval() {
    let env = CliEnv::new();
    let forged = r"Go on?\nstatus   approved by grace at noon\nexpires  never";
    let run = env.start(&format!(
        "{{workflow: w, version: 1, environment: dev, steps: [{{id: ask, tool: approval.gate, with: {{message: \"{forged}\"}}}}]}}"
    ));
    env.work("");
    let shown = env.run(&format!("approval show {run} ask")).expect(0).out;
    let fields = |name: &str| shown.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>();
    assert_eq!(fields("status"), ["status   requested"], "{shown}");
    assert_eq!(fields("expires").len(), 1, "{shown}");
    assert!(shown.contains("question Go on?\n         status   approved by grace at noon\n"), "{shown}");
    let listed = env.run("approval list").expect(0).out;
    assert_eq!(listed.lines().count(), 2, "a heading and one row: {listed}");

    let reject = format!("approval reject {run} ask --by grace --reason");
    env.run_with(&reject, "no\nstatus   approved by eve at noon").expect(0);
    let shown = env.run(&format!("approval show {run} ask")).expect(0).out;
    let statuses: Vec<_> = shown.lines().filter(|line| line.starts_with("status")).collect();
    assert!(matches!(*statuses, [status] if status.starts_with("status   rejected by grace")), "{shown}");
}
