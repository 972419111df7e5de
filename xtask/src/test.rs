//! `cargo xtask test`: everything that is run before a change is believed.
//!
//! What the tests need is built here. What could not be had is said, and said again at the end: a test
//! that was silently left out looks like one that passed.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::Command;

use crate::Misuse;
use crate::cargo::Cargo;
use crate::infra::infra;
use crate::local::{self, Aws};
use crate::parts::{Parts, Stream};
use crate::program::{COST, MODEL, POLICY, Program, SIMULATION};
use crate::report::number;

pub(crate) const HELP: &str = "\
All tests, then the proofs in the size that CI runs.

Usage: cargo xtask test [--fast] [--localstack] [-- FILTER...]

  --fast        leaves out the local AWS, infra/, the cost, the simulation, the model and the policy's
                differential, which take minutes
  --localstack  LocalStack plays AWS, in MiniStack's place
  -- FILTER...  only tests with these words in their names; no documentation tests, no proofs, no AWS.
                With cargo-nextest its own options work too: -- -E 'package(countersign-store)'

  build         every test, and the `countersign` program, which some tests start and kill
  tests         every test, by cargo-nextest if that is installed, otherwise by `cargo test`
  aws           the store on AWS, with a DynamoDB in the test's own process
  examples      the examples in the documentation
  local aws     MiniStack and DynamoDB Local, for the time of the tests: cargo xtask local
  stack         the store with DynamoDB, SQS and S3 of MiniStack
  referee       its ledger on DynamoDB Local
  simulation    cargo xtask simulate --json
  model         cargo xtask model --json
  policy        cargo xtask differential --actions 1000000
  infra         cargo xtask infra: terraform and checkov
  cost          cargo xtask cost --flat --json

The tests find the program through COUNTERSIGN_BIN, which is set here. Whatever could not be had is
named at the end.
";

/// What is asked for.
#[derive(Default)]
pub(crate) struct Wanted {
    fast: bool,
    aws: Aws,
    filter: Vec<String>,
}

/// Reads the options.
pub(crate) fn options(args: &[String]) -> Result<Wanted, Misuse> {
    let mut wanted = Wanted::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--fast" => wanted.fast = true,
            "--localstack" => wanted.aws = Aws::LocalStack,
            "--" => wanted.filter = args.by_ref().cloned().collect(),
            "--help" | "-h" => return Err(Misuse::Help),
            other => return Err(Misuse::Unknown(other.to_owned())),
        }
    }
    Ok(wanted)
}

/// Both in one go: built alone, the program would get other features of the libraries, and the tests would then
/// compile those libraries once more.
const BUILD: [&str; 5] = ["build", "--workspace", "--tests", "--bin", "countersign"];

/// The store on AWS, against a DynamoDB that lives in the test's process.
const AWS: [&str; 9] =
    ["test", "--quiet", "--package", "countersign-store", "--features", "aws", "--lib", "--test", "aws"];

/// The same on a local AWS.
const STACK: [&str; 8] =
    ["test", "--quiet", "--package", "countersign-store", "--features", "aws", "--test", "stack"];

/// Builds what the tests need, then runs them; the proofs come last, because they take longest.
pub(crate) fn test(cargo: &Cargo, wanted: &Wanted) -> Parts {
    let mut parts = Parts::default();
    if parts.run("build", &mut cargo.command(&BUILD)) {
        tests(cargo, &wanted.filter, &mut parts);
        beyond_tests(cargo, wanted, &mut parts);
    } else {
        parts.leave_out("nothing was run, because it does not build");
    }
    parts
}

fn tests(cargo: &Cargo, filter: &[String], parts: &mut Parts) {
    let runner = if cargo.has("nextest") {
        Runner::Nextest
    } else {
        parts.leave_out(
            "cargo-nextest is not installed; `cargo test` is used, without time limits: \
             cargo install cargo-nextest --locked",
        );
        Runner::CargoTest
    };
    let mut command = runner.command(cargo, filter);
    match binary(cargo) {
        Ok(path) => drop(command.env("COUNTERSIGN_BIN", path)),
        Err(why) => {
            parts.leave_out(format!(
                "COUNTERSIGN_BIN is not set, so tests build the program themselves: {why}"
            ));
        }
    }
    match runner {
        Runner::Nextest => parts.read("tests", &mut command, Stream::Errors, nextest_summary),
        Runner::CargoTest => parts.read("tests", &mut command, Stream::Output, cargo_test_summary),
    };
}

fn beyond_tests(cargo: &Cargo, wanted: &Wanted, parts: &mut Parts) {
    if !wanted.filter.is_empty() {
        parts.leave_out(
            "the store on AWS, the documentation's examples and the proofs were left out: a filter was given",
        );
        return;
    }
    // A part of its own: in one build with the rest, the program would be built with the AWS SDK.
    parts.run("aws", &mut cargo.command(&AWS));
    parts.run("examples", &mut cargo.command(&["test", "--workspace", "--doc", "--quiet"]));
    if wanted.fast {
        parts.leave_out(
            "the local AWS, infra/, the cost, the simulation, the model and the differential were left out: --fast",
        );
        return;
    }
    on_a_local_aws(cargo, wanted.aws, parts);
    infra(cargo, parts);
    let cost = COST.command(cargo, &["--flat", "--json"]);
    let promised =
        ["linear5_usd_per_million_steps", "linear5_round_trips_per_step", "governed_usd_per_million_steps"];
    prove_with(parts, "cost", cost, &promised);
    let flows = ["flows", "points_planned", "points_reached", "pairs_planned", "pairs_reached", "violations"];
    prove(cargo, parts, "simulation", SIMULATION, &flows);
    prove(cargo, parts, "model", MODEL, &["unique_states", "mutants", "mutants_as_expected"]);
    let differential = POLICY.command(cargo, &["--actions", "1000000"]);
    prove_with(parts, "policy", differential, &["actions", "differences"]);
}

