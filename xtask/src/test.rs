//! `cargo xtask test`: everything that is run before a change is believed.
//!
//! What the tests need is built here. What could not be had is said, and said again at the end: a test
//! that was silently left out looks like one that passed.

use std::io::IsTerminal as _;
use std::process::Command;

use crate::cargo::Cargo;
use crate::infra::infra;
use crate::local::{self, Aws, Servers};
use crate::parts::{Parts, Stream};
use crate::program::{MODEL, POLICY, Program, SIMULATION};
use crate::report::number;
use crate::{Misuse, api, browser, debian};

pub(crate) const HELP: &str = "\
All tests, then the proofs in the size that CI runs.

Usage: cargo xtask test [--fast] [--localstack] [-- FILTER...]

  --fast        leaves out the local AWS, the browser, node, schemathesis, infra/, the cost, the simulation, the model and
                the policy's differential, which take minutes or are not on every machine
  --localstack  LocalStack plays AWS for the store, in MiniStack's place; the journeys stay on MiniStack, because LocalStack
                runs no functions without Docker
  -- FILTER...  only tests with these words in their names; no documentation tests, no proofs, no AWS.
                With cargo-nextest its own options work too: -- -E 'package(countersign-store)'

  local aws     MiniStack and DynamoDB Local, for the time of the tests: cargo xtask local; one that cannot be had is a failure
  build         every test, and the programs, which some tests start, deploy and kill
  node          Debian's nodejs, installed unless it is there: it runs the script in docs/servicenow.md
  tests         every test, by cargo-nextest if that is installed, otherwise by `cargo test`
  stack         the store with DynamoDB, SQS and S3 of the local AWS
  referee       its ledger on DynamoDB Local
  journeys      functions, workers, evidence, `dev --aws` and `serve --aws` on the local AWS, what each asks for against
                what its role allows, and a small storm: cargo xtask storm
  chromium      Debian's chromium and chromium-driver, and axe-core from npm, installed unless they are there
  browser       the console in Chromium; pictures of every page are kept in target/browser
  examples      the examples in the documentation
  api           cargo xtask api: schemathesis
  infra         cargo xtask infra: terraform and checkov
  simulation    cargo xtask simulate --json
  model         cargo xtask model --json
  policy        cargo xtask differential --actions 1000000
  cost          cargo xtask cost --flat --json

With --fast or a filter only the ledger is built for AWS; its tests bring a DynamoDB in their own process.

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

/// All in one go: built alone, each would get other features of the libraries, and these would be compiled once
/// more for each.
pub(crate) const BUILD: [&str; 4] = ["build", "--workspace", "--tests", "--bins"];

/// Everything that is built only where it is asked for.
pub(crate) const ALL: &str = "--all-features";

/// Packages whose tests run one at a time, in parts of their own.
const APART: [&str; 2] = ["countersign-e2e", "countersign-browser"];

/// The tests that need neither a local AWS nor a browser, by the names of their targets.
const WITHOUT_AWS: &str =
    "not (binary(stack) or (package(countersign-e2e) and kind(test)) or binary(browser))";

/// What runs the scripts of our documentation, and Debian's package with it.
const NODE: (&str, &str) = ("node", "nodejs");

/// Builds what the tests need, then runs them; the proofs come last, because they take longest.
pub(crate) fn test(cargo: &Cargo, wanted: &Wanted) -> Parts {
    let mut parts = Parts::default();
    if wanted.fast || !wanted.filter.is_empty() {
        in_short(cargo, wanted, &mut parts);
    } else {
        whole(cargo, wanted, &mut parts);
    }
    parts
}

/// Without AWS and without proofs.
fn in_short(cargo: &Cargo, wanted: &Wanted, parts: &mut Parts) {
    if !parts.run("build", &mut cargo.command(&BUILD)) {
        parts.leave_out("nothing was run, because it does not build");
        return;
    }
    tests(cargo, Which::Named(&wanted.filter), &[], parts);
    if wanted.filter.is_empty() {
        parts.run("examples", &mut cargo.command(&["test", "--workspace", "--doc", "--quiet"]));
        parts.leave_out(
            "AWS, the browser, node, schemathesis, infra/, the cost, the simulation, the model and the differential were \
             left out: --fast",
        );
    } else {
        parts.leave_out(
            "AWS, the browser, node, the documentation's examples and the proofs were left out: a filter was given",
        );
    }
}

