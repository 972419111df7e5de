//! `cargo xtask test`: builds everything the tests need and runs all tests.
//!
//! A stage that cannot run is reported when it is skipped and again in the summary, because a silently skipped test
//! looks like a passed one.

use std::io::IsTerminal as _;
use std::process::Command;

use crate::cargo::Cargo;
use crate::infra::infra;
use crate::json::number;
use crate::local::{self, Aws, TestServers};
use crate::program::{DIFFERENTIAL, MODEL, Program, SIMULATION};
use crate::stages::{Stages, Stream};
use crate::{UsageError, api, apt, browser, disk};

pub(crate) const HELP: &str = "\
Run all tests, then cost, scale, a soak, the fuzzers, the simulation, the model and the policy differential.

Usage: cargo xtask test [OPTIONS] [-- FILTER...]

Arguments:
  FILTER        Run only tests whose names contain one of these words. Skips the documentation examples
                and every stage that --fast skips. With cargo-nextest, its options are accepted as well:
                -- -E 'package(countersign-store)'

Options:
  --fast        Skip every stage that needs a local AWS, a browser, Node.js, schemathesis or terraform,
                and skip cost, scale, the soak, the fuzzers, the simulation, the model and the differential
  --localstack  Run the store tests on LocalStack instead of MiniStack. The e2e tests stay on MiniStack,
                because LocalStack cannot run Lambda functions without Docker
  -h, --help    Print help

Stages:
  disk             Fail if the disk cannot hold the build: 19 GiB with CARGO_INCREMENTAL=0, otherwise 35 GiB
  build            Build every test and the programs that tests start, deploy and kill
  node             Install Debian's `nodejs` if it is missing; one test runs the script in
                   docs/servicenow.md
  chromium         Install Debian's `chromium` and `chromium-driver`, and axe-core from npm, if missing
  local aws        Start MiniStack and DynamoDB Local for the duration of the tests; fails if one of
                   them cannot be installed or started
  tests            Run every test with cargo-nextest if it is installed, otherwise with `cargo test`
  local-aws store  Run the store tests on DynamoDB, SQS and S3 of the local AWS
  dynamodb-local   Run the ledger tests on DynamoDB Local, without the fault matrix
  e2e              Run functions, workers, evidence, `dev --aws` and `serve --aws` on the local AWS,
                   compare the requests of each program with its IAM role, and run a small storm
  browser          Test the console in Chromium; screenshots are stored in target/browser
  doctests         Run the examples in the documentation comments
  api              cargo xtask api
  infra            cargo xtask infra
  cost             cargo xtask cost --flat --json
  scale            cargo xtask scale --json
  soak             cargo xtask soak --json: two minutes of load and faults on SQLite, with seed 1
  fuzz             cargo xtask fuzz --json
  simulation       cargo xtask simulate --json
  model            cargo xtask model --json
  governance       cargo xtask model --json --world governance
  differential     cargo xtask differential --actions 250000

With --fast or FILTER, only the ledger is built for AWS; its tests start a DynamoDB.

The command sets COUNTERSIGN_BIN and COUNTERSIGN_PROGRAMS, through which tests find the built programs.
The summary at the end lists everything that was skipped.
";

#[derive(Default)]
pub(crate) struct TestOptions {
    fast: bool,
    aws: Aws,
    filter: Vec<String>,
}

pub(crate) fn options(args: &[String]) -> Result<TestOptions, UsageError> {
    let mut options = TestOptions::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--fast" => options.fast = true,
            "--localstack" => options.aws = Aws::LocalStack,
            "--" => options.filter = args.by_ref().cloned().collect(),
            "--help" | "-h" => return Err(UsageError::Help),
            other => return Err(UsageError::Invalid(other.to_owned())),
        }
    }
    Ok(options)
}

/// One build for everything: separate builds would enable different features of the dependencies and compile these
/// once for each combination.
pub(crate) const BUILD: [&str; 4] = ["build", "--workspace", "--tests", "--bins"];

pub(crate) const ALL_FEATURES: &str = "--all-features";

/// Packages whose tests run in stages of their own.
const SEPARATE_PACKAGES: [&str; 2] = ["countersign-e2e", "countersign-browser"];

/// The nextest filter for tests that need neither a local AWS nor a browser.
const WITHOUT_AWS: &str =
    "not (binary(stack) or (package(countersign-e2e) and kind(test)) or binary(browser))";

/// The names of the tests with every fault of every request. The faults are on the side of the client, so the stage
/// `tests` runs them on an emulator only, which is four times as fast as DynamoDB Local.
const FAULT_MATRIX: &str = "matrix::";

/// The program that runs the scripts of the documentation, and its Debian package.
const NODE: (&str, &str) = ("node", "nodejs");

