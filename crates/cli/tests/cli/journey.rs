//! The ways a run goes, from start to end, with nothing but what a person types.

use crate::outside::Outside;
use crate::shell::Shell;

const WAIT_ASK_ACT: &str = "\
workflow: change
version: 1
environment: dev
steps:
  - { id: approved, tool: wait.event, with: { event: change.approved, timeout: 2h } }
  - { id: ask, tool: approval.gate, with: { message: \"Really?\", on_reject: pause } }
  - { id: sum, tool: transform, with: { value: \"${ steps.approved.by } and ${ steps.ask.by }\" } }
";

/// The first command that would end the wait.
fn first_way_out(seen: &serde_json::Value) -> String {
    seen["waits"]["ends"][0]["command"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_waits_asks_and_succeeds_by_the_commands_it_names() {
    let shell = Shell::new();
    let run = shell.start(WAIT_ASK_ACT);
    shell.run(&format!("run show {run}")).expect(0).says("countersign worker");
    shell.work("");

    let waiting = shell.show(&run);
    assert_eq!(waiting["status"], "waiting_event");
    let signal = first_way_out(&waiting).replace("{}", r#"{"by": "bob"}"#);
    shell.type_in(&signal).expect(0).says("delivered; the run goes on");
    shell.work("");

    let asking = shell.show(&run);
    assert_eq!(asking["status"], "waiting_approval");
    assert!(asking["waits"]["why"].as_str().unwrap().contains("Really?"));
    let approve = first_way_out(&asking);
    shell
        .type_in(&approve.replace("NAME", "ada"))
        .expect(1)
        .says("whoever asked for the run does not approve it");
    shell.type_in(&approve.replace("NAME", "grace")).expect(0).says("ask approved by grace; the run goes on");
    shell.work("");

    let ended = shell.show(&run);
    assert_eq!(ended["status"], "succeeded");
    assert_eq!(ended["steps"][2]["output"], "bob and grace");
    assert_eq!(ended["waits"], serde_json::Value::Null);
    assert_eq!(ended["chain"]["verified"], true);
    shell.run("run list").expect(0).says(&run).says("succeeded");
    shell.run("run list --status paused").expect(0).says("no run is paused");
}

#[test]
fn a_watched_run_is_told_event_by_event_until_it_is_over() {
    let shell = Shell::new();
    shell.write(
        "workflow.yaml",
        "{workflow: w, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}",
    );
    let worker = shell.worker("");
    let answer = shell.run("run start workflow.yaml --watch").expect(0);
    let answer = answer.says("started by ada: workflow w, version 1").says("a: done by worker-");
    assert!(answer.out.trim_end().ends_with("the run is succeeded"), "{answer:?}");
    drop(worker);
    let run = shell.run("run list --json").json()["runs"][0]["run"].as_str().unwrap().to_owned();
    let events = shell.run(&format!("run watch {run} --json")).expect(0).out;
    let kinds: Vec<String> = events
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|event| event["event"]["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["run_admitted", "step_succeeded"]);
}

#[test]
fn a_rejected_run_pauses_until_an_operator_lets_it_ask_again() {
    let shell = Shell::new();
    let run = shell.start(WAIT_ASK_ACT);
    shell
        .run_with(&format!("run signal {run} change.approved --payload"), r#"{"by":"bob"}"#)
        .expect(0)
        .says("kept");
    shell.work("");
    shell.run(&format!("approval reject {run} ask --by eve --reason no")).expect(0).says("the run is paused");
    shell.run(&format!("run watch {run}")).expect(4).says("ask: rejected by eve: no").says("run show");
    shell.run(&format!("run resume {run} --reason please")).expect(0);
    shell.work("");
    shell.run(&format!("approval approve {run} ask --by grace")).expect(0);
    shell.run(&format!("approval approve {run} ask --by grace")).expect(0).says("nothing changed");
    shell
        .run(&format!("approval reject {run} ask --by eve"))
        .expect(1)
        .says("already decided: approved by grace at 20");
    shell.work("");
    assert_eq!(shell.show(&run)["status"], "succeeded");
}

#[test]
fn a_canceled_run_is_over_for_good() {
    let shell = Shell::new();
    let run = shell.start(WAIT_ASK_ACT);
    shell.work("");
    shell.run_with(&format!("run cancel {run} --reason"), "wrong host").expect(0).says("the run is canceled");
    shell.run(&format!("run cancel {run}")).expect(0).says("nothing changed");
    shell.run(&format!("run retry {run}")).expect(1).says("[RUN_TERMINAL_STATE]").says("help: ");
    shell.run(&format!("run watch {run}")).expect(1).says("stopped: wrong host; the run is canceled");
    shell.run(&format!("run show {run}")).expect(0).says("no effect is known to stand");
}

#[test]
fn the_same_key_is_the_same_run_and_another_input_under_it_is_a_conflict() {
    let shell = Shell::new();
    shell.write("workflow.yaml", WAIT_ASK_ACT);
    shell.write("one.json", r#"{"a": 1}"#);
    let start = "run start workflow.yaml --key INC-7 --input";
    let first = shell.run(&format!("{start} @one.json --json")).expect(0).json();
    let again = shell.run_on(&format!("{start} - --json"), br#"{ "a" : 1 }"#).expect(0).json();
    assert_eq!((&first["new"], &again["new"]), (&true.into(), &false.into()));
    assert_eq!(first["run"], again["run"]);
    shell.run(&format!("{start} @one.json")).expect(0).says("already started");
    shell.run_with(start, r#"{"a":2}"#).expect(1).says("[IDEMPOTENCY_CONFLICT]").says("use another --key");
    let error = shell.run(&format!("{start} 2 --json")).expect(1).error();
    assert_eq!(error["code"], "IDEMPOTENCY_CONFLICT");
    assert_eq!(shell.run("run list --json").json()["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_step_that_fails_for_good_says_what_went_wrong() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let address = outside.address();
    let run = shell.start(&format!(
        "{{workflow: w, version: 1, environment: dev, steps: [{{id: get, tool: http.request, with: {{url: 'http://{address}/missing'}}}}]}}"
    ));
    shell.work(&format!("--allow-host {address}"));
    shell
        .run(&format!("run show {run}"))
        .expect(0)
        .says("failed_terminal")
        .says("get: HTTP_STATUS: ")
        .says("404");
    shell.run(&format!("run watch {run}")).expect(1);
}

#[test]
fn a_host_inside_is_out_of_reach_until_the_operator_names_it() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let address = outside.address();
    let run = shell.start(&format!(
        "{{workflow: w, version: 1, environment: dev, steps: [{{id: get, tool: http.request, with: {{url: 'http://{address}/'}}}}]}}"
    ));
    shell.work("");
    shell.run(&format!("run show {run}")).expect(0).says("HTTP_REFUSED").says("loopback");
    assert_eq!(outside.asked(), []);
}

#[test]
fn a_step_that_is_tried_again_says_when() {
    let shell = Shell::new();
    // Nobody listens there.
    let run = shell.start(
        "{workflow: w, version: 1, environment: dev, steps: [{id: get, tool: http.request, with: {url: 'http://127.0.0.1:9/'}}]}",
    );
    let worker = shell.worker("--allow-host 127.0.0.1:9");
    let retrying = shell.until(&run, |seen| seen["status"] == "failed_retryable");
    drop(worker);
    assert_eq!(retrying["steps"][0]["failure"]["code"], "HTTP_UNREACHABLE");
    assert!(retrying["waits"]["ends"][0]["what"].as_str().unwrap().starts_with("it is tried again at 20"));
    shell.run(&format!("run pause {run}")).expect(0).says("the run is paused");
    shell.run(&format!("run cancel {run}")).expect(0);
}

#[test]
fn older_runs_are_a_page_away() {
    let shell = Shell::new();
    for _ in 0..3 {
        shell.start(WAIT_ASK_ACT);
    }
    let first = shell.run("run list --limit 2 --json").expect(0).json();
    assert_eq!(first["runs"].as_array().unwrap().len(), 2);
    let older = shell.run("run list --limit 2").expect(0).says("older ones: ");
    let line = older.out.lines().last().unwrap().trim_start_matches("older ones: ").to_owned();
    let second = shell.type_in(&format!("{line} --json")).expect(0).json();
    assert_eq!(second["runs"].as_array().unwrap().len(), 1);
    assert_eq!(second["next"], serde_json::Value::Null);
}

#[test]
fn no_message_is_given_up_in_a_store_that_is_well() {
    let shell = Shell::new();
    shell.start(WAIT_ASK_ACT);
    shell.run("queue dead-letters").expect(0).says("no message was given up");
    assert_eq!(shell.run("queue redrive --json").expect(0).json()["redriven"], 0);
}
