//! Errors: the message, the fix and the exit code.

use std::process::Stdio;

use domain::{Cause, Initiator, RunKey};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::env::CliEnv;
use crate::server::engine;

const WAIT: &str = "{workflow: w, version: 1, steps: [{id: a, tool: wait.event, with: {event: e}}]}";

/// One byte above the limit of a payload.
const TOO_LARGE: usize = 8 * 1024 * 1024 + 1;

#[test]
fn missing_or_invalid_store_is_named() {
    let env = CliEnv::new();
    env.run("run list")
        .expect(3)
        .prints("the store countersign.db does not exist")
        .prints("--store or COUNTERSIGN_STORE");
    assert!(!env.path("countersign.db").exists(), "a read must not create a store");
    env.write("notes.txt", "no database at all, however long this text may be".repeat(100));
    env.run("--store notes.txt run list")
        .expect(3)
        .prints("cannot open the store notes.txt")
        .prints("caused by: ");
    env.run("--store . run list").expect(3).prints("caused by: ");
    env.run("--store no/such/dir/a.db worker --until-idle").expect(3);
}

#[test]
fn store_option_overrides_the_environment() {
    let env = CliEnv::new();
    env.write("workflow.yaml", WAIT);
    let named = |args: &str| {
        let mut command = env.command(args);
        command.env("COUNTERSIGN_STORE", "env.db").output().unwrap().status.code()
    };
    assert_eq!(named("run start workflow.yaml"), Some(0));
    assert!(env.path("env.db").exists());
    assert_eq!(named("run list --store other.db"), Some(3));
}

#[test]
fn unknown_run_is_not_found_in_any_tenant() {
    let env = CliEnv::new();
    let run = env.start(WAIT);
    for line in [
        "run show run-1".to_owned(),
        format!("run show {run} --tenant other"),
        format!("run watch other/{run}"),
        "run cancel run-1".to_owned(),
        "run retry run-1".to_owned(),
        "run pause run-1".to_owned(),
        "run rollback run-1".to_owned(),
        "run signal run-1 e".to_owned(),
        "approval approve run-1 a".to_owned(),
    ] {
        env.run(&line).expect(2).prints("not found").prints("`run list`");
    }
    env.run(&format!("run show default/{run}")).expect(0);
}

#[test]
fn invalid_arguments_are_refused() {
    let env = CliEnv::new();
    let run = env.start(WAIT);
    let long = "x".repeat(129);
    for (line, words) in [
        ("run show a#b".to_owned(), "run id contains '#'"),
        ("run show ../etc".to_owned(), "tenant id"),
        (format!("run show {long}"), "run id has 129 bytes"),
        (format!("run signal {run} a/b"), "event name contains '/'"),
        (format!("run signal {run} e --id a:b"), "signal id contains ':'"),
        (format!("approval approve {run} ä"), "step id contains 'ä'"),
        ("run list --status sleeping".to_owned(), "is not a run status"),
        ("run list --limit 0".to_owned(), "1..=1000"),
        ("run list --before x".to_owned(), "--before"),
        ("run list --tenant a/b".to_owned(), "tenant id contains '/'"),
        ("run start workflow.yaml --key a#b".to_owned(), "idempotency key contains '#'"),
        ("worker --lease 5".to_owned(), "write a whole number and a unit"),
        ("worker --lease 1s --renew-every 1s".to_owned(), "at most half of --lease"),
        ("worker --concurrency 0".to_owned(), "--concurrency"),
        ("worker --allow-host *.internal".to_owned(), "is not a pattern; write `*.` and a name with a dot"),
    ] {
        env.run(&line).expect(2).prints(words);
    }
}

