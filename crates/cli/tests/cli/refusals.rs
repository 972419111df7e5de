//! What is wrong is said, with the way out, and never by falling over.

use std::process::Stdio;

use domain::{Cause, Initiator, RunKey};
use tokio::runtime::Runtime;

use crate::server::engine;
use crate::shell::Shell;

const WAIT: &str = "{workflow: w, version: 1, steps: [{id: a, tool: wait.event, with: {event: e}}]}";

/// One byte more than a payload may have.
const TOO_LARGE: usize = 8 * 1024 * 1024 + 1;

#[test]
fn a_store_that_is_not_there_or_no_store_is_named() {
    let shell = Shell::new();
    shell
        .run("run list")
        .expect(3)
        .says("there is no store countersign.db")
        .says("--store or COUNTERSIGN_STORE");
    assert!(!shell.path("countersign.db").exists(), "looking must not create a store");
    shell.write("notes.txt", "no database at all, however long this text may be".repeat(100));
    shell.run("--store notes.txt run list").expect(3).says("notes.txt cannot be used").says("caused by: ");
    shell.run("--store . run list").expect(3).says("caused by: ");
    shell.run("--store no/such/dir/a.db worker --until-idle").expect(3);
}

#[test]
fn the_environment_names_a_store_and_the_command_line_another() {
    let shell = Shell::new();
    shell.write("workflow.yaml", WAIT);
    let named = |args: &str| {
        let mut command = shell.command(args);
        command.env("COUNTERSIGN_STORE", "env.db").output().unwrap().status.code()
    };
    assert_eq!(named("run start workflow.yaml"), Some(0));
    assert!(shell.path("env.db").exists());
    assert_eq!(named("run list --store other.db"), Some(3));
}

#[test]
fn a_run_that_does_not_exist_is_not_found_under_any_tenant() {
    let shell = Shell::new();
    let run = shell.start(WAIT);
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
        shell.run(&line).expect(2).says("there is no run").says("`run list`");
    }
    shell.run(&format!("run show default/{run}")).expect(0);
}

#[test]
fn a_text_that_is_no_id_is_refused_where_it_stands() {
    let shell = Shell::new();
    let run = shell.start(WAIT);
    let long = "x".repeat(129);
    for (line, words) in [
        ("run show a#b".to_owned(), "run id holds '#'"),
        ("run show ../etc".to_owned(), "tenant id"),
        (format!("run show {long}"), "run id has 129 bytes"),
        (format!("run signal {run} a/b"), "event name holds '/'"),
        (format!("run signal {run} e --id a:b"), "signal id holds ':'"),
        (format!("approval approve {run} ä"), "step id holds 'ä'"),
        ("run list --status sleeping".to_owned(), "is not a run status"),
        ("run list --limit 0".to_owned(), "1..=1000"),
        ("run list --before x".to_owned(), "--before"),
        ("run list --tenant a/b".to_owned(), "tenant id holds '/'"),
        ("run start workflow.yaml --key a#b".to_owned(), "idempotency key holds '#'"),
        ("worker --lease 5".to_owned(), "write a whole number and a unit"),
        ("worker --lease 1s --heartbeat 1s".to_owned(), "at most half of --lease"),
        ("worker --concurrency 0".to_owned(), "--concurrency"),
        ("worker --allow-host *.internal".to_owned(), "a host is allowed by its whole name"),
    ] {
        shell.run(&line).expect(2).says(words);
    }
}

