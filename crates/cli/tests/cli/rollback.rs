//! `run rollback` and `run cancel`.

use crate::env::CliEnv;
use crate::http_stub::HttpStub;

/// Creates an account at `path` with a rollback, sends a mail without one, and waits.
fn workflow(address: &str, path: &str) -> String {
    format!(
        "workflow: account
version: 1
environment: dev
steps:
  - id: make
    tool: http.request
    with: {{ method: POST, url: 'http://{address}/{path}', effect: native_key }}
    rollback:
      tool: http.request
      with: {{ method: PUT, url: 'http://{address}/accounts/1/close', effect: native_key }}
  - {{ id: mail, tool: http.request, with: {{ method: PUT, url: 'http://{address}/mails', effect: native_key }} }}
  - {{ id: wait, tool: wait.event, with: {{ event: never.comes }} }}
"
    )
}

#[test]
fn rolled_back_run_lists_every_effect() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = env.start(&workflow(&stub.address(), "accounts"));
    let allowed = format!("--allow-host {}", stub.address());
    env.work(&allowed);
    env.run(&format!("run rollback {run} --reason oops")).expect(0).prints("starting with step make");
    env.work(&allowed);

    let asked: Vec<String> = stub.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(asked, ["POST /accounts", "PUT /mails", "PUT /accounts/1/close"]);
    let shown = env.run(&format!("run show {run}")).expect(0).prints("canceled after");
    let log: Vec<&str> = shown.out.lines().skip_while(|line| *line != "effects").skip(2).take(2).collect();
    assert!(log[0].contains("mail  still in place; the workflow defines no rollback"), "{log:?}");
    assert!(log[1].contains("make  rolled back"), "{log:?}");
    let effects = env.show(&run)["compensation"].clone();
    assert_eq!((&effects[0]["status"], &effects[1]["status"]), (&"in_effect".into(), &"rolled_back".into()));
}

#[test]
fn irreversible_action_as_rollback_in_dev() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let close = "method: PUT, url: 'http://{address}/accounts/1/close'".replace("{address}", &stub.address());
    let mail = close.replace("PUT", "POST").replace("accounts/1/close", "mails/sorry");
    let run = env.start(&workflow(&stub.address(), "accounts").replace(&close, &mail));
    let allowed = format!("--allow-host {}", stub.address());
    env.work(&allowed);
    env.run(&format!("run rollback {run} --reason oops")).expect(0);
    env.work(&allowed);

    assert_eq!(env.show(&run)["status"], "waiting_approval");
    let asked: Vec<String> = stub.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(asked, ["POST /accounts", "PUT /mails"]);
}

#[test]
fn cancel_during_an_effect_rolls_it_back() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = env.start(&workflow(&stub.address(), "slow"));
    let worker = env.worker(&format!("--allow-host {} --until-idle", stub.address()));
    stub.wait_for_requests(1);
    env.run(&format!("run cancel {run} --reason oops")).expect(0).prints("a step is running");
    env.run(&format!("run rollback {run}"))
        .expect(1)
        .prints("holds a lease on the current step")
        .prints("help: `run pause` the run");
    let waits = env.show(&run)["waiting"].clone();
    assert!(waits["reason"].as_str().unwrap().contains("cancel the run"), "{waits}");
    assert_eq!(
        waits["next_actions"].as_array().unwrap().len(),
        1,
        "a second request changes nothing: {waits}"
    );
    stub.release();

    assert_eq!(worker.exit_code(), Some(0));
    let asked: Vec<String> = stub.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(asked, ["POST /slow", "PUT /accounts/1/close"]);
    let ended = env.show(&run);
    assert_eq!(ended["status"], "canceled");
    assert_eq!(
        (ended["steps"][0]["attempts"].as_array().map(Vec::len), &ended["steps"][0]["status"]),
        (Some(1), &"rolled_back".into())
    );
    assert_eq!(ended["effects"], serde_json::json!({ "done": 1, "undone": 1, "unknown": 0 }));
}

#[test]
fn rollback_without_effects_is_refused() {
    let env = CliEnv::new();
    let run = env.start("{workflow: w, version: 1, steps: [{id: a, tool: wait.event, with: {event: e}}]}");
    env.run(&format!("run rollback {run}"))
        .expect(1)
        .prints("no finished step")
        .prints("help: use `run cancel`");
}

#[test]
fn rollback_down_to_a_step_keeps_earlier_effects() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let address = stub.address();
    let step = |id: &str| {
        format!(
            "  - id: {id}
    tool: http.request
    with: {{ method: POST, url: 'http://{address}/{id}', effect: native_key }}
    rollback: {{ tool: http.request, with: {{ method: PUT, url: 'http://{address}/{id}/undo', effect: native_key }} }}
"
        )
    };
    let steps: String = ["one", "two", "three"].map(step).concat();
    let run = env.start(&format!(
        "workflow: w\nversion: 1\nenvironment: dev\nsteps:\n{steps}  - {{ id: wait, tool: wait.event, with: {{ event: never.comes }} }}\n"
    ));
    let allowed = format!("--allow-host {address}");
    env.work(&allowed);
    env.run(&format!("run rollback {run} --step four")).expect(1).prints("the ID of a step of the workflow");
    env.run(&format!("run rollback {run} --step two")).expect(0).prints("starting with step three");
    env.work(&allowed);

    let asked: Vec<String> = stub.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(asked[3..], ["PUT /three/undo", "PUT /two/undo"]);
    let effects = env.show(&run)["compensation"].clone();
    let status = |number: usize| effects[number]["status"].as_str().unwrap().to_owned();
    assert_eq!([status(0), status(1), status(2)], ["rolled_back", "rolled_back", "reversible"]);
    env.run(&format!("bundle get {run}")).expect(0);
}
