//! A command is a list of named parts; each is timed, and a failed one is named at the end.
//!
//! A failed part does not stop the others: whoever repairs something wants to know all of it.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cargo::shown;

/// What was done so far.
#[derive(Default)]
pub(crate) struct Parts {
    done: Vec<Part>,
    left_out: Vec<String>,
}

struct Part {
    name: &'static str,
    took: Duration,
    outcome: Result<String, String>,
}

/// Which of a child's streams is read here.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    /// Standard output, which a program is to read: shown only if the child fails.
    Report,
    /// Standard output, which a person is to read: shown as it comes.
    Output,
    /// Standard error: shown as it comes.
    Errors,
}

impl Parts {
    /// Runs one part, with its output going where ours goes. Whether it held.
    pub(crate) fn run(&mut self, name: &'static str, command: &mut Command) -> bool {
        announce(name, command);
        self.add(name, || succeeds(command).map(|()| String::new()))
    }

    /// Runs one part, reads one of its streams, and sums up in a line what was read there.
    pub(crate) fn read(
        &mut self,
        name: &'static str,
        command: &mut Command,
        stream: Stream,
        sum_up: impl FnOnce(&[String]) -> Result<String, String>,
    ) -> bool {
        announce(name, command);
        self.add(name, || {
            let (lines, ended) = listen(command, stream)?;
            let line = sum_up(&lines);
            // What the program said of itself helps more than its exit code alone.
            ended.map_err(|code| line.as_ref().map_or(code.clone(), |line| format!("{code}: {line}")))?;
            line
        })
    }

    /// Does one part that is no program, and says in a line what came of it. Whether it held.
    pub(crate) fn work(&mut self, name: &'static str, work: impl FnOnce() -> Result<String, String>) -> bool {
        eprintln!("\n--- {name}");
        self.add(name, work)
    }

    /// Something that was not done, and why: said at once, and again at the end.
    pub(crate) fn leave_out(&mut self, what: impl Into<String>) {
        let what = what.into();
        eprintln!("\n--- {what}");
        self.left_out.push(what);
    }

    /// Says what came of it all. Whether everything held.
    pub(crate) fn sum_up(&self) -> bool {
        eprintln!();
        for part in &self.done {
            let (word, line) = match &part.outcome {
                Ok(line) => ("ok", line),
                Err(line) => ("FAILED", line),
            };
            let row = format!("{word:<6} {:>7.1} s  {:<11} {line}", part.took.as_secs_f64(), part.name);
            eprintln!("{}", row.trim_end());
        }
        for what in &self.left_out {
            eprintln!("note              {what}");
        }
        let failed: Vec<&str> =
            self.done.iter().filter(|part| part.outcome.is_err()).map(|part| part.name).collect();
        if failed.is_empty() && self.left_out.is_empty() {
            eprintln!("\nxtask: everything held");
        } else if failed.is_empty() {
            eprintln!("\nxtask: everything that was done held; the notes say what was not");
        } else {
            eprintln!("\nxtask: failed: {}", failed.join(", "));
        }
        failed.is_empty()
    }

    fn add(&mut self, name: &'static str, work: impl FnOnce() -> Result<String, String>) -> bool {
        let began = Instant::now();
        let outcome = work();
        let took = began.elapsed();
        match &outcome {
            Ok(_) => eprintln!("--- {name}: {:.1} s", took.as_secs_f64()),
            Err(why) => eprintln!("--- {name}: FAILED after {:.1} s: {why}", took.as_secs_f64()),
        }
        let held = outcome.is_ok();
        self.done.push(Part { name, took, outcome });
        held
    }
}

fn announce(name: &str, command: &Command) {
    eprintln!("\n--- {name}: {}", shown(command));
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("did not start: {error}")),
    }
}

/// Runs the command to its end. What it wrote, and how it ended.
fn listen(command: &mut Command, stream: Stream) -> Result<(Vec<String>, Result<(), String>), String> {
    match stream {
        Stream::Report | Stream::Output => command.stdout(Stdio::piped()),
        Stream::Errors => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().map_err(|error| format!("did not start: {error}"))?;
    let lines = match stream {
        Stream::Report => child.stdout.take().map(|from| collect(from, |_| {})),
        Stream::Output => child.stdout.take().map(|from| collect(from, show)),
        Stream::Errors => child.stderr.take().map(|from| collect(from, show)),
    };
    let lines = lines.unwrap_or_default();
    let status = child.wait().map_err(|error| format!("was lost: {error}"))?;
    if status.success() {
        return Ok((lines, Ok(())));
    }
    if matches!(stream, Stream::Report) {
        show(&lines.join("\n"));
    }
    Ok((lines, Err(status.to_string())))
}

/// Every line, as text even where a program wrote something else.
fn collect(from: impl std::io::Read, see: impl Fn(&str)) -> Vec<String> {
    BufReader::new(from)
        .split(b'\n')
        .map_while(Result::ok)
        .map(|line| String::from_utf8_lossy(&line).trim_end().to_owned())
        .inspect(|line| see(line))
        .collect()
}

fn show(line: &str) {
    eprintln!("{line}");
}
