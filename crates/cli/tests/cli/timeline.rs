//! `run timeline` and the progress bar.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::env::CliEnv;

const TWO_STEPS: &str = "
workflow: w
version: 1
environment: dev
steps:
  - { id: sum, tool: transform, with: { value: 1 } }
  - { id: news, tool: wait.event, with: { event: news.came, timeout: 1h } }
";

/// A pseudo-terminal: the end that the program writes to, and the end that the test reads.
fn terminal() -> (OwnedFd, File) {
    let reader = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&reader).unwrap();
    unlockpt(&reader).unwrap();
    let name = ptsname(&reader, Vec::new()).unwrap();
    let path = std::ffi::OsStr::from_bytes(name.as_bytes());
    let writer = File::options().read(true).write(true).open(path).unwrap();
    (writer.into(), reader.into())
}

#[test]
fn timeline_draws_steps_and_open_waits() {
    let env = CliEnv::new();
    let run = env.start(TWO_STEPS);
    env.work("");
    let drawn = env.run(&format!("run timeline {run} --plain --width 80")).expect(0);
    let lines: Vec<&str> = drawn.out.lines().collect();
    assert!(lines[1].starts_with("sum  |") && lines[1].contains('#'), "{drawn:?}");
    assert!(lines[2].starts_with("news |") && lines[2].contains("~>|"), "{drawn:?}");
    assert!(drawn.out.is_ascii() && lines.iter().all(|line| line.len() <= 80), "{drawn:?}");

    env.run(&format!("run signal {run} news.came")).expect(0);
    env.work("");
    let timeline = env.run(&format!("run timeline {run} --json")).expect(0).json();
    assert_eq!(timeline["finished"], true);
    assert_eq!(timeline["steps"][1]["segments"][0]["activity"], "awaiting_event");
    assert_eq!(timeline["steps"][0]["segments"].as_array().unwrap().last().unwrap()["activity"], "working");
}

#[test]
fn timeline_uses_shades_in_utf8_locales() {
    let env = CliEnv::new();
    let run = env.start(TWO_STEPS);
    env.work("");
    let drawn = |locale: &str| {
        let mut command = env.command(&format!("run timeline {run}"));
        command.env_remove("LC_ALL").env_remove("LC_CTYPE").env("LANG", locale);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(drawn("de_DE.UTF-8").contains('▒'));
    assert!(drawn("C").is_ascii());
}

#[test]
fn broken_chain_is_not_drawn() {
    let env = CliEnv::new();
    let run = env.start(TWO_STEPS);
    let store = rusqlite::Connection::open(env.path("countersign.db")).unwrap();
    let alter = "UPDATE history SET event = CAST(replace(CAST(event AS TEXT), 'ada', 'eve') AS BLOB)";
    store.execute(alter, []).unwrap();
    env.run(&format!("run timeline {run}")).expect(1).prints("is broken").prints("run show");
}

#[test]
fn progress_bar_is_drawn_on_terminals_only() {
    let env = CliEnv::new();
    env.write(
        "workflow.yaml",
        TWO_STEPS
            .replace("wait.event, with: { event: news.came, timeout: 1h }", "transform, with: { value: 2 }"),
    );
    let run = env.run("run start workflow.yaml --json").expect(0).json()["run"].as_str().unwrap().to_owned();
    let (writer, mut reader) = terminal();
    let worker = env.worker("");
    let mut command = env.command(&format!("run watch {run}"));
    let mut child = command.env("TERM", "xterm").stdout(Stdio::piped()).stderr(writer).spawn().unwrap();
    // Reading a pseudo-terminal ends with an error when its last writer is closed.
    drop(command);
    let mut shown = Vec::new();
    let _ = reader.read_to_end(&mut shown);
    let mut lines = String::new();
    child.stdout.take().unwrap().read_to_string(&mut lines).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(worker);
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("/2 ") && shown.contains("succeeded"), "{shown:?}");
    assert!(lines.contains("the run is succeeded") && !lines.contains('\u{1b}'), "{lines:?}");

    let piped = env.run(&format!("run watch {run}")).expect(0);
    assert_eq!(piped.err, "");
}

#[test]
fn follow_and_watch_are_aliases() {
    let env = CliEnv::new();
    env.write(
        "workflow.yaml",
        "{workflow: w, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}",
    );
    let _worker = env.worker("");
    for word in ["--follow", "--watch"] {
        env.run(&format!("run start workflow.yaml {word}")).expect(0).prints("the run is succeeded");
    }
}