#[test]
fn invalid_or_ambiguous_json_is_refused() {
    let env = CliEnv::new();
    env.write("workflow.yaml", WAIT);
    for (input, words) in [
        ("{\"a\": }", "line 1 column 7"),
        ("", "the document is empty"),
        (r#"{"a":1,"a":2}"#, "appears twice"),
        ("9007199254740993", "beyond 2^53"),
        ("@missing.json", "cannot read missing.json"),
    ] {
        env.run_with("run start workflow.yaml --input", input).expect(2).prints(words);
    }
    env.run_on("run start workflow.yaml --input -", b"\xff")
        .expect(2)
        .prints("the run's input, standard input,");
    env.run("run list").expect(3);
}

#[test]
fn oversized_input_is_refused() {
    let env = CliEnv::new();
    let run = env.start(WAIT);
    let body = vec![b' '; TOO_LARGE];
    env.write("large.json", &body);
    for line in
        ["run start workflow.yaml --input @large.json", &format!("run signal {run} e --payload @large.json")]
    {
        env.run(line).expect(2).prints("is larger than 8388608 bytes");
    }
    env.run_on("run start workflow.yaml --input -", &body).expect(2).prints("is larger than 8388608 bytes");
    let deep = "[".repeat(100) + &"]".repeat(100);
    env.run_with(&format!("run signal {run} e --payload"), &deep).expect(2).prints("nested more than");
}

#[test]
fn large_input_is_stored_whole() {
    let env = CliEnv::new();
    env.write(
        "workflow.yaml",
        "{workflow: w, version: 1, steps: [{id: a, tool: transform, with: {value: '${ size(trigger) }'}}]}",
    );
    let text = format!("\"{}\"", "x".repeat(1024 * 1024));
    let run = env.run_on("run start workflow.yaml --input - --json", text.as_bytes()).expect(0).json();
    env.work("");
    assert_eq!(env.show(run["run"].as_str().unwrap())["steps"][0]["output"], 1024 * 1024);
}

#[test]
fn terminal_control_characters_are_replaced() {
    let env = CliEnv::new();
    let run = env.start(WAIT);
    let harmful = "\u{1b}[2Jgone\u{202e}";
    let key = RunKey { tenant: "default".parse().unwrap(), run: run.parse().unwrap() };
    let by = Initiator::new(Cause::User, "mallory");
    let engine = engine(&env.path("countersign.db"));
    Runtime::new()
        .unwrap()
        .block_on(engine.tenant_handle(&key.tenant, &by).cancel(&key.run, harmful))
        .unwrap();
    let shown = env.run(&format!("run watch {run}")).expect(1).prints("[2Jgone");
    assert!(!shown.out.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
}

#[test]
fn control_characters_of_an_input_are_not_printed() {
    let env = CliEnv::new();
    env.write(
        "workflow.yaml",
        "{workflow: w, version: 1, steps: [{id: a, tool: transform, with: {value: '${ trigger }'}}]}",
    );
    let input = r#"{"text":"\u0000\u000c\u001b[2J\u007f\u009b2J\uffff\u202e"}"#;
    let run = env.run_with("run start workflow.yaml --json --input", input).expect(0).json();
    let run = run["run"].as_str().unwrap();
    env.work("");
    let expected: Value = serde_json::from_str(input).unwrap();
    assert_eq!(env.show(run)["steps"][0]["output"], expected);
    for line in [format!("run show {run}"), format!("run show {run} --json"), format!("run watch {run}")] {
        let shown = env.run(&line).expect(0);
        let raw = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!shown.out.contains(raw), "{line}: {:?}", shown.out);
    }
}

#[test]
fn closed_stdout_is_success() {
    let env = CliEnv::new();
    env.start(WAIT);
    let mut child = env.command("run list").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn run_with_missing_payload_fails() {
    let env = CliEnv::new();
    env.write(
        "long.yaml",
        "workflow: long\nversion: 1\nsteps: [{ id: a, tool: transform, with: { value: '${ trigger.text }' } }]\n",
    );
    let input = format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000));
    env.write("input.json", input);
    let answer = env.run("run start long.yaml --input @input.json --json").expect(0).json();
    let store = rusqlite::Connection::open(env.path("countersign.db")).unwrap();
    assert_ne!(store.execute("DELETE FROM blobs", []).unwrap(), 0);
    env.work("");
    let run = answer["run"].as_str().unwrap();
    env.run(&format!("run show {run}")).expect(0).prints("failed_terminal").prints("PAYLOAD_EXPIRED");
    env.run("queue dead-letters").expect(0).prints("no dead-letter messages");
}

#[test]
fn altered_event_is_detected() {
    let env = CliEnv::new();
    let run = env.start(WAIT);
    let store = rusqlite::Connection::open(env.path("countersign.db")).unwrap();
    let alter = "UPDATE history SET event = CAST(replace(CAST(event AS TEXT), 'ada', 'eve') AS BLOB)";
    assert_eq!(store.execute(alter, []).unwrap(), 1);
    env.run(&format!("run show {run}")).expect(1).prints("chain     BROKEN: event 0 was altered");
    let seen = env.run(&format!("run show {run} --json")).expect(1).json();
    assert_eq!(seen["chain"]["verified"], false);
}

#[test]
fn aws_commands_do_not_touch_a_file() {
    let env = CliEnv::new();
    for line in
        ["key create ada --role admin", "dispatch stop --all --reason fire", "backout --all --reason fire"]
    {
        let refused = env.run(&format!("{line} --aws")).expect(2);
        refused.prints(if cfg!(feature = "aws") { "COUNTERSIGN_TABLE" } else { "--features aws" });
    }
    env.run("key list --aws --store a.db").expect(2).prints("cannot be used with");
    env.run("--store a.db key list --aws").expect(2).prints("cannot be used with");
    assert!(!env.path("countersign.db").exists());
}