fn whole(cargo: &Cargo, wanted: &Wanted, parts: &mut Parts) {
    if !parts.run("build", cargo.command(&BUILD).arg(ALL)) {
        parts.leave_out("nothing was run, because it does not build");
        return;
    }
    // Without it the test that needs it fails among the others, and says so.
    parts.work("node", || debian::install(&[NODE]).map(|()| NODE.0.to_owned()));
    let chromium = parts.work("chromium", || browser::install(cargo));
    on_a_local_aws(cargo, wanted.aws, parts);
    in_a_browser(cargo, chromium, parts);
    parts.run("examples", &mut cargo.command(&["test", "--workspace", ALL, "--doc", "--quiet"]));
    api::tried(cargo, parts);
    infra(cargo, parts);
    cost(cargo, parts);
    let flows = ["flows", "points_planned", "points_reached", "pairs_planned", "pairs_reached", "violations"];
    prove(cargo, parts, "simulation", SIMULATION, &flows);
    prove(cargo, parts, "model", MODEL, &["unique_states", "mutants", "mutants_as_expected"]);
    let differential = POLICY.command(cargo, &["--actions", "1000000"]);
    prove_with(parts, "policy", differential, &["actions", "differences"]);
}

/// The console in Chromium, one test at a time: each has a browser or two to itself.
fn in_a_browser(cargo: &Cargo, chromium: bool, parts: &mut Parts) {
    if !chromium {
        parts.leave_out("the console was not tried in a browser, because there is none");
        return;
    }
    let mut command = cargo.command(&["test", "--workspace", ALL, "--quiet", "--no-fail-fast"]);
    programs(cargo, &mut command, parts);
    parts.run("browser", command.args(["--test", "browser", "--", "--test-threads", "1"]));
}

/// The program is built with the rest, so it is not built once more with other features.
fn cost(cargo: &Cargo, parts: &mut Parts) {
    let program = match cargo.target_directory() {
        Ok(target) => target.join("debug").join(format!("countersign-cost{}", std::env::consts::EXE_SUFFIX)),
        Err(why) => return parts.leave_out(format!("the cost was not counted: {why}")),
    };
    let mut command = Command::new(program);
    command.args(["--flat", "--json"]);
    let promised =
        ["linear5_usd_per_million_steps", "linear5_round_trips_per_step", "governed_usd_per_million_steps"];
    prove_with(parts, "cost", command, &promised);
}

/// What names the servers to the tests: the one that plays AWS, and a second opinion on the ledger.
const AWS: &str = "COUNTERSIGN_AWS";
const REFEREE: &str = "COUNTERSIGN_DYNAMODB";

/// Every test; those that need an AWS with servers that end when this does. The journeys are alone, because they
/// hold processes to times.
fn on_a_local_aws(cargo: &Cargo, aws: Aws, parts: &mut Parts) {
    let servers = local::servers(cargo, aws, parts);
    let runner = tests(cargo, Which::AllButThoseApart, &without_referee(&servers), parts);
    if servers.has(AWS) && runner.leaves_out_targets() {
        run_on(cargo, ("stack", &["stack".to_owned()], "2"), &without_referee(&servers), parts);
    }
    if servers.has(REFEREE) {
        run_on(cargo, ("referee", &["aws".to_owned()], "2"), servers.environment(), parts);
    }
    let servers = match aws {
        Aws::Usual => servers,
        // It runs no functions without Docker.
        Aws::LocalStack => {
            drop(servers);
            local::servers(cargo, Aws::Usual, parts)
        }
    };
    if !servers.has(AWS) {
        return;
    }
    match journeys(cargo) {
        Ok(targets) => run_on(cargo, ("journeys", &targets, "1"), &without_referee(&servers), parts),
        Err(why) => drop(parts.work("journeys", || Err(why))),
    }
}

