//! `run undo`: what a finished run did is taken back by another run.

use crate::outside::Outside;
use crate::shell::Shell;

/// Makes two things that can be deleted again, and sends a mail that cannot.
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
  - {{ id: mail, tool: http.request, with: {{ method: POST, url: 'http://{address}/mails', effect: native_key }} }}
  - id: two
    tool: http.request
    with: {{ method: POST, url: 'http://{address}/two', effect: native_key }}
    rollback: {{ tool: http.request, with: {{ method: PUT, url: 'http://{address}/no-two', effect: native_key }} }}
"
    )
}

fn asked(outside: &Outside) -> Vec<String> {
    outside.asked().into_iter().map(|asked| asked.what).collect()
}

#[test]
fn a_finished_run_is_taken_back_newest_first_by_another_run() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = shell.start(&workflow(&outside.address()));
    let allowed = format!("--allow-host {}", outside.address());
    shell.work(&allowed);

    let plan = shell.run(&format!("run undo {run} --plan")).expect(0);
    let plan = plan.says(&format!("do it with: countersign run undo {run}"));
    let rows: Vec<&str> = plan.out.lines().skip(1).collect();
    assert!(rows[0].starts_with("two") && rows[0].ends_with("is taken back by http.request"), "{rows:?}");
    assert!(rows[1].starts_with("mail") && rows[1].contains("stays: neither its receipt"), "{rows:?}");
    assert!(rows[2].starts_with("one"), "{rows:?}");
    assert_eq!(asked(&outside).len(), 3, "a plan does nothing");

    let started = shell.run(&format!("run undo {run} --json")).expect(0).json();
    let undo = started["undo"].as_str().unwrap().to_owned();
    assert_eq!(started["new"], true);
    let again = shell.run(&format!("run undo {run}")).expect(0).says("already started to take back");
    again.says(&format!("follow it with: countersign run watch {undo}")).says("mail on ");
    shell.work(&allowed);
    assert_eq!(shell.show(&undo)["status"], "succeeded");
    assert_eq!(asked(&outside), ["POST /one", "POST /mails", "POST /two", "PUT /no-two", "PUT /no-one"]);
    shell.run(&format!("bundle get {undo}")).expect(0);
    shell.run(&format!("bundle verify {undo}.bundle")).expect(0).says("undo-account");
}

#[test]
fn a_run_that_is_not_over_is_sent_to_rollback() {
    let shell = Shell::new();
    let run = shell.start("{workflow: w, version: 1, steps: [{id: a, tool: wait.event, with: {event: e}}]}");
    for option in ["", "--plan"] {
        let refused = shell.run(&format!("run undo {run} {option}")).expect(1);
        refused.says("not over").says(&format!("`countersign run rollback {run}`"));
    }
    shell.run("run undo run-1").expect(2).says("there is no run");
}

#[test]
fn a_run_that_did_nothing_has_nothing_to_take_back() {
    let shell = Shell::new();
    let run = shell.start("{workflow: w, version: 1, steps: [{id: a, tool: transform, with: {value: 1}}]}");
    shell.work("");
    shell
        .run(&format!("run undo {run} --plan"))
        .expect(0)
        .says("had no effects")
        .says("nothing to take back");
    shell.run(&format!("run undo {run}")).expect(1).says("nothing is taken back").says("had no effects");
}

#[test]
fn what_nobody_knows_how_to_take_back_is_said() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let address = outside.address();
    let run = shell.start(&format!(
        "{{workflow: w, version: 1, environment: dev, steps: [{{id: mail, tool: http.request, with: {{method: POST, url: 'http://{address}/mails', effect: native_key}}}}]}}"
    ));
    shell.work(&format!("--allow-host {address}"));
    shell
        .run(&format!("run undo {run}"))
        .expect(1)
        .says("stays: neither its receipt nor the workflow says how");
}