/// What needs an AWS is run here; the servers end when this does.
fn on_a_local_aws(cargo: &Cargo, aws: Aws, parts: &mut Parts) {
    let servers = local::servers(cargo, aws, parts);
    let has = |name: &str| servers.environment().iter().any(|(variable, _)| variable == name);
    let run = |name, args: &[&str], parts: &mut Parts| {
        parts.run(name, cargo.command(args).envs(servers.environment().iter().cloned()));
    };
    if has("COUNTERSIGN_AWS") {
        run("stack", &STACK, parts);
    }
    if has("COUNTERSIGN_DYNAMODB") {
        run("referee", &AWS, parts);
    }
}

/// Runs a proof in its CI size. The program judges itself by its exit code; the numbers are for the reader.
fn prove(cargo: &Cargo, parts: &mut Parts, name: &'static str, program: Program, numbers: &[&str]) {
    prove_with(parts, name, program.command(cargo, &["--json"]), numbers);
}

fn prove_with(parts: &mut Parts, name: &'static str, mut command: Command, numbers: &[&str]) {
    parts.read(name, &mut command, Stream::Report, |lines| {
        let report = lines.join("\n");
        let shown = numbers.iter().map(|name| {
            let value = number(&report, name).ok_or_else(|| format!("its report has no number `{name}`"))?;
            Ok(format!("{name} {value}"))
        });
        shown.collect::<Result<Vec<_>, String>>().map(|shown| shown.join(", "))
    });
}

#[derive(Clone, Copy)]
enum Runner {
    Nextest,
    CargoTest,
}

impl Runner {
    /// Everything but the examples in the documentation, which have a part of their own.
    fn command(self, cargo: &Cargo, filter: &[String]) -> Command {
        let mut command = match self {
            Self::Nextest => cargo.command(&["nextest", "run", "--workspace", "--no-fail-fast"]),
            Self::CargoTest => {
                cargo.command(&["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast", "--"])
            }
        };
        // It writes into a pipe here, so it cannot see for itself that somebody is watching.
        if matches!(self, Self::Nextest) && std::io::stderr().is_terminal() {
            command.arg("--color=always");
        }
        command.args(filter);
        command
    }
}

/// The runner's closing line.
fn nextest_summary(lines: &[String]) -> Result<String, String> {
    let closing = lines.iter().rev().find(|line| line.contains(" run: ") && line.contains("Summary"));
    closing.map(|line| line.trim().to_owned()).ok_or_else(|| "no test was run".to_owned())
}

/// `cargo test` closes each binary with a line of its own; this adds them up.
fn cargo_test_summary(lines: &[String]) -> Result<String, String> {
    let closing = lines.iter().filter_map(|line| line.trim().strip_prefix("test result: "));
    let (passed, failed) = closing.fold((0, 0), |(passed, failed), line| {
        (passed + counted(line, " passed"), failed + counted(line, " failed"))
    });
    let line = format!("{passed} passed, {failed} failed");
    if passed + failed == 0 { Err("no test was run".to_owned()) } else { Ok(line) }
}

/// The number in front of a word.
fn counted(line: &str, word: &str) -> usize {
    let before = line.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn binary(cargo: &Cargo) -> Result<PathBuf, String> {
    let name = format!("countersign{}", std::env::consts::EXE_SUFFIX);
    Ok(cargo.target_directory()?.join("debug").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(args: &[&str]) -> Result<Wanted, Misuse> {
        options(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_follows_two_dashes_is_the_filter() {
        let Ok(wanted) = given(&["--fast", "--", "killed", "--fast"]) else { panic!("not understood") };
        assert!(wanted.fast);
        assert_eq!(wanted.filter, ["killed", "--fast"]);
    }

    #[test]
    fn ministack_plays_aws_unless_localstack_is_asked_for() {
        assert!(given(&[]).is_ok_and(|wanted| wanted.aws == Aws::Usual));
        assert!(given(&["--localstack"]).is_ok_and(|wanted| wanted.aws == Aws::LocalStack));
    }

    #[test]
    fn an_unknown_option_is_refused_by_name() {
        assert!(matches!(given(&["--slow"]), Err(Misuse::Unknown(option)) if option == "--slow"));
        assert!(matches!(given(&["--fast", "-h"]), Err(Misuse::Help)));
    }

    #[test]
    fn the_closing_line_is_found_among_the_others() {
        let lines =
            ["  PASS [ 0.1s] a_run: ok", "     Summary [ 0.2s] 1 test run: 1 passed, 0 skipped", "done"];
        let lines = lines.map(str::to_owned);
        assert!(nextest_summary(&lines).is_ok_and(|line| line.starts_with("Summary")));
        assert!(nextest_summary(&[]).is_err());
    }

    #[test]
    fn the_closing_lines_of_cargo_test_are_added_up() {
        let lines = [
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test a_test ... ok",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        ];
        assert_eq!(cargo_test_summary(&lines.map(str::to_owned)), Ok("15 passed, 2 failed".to_owned()));
    }
}