fn without_referee(servers: &Servers) -> Vec<(String, String)> {
    servers.environment().iter().filter(|(name, _)| name != REFEREE).cloned().collect()
}

/// The targets of the journeys: whatever stands there is run.
fn journeys(cargo: &Cargo) -> Result<Vec<String>, String> {
    let directory = cargo.root().join("tests/e2e/tests");
    let failed = |error: std::io::Error| format!("read {}: {error}", directory.display());
    let mut found = Vec::new();
    for entry in directory.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists() {
            found.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    found.sort();
    if found.is_empty() { Err(format!("{} has none", directory.display())) } else { Ok(found) }
}

/// Runs some targets, so many of their tests at once.
fn run_on(
    cargo: &Cargo,
    (name, targets, at_once): (&'static str, &[String], &str),
    environment: &[(String, String)],
    parts: &mut Parts,
) {
    let mut command = cargo.command(&["test", "--workspace", ALL, "--quiet", "--no-fail-fast"]);
    command.args(targets.iter().flat_map(|target| ["--test", target]));
    command.args(["--", "--test-threads", at_once]);
    local::tell(&mut command, environment);
    programs(cargo, &mut command, parts);
    parts.run(name, &mut command);
}

fn tests(cargo: &Cargo, which: Which<'_>, environment: &[(String, String)], parts: &mut Parts) -> Runner {
    let runner = if cargo.has("nextest") {
        Runner::Nextest
    } else {
        parts.leave_out(
            "cargo-nextest is not installed; `cargo test` is used, without time limits: \
             cargo install cargo-nextest --locked",
        );
        Runner::CargoTest
    };
    let mut command = runner.command(cargo, which);
    local::tell(&mut command, environment);
    programs(cargo, &mut command, parts);
    match runner {
        Runner::Nextest => parts.read("tests", &mut command, Stream::Errors, nextest_summary),
        Runner::CargoTest => parts.read("tests", &mut command, Stream::Output, cargo_test_summary),
    };
    runner
}

/// Tells the tests where the programs are.
pub(crate) fn programs(cargo: &Cargo, command: &mut Command, parts: &mut Parts) {
    match cargo.target_directory() {
        Ok(target) => {
            let built = target.join("debug");
            let name = format!("countersign{}", std::env::consts::EXE_SUFFIX);
            command.env("COUNTERSIGN_BIN", built.join(name)).env("COUNTERSIGN_PROGRAMS", built);
        }
        Err(why) => {
            let without = "COUNTERSIGN_BIN is not set, so tests build the program themselves";
            parts.leave_out(format!("{without}: {why}"));
        }
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

/// Which tests.
#[derive(Clone, Copy)]
enum Which<'a> {
    /// With every feature; those that have a part of their own are left to it, as far as the runner can.
    AllButThoseApart,
    /// Those with these words in their names, or all if there are none.
    Named(&'a [String]),
}

impl Runner {
    /// `cargo test` leaves out whole packages and no single targets: the store's `stack` is among the others there.
    fn leaves_out_targets(self) -> bool {
        matches!(self, Self::Nextest)
    }

    /// Everything but the examples in the documentation, which have a part of their own.
    fn command(self, cargo: &Cargo, which: Which<'_>) -> Command {
        let mut command = match self {
            Self::Nextest => cargo.command(&["nextest", "run", "--workspace", "--no-fail-fast"]),
            Self::CargoTest => {
                cargo.command(&["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"])
            }
        };
        // It writes into a pipe here, so it cannot see for itself that somebody is watching.
        if matches!(self, Self::Nextest) && std::io::stderr().is_terminal() {
            command.arg("--color=always");
        }
        match (self, which) {
            (Self::Nextest, Which::AllButThoseApart) => command.args([ALL, "-E", WITHOUT_AWS]),
            (Self::CargoTest, Which::AllButThoseApart) => {
                command.arg(ALL).args(APART.iter().flat_map(|package| ["--exclude", package]))
            }
            (Self::Nextest, Which::Named(words)) => command.args(words),
            (Self::CargoTest, Which::Named(words)) => command.arg("--").args(words),
        };
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
