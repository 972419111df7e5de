//! `cargo xtask soak`: random workflows on the real programs, while processes, the store and external systems fail.
//!
//! This module builds and starts what the soak needs, as for the tests. The soak itself is a program of `tests/soak`.

use std::process::Command;

use crate::UsageError;
use crate::cargo::Cargo;
use crate::local::{self, Aws};
use crate::stages::Stages;
use crate::test::{ALL_FEATURES, BUILD};

pub(crate) const HELP: &str = "\
Run random workflows while processes, the store and external systems fail, and compare every effect.

Usage: cargo xtask soak [OPTIONS]

Options:
  --minutes N     Minutes of load and faults [default: 2]
  --runs N        End the load when this many runs were requested [default: no limit]
  --store STORE   `sqlite`, or `aws` for a local AWS [default: sqlite]
  --seed N        Seed for workflows, inputs, decisions and faults [default: 1]
  --release       Build and run the programs in the release profile, for many runs
  --json          Print the report as one JSON object on standard output
  -h, --help      Print help

The programs are real processes. They are killed with SIGKILL, terminated, suspended for longer than a
lease, and drained. Dispatch is stopped and started; policy and directory change. The store is slow, away
or full for some seconds. ServiceNow, GitHub, Slack and an HTTP service are fakes outside these processes:
they lose replies, fail, limit rates, and count every effect.

After the load, every run must end and have evidence. The soak fails and keeps the store if
  - an accepted request has no run, a run has no accepted request, or a run does not end
  - an effect happened without a receipt, not as often as its receipt says, or twice without a user who
    resumed a run with an unknown outcome
  - the ledger and the evidence have different receipts, or a bundle is missing or does not verify
  - an effect was attempted although policy denies it, or without the votes of users who may approve it
  - the transparency log has a gap, two entries for one run, or another root than a bundle says

Full size: --release --minutes 600 --runs 100000, and --release --minutes 600 --runs 5000 --store aws.
";

/// Validates the options of the soak program, so that a mistake is found before the build.
pub(crate) fn options(args: &[String]) -> Result<Vec<String>, UsageError> {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--help" | "-h" => return Err(UsageError::Help),
            "--json" | "--release" => {}
            "--minutes" | "--runs" | "--seed" | "--store" => {
                let value = rest.next().map_or("", String::as_str);
                let is_number = value.parse().is_ok_and(|number: u64| number > 0 || arg == "--seed");
                if arg == "--store" && !matches!(value, "sqlite" | "aws") || arg != "--store" && !is_number {
                    return Err(UsageError::Invalid(format!("{arg} {value}")));
                }
            }
            other => return Err(UsageError::Invalid(other.to_owned())),
        }
    }
    Ok(args.to_vec())
}

pub(crate) fn soak(cargo: &Cargo, options: &[String]) -> Stages {
    let mut stages = Stages::default();
    let is_release = options.iter().any(|option| option == "--release");
    // In the development profile, the same build as for the tests: with other targets the libraries would be compiled
    // again. The release profile has no build of tests to share.
    let arguments: &[&str] =
        if is_release { &["build", "--workspace", "--bins", "--release"] } else { &BUILD };
    let mut build = cargo.command(arguments);
    build.arg(ALL_FEATURES);
    if !stages.run("build", &mut build) {
        stages.note("the soak was not run, because the build failed");
        return stages;
    }
    // The servers stop when this is dropped.
    let servers = options
        .iter()
        .any(|option| option == "aws")
        .then(|| local::start_test_servers(cargo, Aws::MiniStack, &mut stages));
    match cargo.target_directory() {
        Ok(target) => {
            let programs = target.join(if is_release { "release" } else { "debug" });
            let executable = |name: &str| programs.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
            let mut command = Command::new(executable("countersign-soak"));
            command.args(options.iter().filter(|option| *option != "--release"));
            if let Some(servers) = &servers {
                local::set_environment(&mut command, servers.environment());
            }
            command.env("COUNTERSIGN_BIN", executable("countersign")).env("COUNTERSIGN_PROGRAMS", &programs);
            stages.run("soak", &mut command);
        }
        Err(reason) => drop(stages.run_fn("soak", || Err(reason))),
    }
    stages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Vec<String>, UsageError> {
        options(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn valid_options_are_passed_to_the_program() {
        let line = "--minutes 2 --store aws --seed 0 --json --runs 5000 --release";
        assert!(parse(line).is_ok_and(|options| options.join(" ") == line));
    }

    #[test]
    fn invalid_option_is_rejected_by_name() {
        for (line, named) in [
            ("--minutes", "--minutes "),
            ("--minutes 0", "--minutes 0"),
            ("--store mysql", "--store mysql"),
            ("--runs all", "--runs all"),
            ("--fast", "--fast"),
        ] {
            assert!(matches!(parse(line), Err(UsageError::Invalid(option)) if option == named), "{line}");
        }
        assert!(matches!(parse("--json -h"), Err(UsageError::Help)));
    }
}
