//! `cargo xtask fuzz`: fuzzes each target in a process of its own, so that an abort is reported with its input.
#![expect(clippy::unwrap_used, reason = "a fuzzer fails by panicking")]

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use countersign_fuzz::{FuzzReport, FuzzTarget, Limits, SEED, TARGETS, run};
use serde_json::json;

const HELP: &str = "\
Fuzz everything that reads untrusted bytes: replay the corpus, then mutate it.

Usage: cargo xtask fuzz [OPTIONS]

Options:
  --target T    Fuzz only this target
  --minutes N   Fuzz each target for N minutes. Without it, each target gets a fixed number of inputs
  --seed N      Use other random numbers than the fixed ones
  --json        Print the result as JSON
  -h, --help    Print help

An input that fails is written to target/fuzz. Fix the cause, and move the input to
tests/fuzz/corpus/T, which every run replays.
";

#[derive(Default)]
struct Options {
    target: Option<String>,
    minutes: Option<u64>,
    seed: Option<u64>,
    json: bool,
    /// In the process of one target.
    child: bool,
}

fn options() -> Option<Options> {
    let mut options = Options::default();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--target" => options.target = Some(args.next()?),
            "--minutes" => options.minutes = Some(args.next()?.parse().ok()?),
            "--seed" => options.seed = Some(args.next()?.parse().ok()?),
            "--json" => options.json = true,
            "--child" => options.child = true,
            _ => return None,
        }
    }
    Some(options)
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        print!("{HELP}");
        return if std::env::args().any(|arg| arg == "--help" || arg == "-h") {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(2)
        };
    };
    let is_chosen = |target: &&FuzzTarget| options.target.as_deref().is_none_or(|name| name == target.name);
    let chosen: Vec<&'static FuzzTarget> = TARGETS.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("error: unknown target; use one of: {}", names.join(", "));
        return ExitCode::from(2);
    }
    if options.child { child(chosen[0], &options) } else { parent(&chosen, &options) }
}

fn failures() -> PathBuf {
    let target = std::env::current_exe().unwrap();
    target.ancestors().nth(2).unwrap().join("fuzz")
}

fn child(target: &'static FuzzTarget, options: &Options) -> ExitCode {
    let limits = match options.minutes {
        Some(minutes) => Limits {
            seed: options.seed.unwrap_or(SEED),
            executions: u64::MAX,
            time: Duration::from_secs(minutes * 60),
        },
        None => {
            Limits { seed: options.seed.unwrap_or(SEED), executions: target.executions, time: Duration::MAX }
        }
    };
    match run(target, limits, &failures()) {
        Ok(FuzzReport { executions, results, elapsed }) => {
            println!("{executions} {results} {}", elapsed.as_secs());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs each target, and prints its executions, kinds of results and seconds.
fn parent(targets: &[&FuzzTarget], options: &Options) -> ExitCode {
    let (mut executions, mut failed) = (0, Vec::new());
    for target in targets {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--child", "--target", target.name]);
        command
            .args(options.minutes.iter().flat_map(|minutes| ["--minutes".to_owned(), minutes.to_string()]));
        command.args(options.seed.iter().flat_map(|seed| ["--seed".to_owned(), seed.to_string()]));
        let output = command.stderr(std::process::Stdio::inherit()).output().unwrap();
        let line = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        executions += line.split(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
        if output.status.success() {
            eprintln!("{:<12} {line} (executions, kinds of results, seconds)", target.name);
        } else {
            let path = failures().join(format!("{}.current", target.name));
            eprintln!(
                "{:<12} FAILED: {}; the last input is in {}",
                target.name,
                output.status,
                path.display()
            );
            failed.push(target.name);
        }
    }
    if options.json {
        println!("{}", json!({"targets": targets.len(), "executions": executions, "failed": failed.len()}));
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
