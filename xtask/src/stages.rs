//! Runs a command as a list of named stages, times each stage and prints a summary.
//!
//! A failed stage does not stop the stages after it, so that one invocation reports every failure.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cargo::command_line;

#[derive(Default)]
pub(crate) struct Stages {
    finished: Vec<Stage>,
    notes: Vec<String>,
}

struct Stage {
    name: &'static str,
    elapsed: Duration,
    /// One line of summary, or the reason for the failure.
    result: Result<String, String>,
}

/// The stream of a child process that is captured.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    /// Standard output for a program to parse. Printed only if the child fails.
    Report,
    /// Standard output for a person to read. Printed as it arrives.
    Stdout,
    /// Standard error. Printed as it arrives.
    Stderr,
}

impl Stages {
    /// Runs a command with our own standard streams. Returns whether it succeeded.
    pub(crate) fn run(&mut self, name: &'static str, command: &mut Command) -> bool {
        announce(name, command);
        self.record(name, || succeeds(command).map(|()| String::new()))
    }

    /// Runs a command, captures one of its streams and reduces the captured lines to one line of summary.
    pub(crate) fn run_with_summary(
        &mut self,
        name: &'static str,
        command: &mut Command,
        stream: Stream,
        summary_of: impl FnOnce(&[String]) -> Result<String, String>,
    ) -> bool {
        announce(name, command);
        self.record(name, || {
            let (lines, exit) = capture(command, stream)?;
            let summary = summary_of(&lines);
            // The program's own summary helps more than its exit code alone.
            exit.map_err(|code| summary.as_ref().map_or(code.clone(), |line| format!("{code}: {line}")))?;
            summary
        })
    }

    /// Runs a function as a stage. Returns whether it succeeded.
    pub(crate) fn run_fn(&mut self, name: &'static str, f: impl FnOnce() -> Result<String, String>) -> bool {
        eprintln!("\n--- {name}");
        self.record(name, f)
    }

    /// Prints a note, such as the reason for a skipped check, now and again in the summary.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        eprintln!("\n--- {note}");
        self.notes.push(note);
    }

    /// Prints the result of every stage, then the notes. Returns whether every stage succeeded.
    pub(crate) fn print_summary(&self) -> bool {
        eprintln!();
        for stage in &self.finished {
            let (status, line) = match &stage.result {
                Ok(line) => ("ok", line),
                Err(line) => ("FAILED", line),
            };
            let row = format!("{status:<6} {:>8}  {:<15} {line}", format_duration(stage.elapsed), stage.name);
            eprintln!("{}", row.trim_end());
        }
        for note in &self.notes {
            eprintln!("note             {note}");
        }
        let failed: Vec<&str> =
            self.finished.iter().filter(|stage| stage.result.is_err()).map(|stage| stage.name).collect();
        if failed.is_empty() && self.notes.is_empty() {
            eprintln!("\nxtask: all stages passed");
        } else if failed.is_empty() {
            eprintln!("\nxtask: all stages passed; the notes list what was skipped");
        } else {
            eprintln!("\nxtask: failed: {}", failed.join(", "));
        }
        failed.is_empty()
    }

    fn record(&mut self, name: &'static str, work: impl FnOnce() -> Result<String, String>) -> bool {
        let started = Instant::now();
        let result = work();
        let elapsed = started.elapsed();
        match &result {
            Ok(_) => eprintln!("--- {name}: {}", format_duration(elapsed)),
            Err(reason) => eprintln!("--- {name}: FAILED after {}: {reason}", format_duration(elapsed)),
        }
        let succeeded = result.is_ok();
        self.finished.push(Stage { name, elapsed, result });
        succeeded
    }
}

/// `4m 12s`, or `12.3s` below one minute.
pub(crate) fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1}s", duration.as_secs_f64())
    } else {
        format!("{}m {}s", seconds / 60, seconds % 60)
    }
}

fn announce(name: &str, command: &Command) {
    eprintln!("\n--- {name}: {}", command_line(command));
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("did not start: {error}")),
    }
}

/// Runs the command to its end. Returns the captured lines and the exit status.
fn capture(command: &mut Command, stream: Stream) -> Result<(Vec<String>, Result<(), String>), String> {
    match stream {
        Stream::Report | Stream::Stdout => command.stdout(Stdio::piped()),
        Stream::Stderr => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().map_err(|error| format!("did not start: {error}"))?;
    let lines = match stream {
        Stream::Report => child.stdout.take().map(|pipe| collect(pipe, |_| {})),
        Stream::Stdout => child.stdout.take().map(|pipe| collect(pipe, print_line)),
        Stream::Stderr => child.stderr.take().map(|pipe| collect(pipe, print_line)),
    };
    let lines = lines.unwrap_or_default();
    let status = child.wait().map_err(|error| format!("cannot read the exit status: {error}"))?;
    if status.success() {
        return Ok((lines, Ok(())));
    }
    if matches!(stream, Stream::Report) {
        print_line(&lines.join("\n"));
    }
    Ok((lines, Err(status.to_string())))
}

/// Reads all lines. Replaces bytes that are not UTF-8.
fn collect(pipe: impl std::io::Read, on_line: impl Fn(&str)) -> Vec<String> {
    BufReader::new(pipe)
        .split(b'\n')
        .map_while(Result::ok)
        .map(|line| String::from_utf8_lossy(&line).trim_end().to_owned())
        .inspect(|line| on_line(line))
        .collect()
}

fn print_line(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_minutes_from_one_minute_on() {
        assert_eq!(format_duration(Duration::from_millis(12_340)), "12.3s");
        assert_eq!(format_duration(Duration::from_secs(252)), "4m 12s");
    }
}
