//! `run undo`.

use crate::env::CliEnv;
use crate::http_stub::HttpStub;

/// Two effects with a rollback, and a mail without one.
fn workflow(address: &str) -> String {
    format!(
        "workflow: account
version: 1
environment: dev
steps:
  - id: one
    tool: http.request
    with: {{ method: POST, url: 'http://{address}/one', effect: native_key }}
    rollback: {{ tool: http.request, with: {{ method: PUT, url: 'http://{address}/no-one', effect: native_key }} }}
  - {{ id: mail, tool: http.request, with: {{ method: PUT, url: 'http://{address}/mails', effect: native_key }} }}
  - id: two
    tool: http.request
    with: {{ method: POST, url: 'http://{address}/two', effect: native_key }}
    rollback: {{ tool: http.request, with: {{ method: PUT, url: 'http://{address}/no-two', effect: native_key }} }}
"
    )
}

fn requests(stub: &HttpStub) -> Vec<String> {
    stub.requests().into_iter().map(|request| request.line).collect()
}

#[test]
fn undo_reverts_effects_newest_first() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = env.start(&workflow(&stub.address()));
    let allowed = format!("--allow-host {}", stub.address());
    env.work(&allowed);

    let plan = env.run(&format!("run undo {run} --plan")).expect(0);
    let plan = plan.prints(&format!("start the undo with: countersign run undo {run}"));
    let rows: Vec<&str> = plan.out.lines().skip(1).collect();
    assert!(
        rows[0].starts_with("two")
            && rows[0].contains("undone by http.request with ")
            && rows[0].contains("method: "),
        "{rows:?}"
    );
    assert!(rows[1].starts_with("mail") && rows[1].contains("stays: neither its receipt"), "{rows:?}");
    assert!(rows[2].starts_with("one"), "{rows:?}");
    assert_eq!(requests(&stub).len(), 3, "a plan does nothing");

    let started = env.run(&format!("run undo {run} --json")).expect(0).json();
    let undo = started["undo"].as_str().unwrap().to_owned();
    assert_eq!(started["new"], true);
    let again = env.run(&format!("run undo {run}")).expect(0).prints("is already started; nothing changed");
    again.prints(&format!("follow it with: countersign run watch {undo}")).prints("mail on ");
    env.work(&allowed);
    assert_eq!(env.show(&undo)["status"], "succeeded");
    assert_eq!(requests(&stub), ["POST /one", "PUT /mails", "POST /two", "PUT /no-two", "PUT /no-one"]);
    env.run(&format!("bundle get {undo}")).expect(0);
    env.run(&format!("bundle verify {undo}.bundle")).expect(0).prints("undo-account");
}

#[test]
fn undo_of_unfinished_run_names_rollback() {
    let env = CliEnv::new();
    let run = env.start("{workflow: w, version: 1, steps: [{id: a, tool: wait.event, with: {event: e}}]}");
    for option in ["", "--plan"] {
        let refused = env.run(&format!("run undo {run} {option}")).expect(1);
        refused.prints("has not finished yet").prints(&format!("`countersign run rollback {run}`"));
    }
    env.run("run undo run-1").expect(2).prints("not found");
}

#[test]
fn run_without_effects_has_no_undo() {
    let env = CliEnv::new();
    let run = env.start("{workflow: w, version: 1, steps: [{id: a, tool: transform, with: {value: 1}}]}");
    env.work("");
    env.run(&format!("run undo {run} --plan")).expect(0).prints("had no effects").prints("nothing to undo");
    env.run(&format!("run undo {run}")).expect(1).prints("nothing to undo").prints("had no effects");
}

#[test]
fn irreversible_effect_is_named() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let address = stub.address();
    let run = env.start(&format!(
        "{{workflow: w, version: 1, environment: dev, steps: [{{id: mail, tool: http.request, with: {{method: PUT, url: 'http://{address}/mails', effect: native_key}}}}]}}"
    ));
    env.work(&format!("--allow-host {address}"));
    env.run(&format!("run undo {run}"))
        .expect(1)
        .prints("stays: neither its receipt nor the workflow has an inverse call");
}
