//! `cargo xtask storm`: the full-size load test with worker crashes.
//!
//! This module builds and starts what the storm needs, as for the tests. The storm itself is a program of `tests/e2e`,
//! whose tests include a smaller one.

use std::path::PathBuf;
use std::process::Command;

use crate::UsageError;
use crate::cargo::Cargo;
use crate::local::{self, Aws};
use crate::stages::Stages;
use crate::test::{ALL_FEATURES, BUILD, set_program_paths};

pub(crate) const HELP: &str = "\
Send thousands of webhooks, some of them twice, while workers are killed, and verify that no run is lost.

Usage: cargo xtask storm [OPTIONS]

Options:
  --deliveries N        Number of webhooks to send, duplicates included [default: 10000]
  --duplicates PERCENT  Percentage of deliveries that repeat an earlier one [default: 10]
  --seed N              Seed for the choice of duplicates and of killed workers [default: 1]
  --workers N           Number of worker processes [default: 3]
  --kill-every SECONDS  Approximate interval at which a worker is killed and replaced [default: 4]
  --in-flight N         Number of concurrent deliveries [default: 16]
  --json                Print the report as one JSON object on standard output and the table on
                        standard error
  -h, --help            Print help

Signed webhooks go through the real function on a local AWS (MiniStack, with the table on DynamoDB Local).
Each webhook starts a run that changes one record in a fake ServiceNow. The storm ends when every run has
its evidence and the queues are empty. It fails if there is no progress for eight minutes, and then lists
the stuck runs.

The report checks that:
  - the number of runs equals the number of distinct keys
  - the number of external changes equals the number of runs, one for each record
  - every run has an evidence bundle that is recorded, is in the bucket, verifies offline and has its own
    position in the log
  - no message is left, and the work of every dead-letter message was done

10,000 deliveries take about half an hour on two busy cores; 1,000 take three minutes. Timings are reported
but not checked.
";

/// Options that take a number, and its minimum.
const NUMBERS: [(&str, u32); 6] = [
    ("--deliveries", 1),
    ("--duplicates", 0),
    ("--seed", 0),
    ("--workers", 1),
    ("--kill-every", 1),
    ("--in-flight", 1),
];

/// Validates the options of the storm program, so that a mistake is found before the build.
pub(crate) fn options(args: &[String]) -> Result<Vec<String>, UsageError> {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match (arg.as_str(), NUMBERS.iter().find(|(name, _)| name == arg)) {
            ("--help" | "-h", _) => return Err(UsageError::Help),
            ("--json", _) => {}
            (_, Some((name, min))) => {
                let value = rest.next().map_or("", String::as_str);
                let is_valid = value.parse().is_ok_and(|number: u32| number >= *min);
                if !is_valid || (*name == "--duplicates" && value.len() > 2) {
                    return Err(UsageError::Invalid(format!("{name} {value}")));
                }
            }
            (other, None) => return Err(UsageError::Invalid(other.to_owned())),
        }
    }
    Ok(args.to_vec())
}

pub(crate) fn storm(cargo: &Cargo, options: &[String]) -> Stages {
    let mut stages = Stages::default();
    // The same build as for the tests: with other targets the libraries would be compiled again.
    if !stages.run("build", cargo.command(&BUILD).arg(ALL_FEATURES)) {
        stages.note("the storm was not run, because the build failed");
        return stages;
    }
    let servers = local::start_test_servers(cargo, Aws::MiniStack, &mut stages);
    let environment = servers.environment();
    match program(cargo, environment) {
        Ok(program) => {
            let mut command = Command::new(program);
            local::set_environment(command.args(options), environment);
            set_program_paths(cargo, &mut command, &mut stages);
            stages.run("storm", &mut command);
        }
        Err(reason) => {
            stages.run_fn("storm", || Err(reason));
        }
    }
    stages
}

/// The path of the storm program. Fails if there is no local AWS.
fn program(cargo: &Cargo, environment: &[(String, String)]) -> Result<PathBuf, String> {
    if !environment.iter().any(|(name, _)| name == "COUNTERSIGN_AWS") {
        return Err("the local AWS is not running".to_owned());
    }
    let name = format!("countersign-storm{}", std::env::consts::EXE_SUFFIX);
    Ok(cargo.target_directory()?.join("debug").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Vec<String>, UsageError> {
        options(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn valid_options_are_passed_to_the_program() {
        assert!(parse("").is_ok_and(|options| options.is_empty()));
        let line = "--deliveries 200 --json --duplicates 0";
        assert!(parse(line).is_ok_and(|options| options.join(" ") == line));
    }

    #[test]
    fn invalid_option_is_rejected_by_name() {
        for (line, named) in [
            ("--deliveries", "--deliveries "),
            ("--deliveries 0", "--deliveries 0"),
            ("--deliveries --json", "--deliveries --json"),
            ("--duplicates 100", "--duplicates 100"),
            ("--fast", "--fast"),
        ] {
            assert!(matches!(parse(line), Err(UsageError::Invalid(option)) if option == named), "{line}");
        }
        assert!(matches!(parse("--json -h"), Err(UsageError::Help)));
    }
}