pub(crate) fn test(cargo: &Cargo, options: &TestOptions) -> Stages {
    let mut stages = Stages::default();
    if options.fast || !options.filter.is_empty() {
        run_fast(cargo, options, &mut stages);
    } else {
        run_all(cargo, options, &mut stages);
    }
    stages
}

/// Runs the tests that need no external tools.
fn run_fast(cargo: &Cargo, options: &TestOptions, stages: &mut Stages) {
    if !stages.run("build", &mut cargo.command(&BUILD)) {
        stages.note("no test was run, because the build failed");
        return;
    }
    run_tests(cargo, TestFilter::Named(&options.filter), &[], stages);
    if options.filter.is_empty() {
        stages.run("doctests", &mut cargo.command(&["test", "--workspace", "--doc", "--quiet"]));
        stages.note(
            "skipped because of --fast: local AWS, browser, node, schemathesis, infra, cost, scale, soak, \
             fuzz, simulation, model and differential",
        );
    } else {
        stages.note(
            "skipped because of the filter: local AWS, browser, node, doctests, schemathesis, infra, cost, scale, \
             soak, fuzz, simulation, model and differential",
        );
    }
}

/// Runs every stage, the slowest last.
fn run_all(cargo: &Cargo, options: &TestOptions, stages: &mut Stages) {
    if !stages.run_fn("disk", || disk::check(&cargo.target_directory()?)) {
        stages.note("nothing was built, because the disk is too small");
        return;
    }
    if !stages.run("build", cargo.command(&BUILD).arg(ALL_FEATURES)) {
        stages.note("no test was run, because the build failed");
        return;
    }
    // If the installation fails, the test that needs node fails as well.
    stages.run_fn("node", || apt::install(&[NODE]).map(|()| NODE.0.to_owned()));
    let chromium = stages.run_fn("chromium", || browser::install(cargo));
    run_with_local_aws(cargo, options.aws, stages);
    run_browser_tests(cargo, chromium, stages);
    stages.run("doctests", &mut cargo.command(&["test", "--workspace", ALL_FEATURES, "--doc", "--quiet"]));
    api::run_schemathesis(cargo, stages);
    infra(cargo, stages);
    check_cost(cargo, stages);
    check_scale(cargo, stages);
    let compared = ["seed", "runs", "effects", "receipts_done", "bundles", "log_entries", "violations"];
    run_built_program(cargo, stages, ("soak", "countersign-soak"), &["--json"], &compared);
    let fuzzed = ["targets", "executions", "failed"];
    run_built_program(cargo, stages, ("fuzz", "countersign-fuzz"), &["--json"], &fuzzed);
    let flows = ["flows", "points_planned", "points_reached", "pairs_planned", "pairs_reached", "violations"];
    run_program(cargo, stages, "simulation", SIMULATION, &flows);
    let explored = ["unique_states", "mutants", "mutants_as_expected"];
    run_program(cargo, stages, "model", MODEL, &explored);
    let governance = MODEL.command(cargo, &["--json", "--world", "governance"]);
    run_json_report(stages, "governance", governance, &explored);
    let differential = DIFFERENTIAL.command(cargo, &["--actions", "250000"]);
    run_json_report(stages, "differential", differential, &["actions", "differences"]);
}

/// Runs the browser tests one at a time, because each starts one or two browsers.
fn run_browser_tests(cargo: &Cargo, chromium: bool, stages: &mut Stages) {
    if !chromium {
        stages.note("the console was not tested in a browser, because Chromium is not installed");
        return;
    }
    let mut command = cargo.command(&["test", "--workspace", ALL_FEATURES, "--quiet", "--no-fail-fast"]);
    set_program_paths(cargo, &mut command, stages);
    stages.run("browser", command.args(["--test", "browser", "--", "--test-threads", "1"]));
}

fn check_cost(cargo: &Cargo, stages: &mut Stages) {
    let limited =
        ["linear5_usd_per_million_steps", "linear5_round_trips_per_step", "governed_usd_per_million_steps"];
    run_built_program(cargo, stages, ("cost", "countersign-cost"), &["--flat", "--json"], &limited);
}

fn check_scale(cargo: &Cargo, stages: &mut Stages) {
    let rates = [
        "evidence_per_second",
        "wake_per_second",
        "behind_per_second",
        "runs_per_second",
        "switch_workers",
        "backout_per_second",
        "fleet_violations",
    ];
    run_built_program(cargo, stages, ("scale", "countersign-scale"), &["--json"], &rates);
}

