//! A run over time, and how far it is.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::shell::Shell;

const TWO_STEPS: &str = "
workflow: w
version: 1
environment: dev
steps:
  - { id: sum, tool: transform, with: { value: 1 } }
  - { id: news, tool: wait.event, with: { event: news.came, timeout: 1h } }
";

/// A terminal: what a program writes to, and where it is read.
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
fn a_run_is_drawn_step_by_step_and_what_goes_on_is_open() {
    let shell = Shell::new();
    let run = shell.start(TWO_STEPS);
    shell.work("");
    let drawn = shell.run(&format!("run timeline {run} --plain --width 80")).expect(0);
    let lines: Vec<&str> = drawn.out.lines().collect();
    assert!(lines[1].starts_with("sum  |") && lines[1].contains('#'), "{drawn:?}");
    assert!(lines[2].starts_with("news |") && lines[2].contains("~>|"), "{drawn:?}");
    assert!(drawn.out.is_ascii() && lines.iter().all(|line| line.len() <= 80), "{drawn:?}");

    shell.run(&format!("run signal {run} news.came")).expect(0);
    shell.work("");
    let told = shell.run(&format!("run timeline {run} --json")).expect(0).json();
    assert_eq!(told["over"], true);
    assert_eq!(told["steps"][1]["bars"][0]["doing"], "awaiting_event");
    assert_eq!(told["steps"][0]["bars"].as_array().unwrap().last().unwrap()["doing"], "working");
}

#[test]
fn shades_are_drawn_where_the_locale_has_them() {
    let shell = Shell::new();
    let run = shell.start(TWO_STEPS);
    shell.work("");
    let drawn = |locale: &str| {
        let mut command = shell.command(&format!("run timeline {run}"));
        command.env_remove("LC_ALL").env_remove("LC_CTYPE").env("LANG", locale);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(drawn("de_DE.UTF-8").contains('▒'));
    assert!(drawn("C").is_ascii());
}

#[test]
fn a_broken_chain_is_not_drawn() {
    let shell = Shell::new();
    let run = shell.start(TWO_STEPS);
    let store = rusqlite::Connection::open(shell.path("countersign.db")).unwrap();
    let alter = "UPDATE history SET event = CAST(replace(CAST(event AS TEXT), 'ada', 'eve') AS BLOB)";
    store.execute(alter, []).unwrap();
    shell.run(&format!("run timeline {run}")).expect(1).says("is broken").says("run show");
}

#[test]
fn a_bar_shows_how_far_a_run_is_on_a_terminal_and_nowhere_else() {
    let shell = Shell::new();
    shell.write(
        "workflow.yaml",
        TWO_STEPS
            .replace("wait.event, with: { event: news.came, timeout: 1h }", "transform, with: { value: 2 }"),
    );
    let run =
        shell.run("run start workflow.yaml --json").expect(0).json()["run"].as_str().unwrap().to_owned();
    let (writer, mut reader) = terminal();
    let worker = shell.worker("");
    let mut command = shell.command(&format!("run watch {run}"));
    let mut child = command.env("TERM", "xterm").stdout(Stdio::piped()).stderr(writer).spawn().unwrap();
    // The other side of a terminal is read until nobody writes to it any more, which is told as an error.
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

    let piped = shell.run(&format!("run watch {run}")).expect(0);
    assert_eq!(piped.err, "");
}

#[test]
fn a_run_that_is_started_can_be_followed_by_either_word() {
    let shell = Shell::new();
    shell.write(
        "workflow.yaml",
        "{workflow: w, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}",
    );
    let _worker = shell.worker("");
    for word in ["--follow", "--watch"] {
        shell.run(&format!("run start workflow.yaml {word}")).expect(0).says("the run is succeeded");
    }
}