#[test]
fn an_input_that_is_no_json_or_ambiguous_is_refused_with_its_place() {
    let shell = Shell::new();
    shell.write("workflow.yaml", WAIT);
    for (input, words) in [
        ("{\"a\": }", "line 1 column 7"),
        ("", "the document is empty"),
        (r#"{"a":1,"a":2}"#, "stands twice"),
        ("9007199254740993", "beyond 2^53"),
        (r#""\u0000""#, "control character U+0000"),
        ("@missing.json", "missing.json cannot be read"),
    ] {
        shell.run_with("run start workflow.yaml --input", input).expect(2).says(words);
    }
    shell
        .run_on("run start workflow.yaml --input -", b"\xff")
        .expect(2)
        .says("the run's input, standard input,");
    shell.run("run list").expect(3);
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read_to_its_end() {
    let shell = Shell::new();
    let run = shell.start(WAIT);
    let body = vec![b' '; TOO_LARGE];
    shell.write("large.json", &body);
    for line in
        ["run start workflow.yaml --input @large.json", &format!("run signal {run} e --payload @large.json")]
    {
        shell.run(line).expect(2).says("has more than 8388608 bytes");
    }
    shell.run_on("run start workflow.yaml --input -", &body).expect(2).says("has more than 8388608 bytes");
    let deep = "[".repeat(100) + &"]".repeat(100);
    shell.run_with(&format!("run signal {run} e --payload"), &deep).expect(2).says("nested more than");
}

#[test]
fn a_large_input_within_bounds_is_kept_whole() {
    let shell = Shell::new();
    shell.write(
        "workflow.yaml",
        "{workflow: w, version: 1, steps: [{id: a, tool: transform, with: {value: '${ size(trigger) }'}}]}",
    );
    let text = format!("\"{}\"", "x".repeat(1024 * 1024));
    let run = shell.run_on("run start workflow.yaml --input - --json", text.as_bytes()).expect(0).json();
    shell.work("");
    assert_eq!(shell.show(run["run"].as_str().unwrap())["steps"][0]["output"], 1024 * 1024);
}

#[test]
fn what_a_stranger_wrote_does_not_reach_the_terminal_as_a_command() {
    let shell = Shell::new();
    let run = shell.start(WAIT);
    let harmful = "\u{1b}[2Jgone\u{202e}";
    let cancel = format!("run cancel {run} --reason");
    shell.run_with(&cancel, harmful).expect(2).says("control character U+001B");
    // Another program may have let it in.
    let key = RunKey { tenant: "default".parse().unwrap(), run: run.parse().unwrap() };
    let by = Initiator::new(Cause::User, "mallory");
    let engine = engine(&shell.path("countersign.db"));
    Runtime::new().unwrap().block_on(engine.cancel(&key, &by, harmful)).unwrap();
    let shown = shell.run(&format!("run watch {run}")).expect(1).says("[2Jgone");
    assert!(!shown.out.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let shell = Shell::new();
    shell.start(WAIT);
    let mut child = shell.command("run list").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_run_whose_input_is_gone_fails_and_says_so() {
    let shell = Shell::new();
    shell.write(
        "long.yaml",
        "workflow: long\nversion: 1\nsteps: [{ id: a, tool: transform, with: { value: '${ trigger.text }' } }]\n",
    );
    let input = format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000));
    shell.write("input.json", input);
    let answer = shell.run("run start long.yaml --input @input.json --json").expect(0).json();
    let store = rusqlite::Connection::open(shell.path("countersign.db")).unwrap();
    assert_ne!(store.execute("DELETE FROM blobs", []).unwrap(), 0);
    shell.work("");
    let run = answer["run"].as_str().unwrap();
    shell.run(&format!("run show {run}")).expect(0).says("failed_terminal").says("PAYLOAD_GONE");
    shell.run("queue dead-letters").expect(0).says("no message");
}

#[test]
fn an_altered_event_is_found_and_named() {
    let shell = Shell::new();
    let run = shell.start(WAIT);
    let store = rusqlite::Connection::open(shell.path("countersign.db")).unwrap();
    let alter = "UPDATE history SET event = CAST(replace(CAST(event AS TEXT), 'ada', 'eve') AS BLOB)";
    assert_eq!(store.execute(alter, []).unwrap(), 1);
    shell.run(&format!("run show {run}")).expect(1).says("chain     BROKEN: event 0 was altered");
    let seen = shell.run(&format!("run show {run} --json")).expect(1).json();
    assert_eq!(seen["chain"]["verified"], false);
}

#[test]
fn what_is_meant_for_aws_does_not_happen_in_a_file() {
    let shell = Shell::new();
    for line in
        ["key create ada --role admin", "dispatch stop --all --reason fire", "backout --all --reason fire"]
    {
        let refused = shell.run(&format!("{line} --aws")).expect(2);
        refused.says(if cfg!(feature = "aws") { "COUNTERSIGN_TABLE" } else { "--features aws" });
    }
    shell.run("key list --aws --store a.db").expect(2).says("cannot be used with");
    shell.run("--store a.db key list --aws").expect(2).says("cannot be used with");
    assert!(!shell.path("countersign.db").exists());
}