/// Starts a program that the `build` stage built. `cargo run` would rebuild it with other features.
fn run_built_program(
    cargo: &Cargo,
    stages: &mut Stages,
    (name, program): (&'static str, &str),
    options: &[&str],
    numbers: &[&str],
) {
    let path = match cargo.target_directory() {
        Ok(target) => target.join("debug").join(format!("{program}{}", std::env::consts::EXE_SUFFIX)),
        Err(reason) => return stages.note(format!("{program} was not run: {reason}")),
    };
    let mut command = Command::new(path);
    command.args(options);
    set_program_paths(cargo, &mut command, stages);
    run_json_report(stages, name, command, numbers);
}

/// The variables that hold the endpoints of the local AWS and of DynamoDB Local.
const AWS: &str = "COUNTERSIGN_AWS";
const DYNAMODB_LOCAL: &str = "COUNTERSIGN_DYNAMODB";

/// Runs every test. Tests that need AWS use servers that stop when this function returns. The e2e tests run
/// without other tests, because they have time limits, and two at a time, because they mostly wait for leases.
fn run_with_local_aws(cargo: &Cargo, aws: Aws, stages: &mut Stages) {
    let servers = local::start_test_servers(cargo, aws, stages);
    let environment = without_dynamodb_local(&servers);
    let runner = run_tests(cargo, TestFilter::NotSeparate, &environment, stages);
    if servers.has(AWS) && runner.can_exclude_targets() {
        run_target(cargo, ("local-aws store", "stack", &["--test-threads", "2"]), &environment, stages);
    }
    if servers.has(DYNAMODB_LOCAL) {
        let options = ["--test-threads", "2", "--skip", FAULT_MATRIX];
        run_target(cargo, ("dynamodb-local", "aws", &options), servers.environment(), stages);
    }
    let servers = match aws {
        Aws::MiniStack => servers,
        // LocalStack runs no functions without Docker.
        Aws::LocalStack => {
            drop(servers);
            local::start_test_servers(cargo, Aws::MiniStack, stages)
        }
    };
    if !servers.has(AWS) {
        return;
    }
    let options = ["--test-threads", "2"];
    run_target(cargo, ("e2e", "e2e", &options), &without_dynamodb_local(&servers), stages);
}

fn without_dynamodb_local(servers: &TestServers) -> Vec<(String, String)> {
    servers.environment().iter().filter(|(name, _)| name != DYNAMODB_LOCAL).cloned().collect()
}

/// Runs the test target `target` with `options` of the test program.
fn run_target(
    cargo: &Cargo,
    (name, target, options): (&'static str, &str, &[&str]),
    environment: &[(String, String)],
    stages: &mut Stages,
) {
    let mut command = cargo.command(&["test", "--workspace", ALL_FEATURES, "--quiet", "--no-fail-fast"]);
    command.args(["--test", target, "--"]).args(options);
    local::set_environment(&mut command, environment);
    set_program_paths(cargo, &mut command, stages);
    stages.run(name, &mut command);
}

fn run_tests(
    cargo: &Cargo,
    filter: TestFilter<'_>,
    environment: &[(String, String)],
    stages: &mut Stages,
) -> Runner {
    let runner = if cargo.has("nextest") {
        Runner::Nextest
    } else {
        stages.note(
            "cargo-nextest is not installed: `cargo test` runs the tests without time limits; \
             to install it: cargo install cargo-nextest --locked",
        );
        Runner::CargoTest
    };
    let mut command = runner.command(cargo, filter);
    local::set_environment(&mut command, environment);
    set_program_paths(cargo, &mut command, stages);
    match runner {
        Runner::Nextest => stages.run_with_summary("tests", &mut command, Stream::Stderr, nextest_summary),
        Runner::CargoTest => {
            stages.run_with_summary("tests", &mut command, Stream::Stdout, cargo_test_summary)
        }
    };
    runner
}

/// Sets the variables through which tests find the built programs.
pub(crate) fn set_program_paths(cargo: &Cargo, command: &mut Command, stages: &mut Stages) {
    match cargo.target_directory() {
        Ok(target) => {
            let built = target.join("debug");
            let name = format!("countersign{}", std::env::consts::EXE_SUFFIX);
            command.env("COUNTERSIGN_BIN", built.join(name)).env("COUNTERSIGN_PROGRAMS", built);
        }
        Err(reason) => {
            let unset = "COUNTERSIGN_BIN is not set, so tests build the program themselves";
            stages.note(format!("{unset}: {reason}"));
        }
    }
}

/// Runs a program that prints a JSON report and fails by its exit code. The summary shows the named `numbers`.
fn run_program(cargo: &Cargo, stages: &mut Stages, name: &'static str, program: Program, numbers: &[&str]) {
    run_json_report(stages, name, program.command(cargo, &["--json"]), numbers);
}

fn run_json_report(stages: &mut Stages, name: &'static str, mut command: Command, numbers: &[&str]) {
    stages.run_with_summary(name, &mut command, Stream::Report, |lines| {
        let report = lines.join("\n");
        let fields = numbers.iter().map(|name| {
            let value = number(&report, name).ok_or_else(|| format!("the report has no number `{name}`"))?;
            Ok(format!("{name} {value}"))
        });
        fields.collect::<Result<Vec<_>, String>>().map(|fields| fields.join(", "))
    });
}

#[derive(Clone, Copy)]
enum Runner {
    Nextest,
    CargoTest,
}

#[derive(Clone, Copy)]
enum TestFilter<'a> {
    /// All tests with all features, except those with a stage of their own as far as the runner can exclude them.
    NotSeparate,
    /// Tests whose names contain one of these words; all tests if there are none.
    Named(&'a [String]),
}

impl Runner {
    /// `cargo test` excludes packages, but no single targets, so it runs the store's `stack` with the other tests.
    fn can_exclude_targets(self) -> bool {
        matches!(self, Self::Nextest)
    }

    /// The command for all tests except doctests, which have a stage of their own.
    fn command(self, cargo: &Cargo, filter: TestFilter<'_>) -> Command {
        let mut command = match self {
            Self::Nextest => cargo.command(&["nextest", "run", "--workspace", "--no-fail-fast"]),
            Self::CargoTest => {
                cargo.command(&["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"])
            }
        };
        // Nextest writes to a pipe here, so it cannot detect the terminal itself.
        if matches!(self, Self::Nextest) && std::io::stderr().is_terminal() {
            command.arg("--color=always");
        }
        match (self, filter) {
            (Self::Nextest, TestFilter::NotSeparate) => command.args([ALL_FEATURES, "-E", WITHOUT_AWS]),
            (Self::CargoTest, TestFilter::NotSeparate) => {
                let excluded = SEPARATE_PACKAGES.iter().flat_map(|package| ["--exclude", package]);
                command.arg(ALL_FEATURES).args(excluded)
            }
            (Self::Nextest, TestFilter::Named(words)) => command.args(words),
            (Self::CargoTest, TestFilter::Named(words)) => command.arg("--").args(words),
        };
        command
    }
}

/// The summary line that nextest prints at its end.
fn nextest_summary(lines: &[String]) -> Result<String, String> {
    let summary = lines.iter().rev().find(|line| line.contains(" run: ") && line.contains("Summary"));
    summary.map(|line| line.trim().to_owned()).ok_or_else(|| "no test was run".to_owned())
}

/// The sum of the result lines that `cargo test` prints, one for each binary.
fn cargo_test_summary(lines: &[String]) -> Result<String, String> {
    let results = lines.iter().filter_map(|line| line.trim().strip_prefix("test result: "));
    let (passed, failed) = results.fold((0, 0), |(passed, failed), line| {
        (passed + count_before(line, " passed"), failed + count_before(line, " failed"))
    });
    let line = format!("{passed} passed, {failed} failed");
    if passed + failed == 0 { Err("no test was run".to_owned()) } else { Ok(line) }
}

/// The number before a word.
fn count_before(line: &str, word: &str) -> usize {
    let before = line.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<TestOptions, UsageError> {
        options(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_after_two_dashes_are_the_filter() {
        let Ok(options) = parse(&["--fast", "--", "killed", "--fast"]) else { panic!("rejected") };
        assert!(options.fast);
        assert_eq!(options.filter, ["killed", "--fast"]);
    }

    #[test]
    fn ministack_is_the_default_local_aws() {
        assert!(parse(&[]).is_ok_and(|options| options.aws == Aws::MiniStack));
        assert!(parse(&["--localstack"]).is_ok_and(|options| options.aws == Aws::LocalStack));
    }

    #[test]
    fn unknown_option_is_rejected_by_name() {
        assert!(matches!(parse(&["--slow"]), Err(UsageError::Invalid(option)) if option == "--slow"));
        assert!(matches!(parse(&["--fast", "-h"]), Err(UsageError::Help)));
    }

    #[test]
    fn nextest_summary_is_its_summary_line() {
        let lines =
            ["  PASS [ 0.1s] a_run: ok", "     Summary [ 0.2s] 1 test run: 1 passed, 0 skipped", "done"];
        let lines = lines.map(str::to_owned);
        assert!(nextest_summary(&lines).is_ok_and(|line| line.starts_with("Summary")));
        assert!(nextest_summary(&[]).is_err());
    }

    #[test]
    fn cargo_test_summary_adds_up_all_binaries() {
        let lines = [
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test a_test ... ok",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        ];
        assert_eq!(cargo_test_summary(&lines.map(str::to_owned)), Ok("15 passed, 2 failed".to_owned()));
    }
}
