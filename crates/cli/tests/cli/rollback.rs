//! Effects that are taken back.

use crate::outside::Outside;
use crate::shell::Shell;

/// Makes an account at `path` that can be deleted again, sends a mail that cannot, and waits.
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
      with: {{ method: POST, url: 'http://{address}/accounts/1/close', effect: native_key }}
  - {{ id: mail, tool: http.request, with: {{ method: POST, url: 'http://{address}/mails', effect: native_key }} }}
  - {{ id: wait, tool: wait.event, with: {{ event: never.comes }} }}
"
    )
}

#[test]
fn a_rolled_back_run_lists_what_became_of_every_effect() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = shell.start(&workflow(&outside.address(), "accounts"));
    let allowed = format!("--allow-host {}", outside.address());
    shell.work(&allowed);
    shell.run(&format!("run rollback {run} --reason oops")).expect(0).says("beginning with step make");
    shell.work(&allowed);

    let asked: Vec<String> = outside.asked().into_iter().map(|asked| asked.what).collect();
    assert_eq!(asked, ["POST /accounts", "POST /mails", "POST /accounts/1/close"]);
    let shown = shell.run(&format!("run show {run}")).expect(0).says("canceled after");
    let log: Vec<&str> = shown.out.lines().skip_while(|line| *line != "effects").skip(2).take(2).collect();
    assert!(log[0].contains("mail  stands; the workflow does not say how"), "{log:?}");
    assert!(log[1].contains("make  was taken back"), "{log:?}");
    let fates = shell.show(&run)["compensation"].clone();
    assert_eq!((&fates[0]["status"], &fates[1]["status"]), (&"in_effect".into(), &"rolled_back".into()));
}

#[test]
fn a_run_that_is_canceled_in_the_middle_of_an_effect_finishes_it_and_takes_it_back() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = shell.start(&workflow(&outside.address(), "slow"));
    let worker = shell.worker(&format!("--allow-host {} --until-idle", outside.address()));
    outside.until_asked(1);
    shell.run(&format!("run cancel {run} --reason oops")).expect(0).says("its step is being worked on");
    shell.run(&format!("run rollback {run}")).expect(1).says("is held by worker-").says("help: `run pause`");
    let waits = shell.show(&run)["waits"].clone();
    assert!(
        waits["why"].as_str().unwrap().contains("to stop the run; that happens as soon as the step lets it")
    );
    assert_eq!(waits["ends"].as_array().unwrap().len(), 1, "asking twice changes nothing: {waits}");
    outside.release();

    assert_eq!(worker.ended(), Some(0));
    let asked: Vec<String> = outside.asked().into_iter().map(|asked| asked.what).collect();
    assert_eq!(asked, ["POST /slow", "POST /accounts/1/close"]);
    let ended = shell.show(&run);
    assert_eq!(ended["status"], "canceled");
    assert_eq!(
        (&ended["steps"][0]["attempts"], &ended["steps"][0]["status"]),
        (&1.into(), &"rolled_back".into())
    );
    assert_eq!(ended["effects"], serde_json::json!({ "done": 1, "undone": 1, "unknown": 0 }));
}

#[test]
fn a_run_with_nothing_to_take_back_is_not_rolled_back() {
    let shell = Shell::new();
    let run = shell.start("{workflow: w, version: 1, steps: [{id: a, tool: wait.event, with: {event: e}}]}");
    shell.run(&format!("run rollback {run}")).expect(1).says("no finished step").says("help: `run cancel`");
}
