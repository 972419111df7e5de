//! `cargo xtask`: developer tasks for this workspace.
//!
//! Progress and timings go to standard error. Standard output carries only results, so that
//! `cargo xtask simulate --json | jq` works. The crate uses only the standard library, because it is compiled
//! before every task.

mod api;
mod apt;
mod browser;
mod cargo;
mod check;
mod disk;
mod infra;
mod json;
mod local;
mod package;
mod program;
mod soak;
mod stages;
mod storm;
mod test;
mod tools;

use std::process::ExitCode;

use cargo::Cargo;
use stages::Stages;

const HELP: &str = "\
Run developer tasks for this workspace.

Usage: cargo xtask <COMMAND> [OPTIONS]

Commands:
  check         Check formatting, lints, documentation and licenses; run it before every commit
  test          Run all tests, then cost, scale, a soak, fuzz, simulation, model and differential
  local         Start, stop or inspect a local AWS that needs no Docker
  simulate      Run the real engine and worker with every fault injected at every call
  model         Explore the protocol, or with `--world governance` the approvals, exhaustively and check that
                every mutant fails
  differential  Compare the default policy with an independent implementation of its rules
  api           Test the REST API against its OpenAPI document with schemathesis
  storm         Send 10,000 webhooks to a local AWS while workers are killed; verify that none is lost
  soak          Run random workflows while processes, the store and external systems fail; compare every
                effect with receipts, evidence and log
  bench         Run a benchmark: `linear5` (five no-op steps), `list` (a page of a million runs),
                `accept` (signed webhooks), `stream` (event delivery to all listeners) or
                `evidence` (evidence bundles)
  cost          Count the AWS requests of a step, price them and compare the price with its limit
  scale         Measure the AWS store and a fleet of workers under simulated latency and the limits of DynamoDB
  fuzz          Mutate the inputs of every parser and verifier, with `--minutes N` for a long time
  infra         Check infra/ with terraform and checkov
  package       Build the Lambda zips and the image contexts for x86-64 and arm64
  help          Print this help

Options:
  -h, --help    Print help

Examples:
  $ cargo run -- demo
  $ cargo xtask test --fast
  $ cargo xtask test -- stale_worker
  $ cargo xtask simulate --json | jq

Exit codes:
  0  The command succeeded
  1  A check or a test failed
  2  The command line is invalid
  `simulate`, `model`, `differential`, `bench`, `cost`, `scale` and `fuzz` return the exit code of their program.

Run `cargo xtask <COMMAND> --help` for more information about a command.
";

/// The exit code for an invalid command line.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, options)) = args.split_first() else {
        return reject("no command given");
    };
    let cargo = Cargo::from_environment();
    match command.as_str() {
        "check" => match check::options(options) {
            Ok(()) => finish(&check::check(&cargo)),
            Err(error) => print_usage(&error, check::HELP),
        },
        "test" => match test::options(options) {
            Ok(options) => finish(&test::test(&cargo, &options)),
            Err(error) => print_usage(&error, test::HELP),
        },
        "api" => match api::options(options) {
            Ok(()) => finish(&api::api(&cargo)),
            Err(error) => print_usage(&error, api::HELP),
        },
        "storm" => match storm::options(options) {
            Ok(options) => finish(&storm::storm(&cargo, &options)),
            Err(error) => print_usage(&error, storm::HELP),
        },
        "soak" => match soak::options(options) {
            Ok(options) => finish(&soak::soak(&cargo, &options)),
            Err(error) => print_usage(&error, soak::HELP),
        },
        "local" => match local::options(options) {
            Ok(command) => local::local(&cargo, &command),
            Err(error) => print_usage(&error, local::HELP),
        },
        "infra" => match infra::options(options) {
            Ok(()) => {
                let mut stages = Stages::default();
                infra::infra(&cargo, &mut stages);
                finish(&stages)
            }
            Err(error) => print_usage(&error, infra::HELP),
        },
        "package" => match package::options(options) {
            Ok(options) => finish(&package::package(&cargo, &options)),
            Err(error) => print_usage(&error, package::HELP),
        },
        "simulate" => program::run(&cargo, program::SIMULATION, options),
        "model" => program::run(&cargo, program::MODEL, options),
        "bench" => match options.split_first() {
            Some((name, rest)) if name == "evidence" => program::run(&cargo, program::EVIDENCE, rest),
            _ => program::run(&cargo, program::BENCH, options),
        },
        "cost" => program::run(&cargo, program::COST, options),
        "scale" => program::run(&cargo, program::SCALE, options),
        "fuzz" => program::run(&cargo, program::FUZZ, options),
        "differential" => program::run(&cargo, program::DIFFERENTIAL, options),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        unknown => reject(&format!("unknown command `{unknown}`")),
    }
}

/// The reason why a command does not run.
enum UsageError {
    /// The user asked for help, which is not an error.
    Help,
    Invalid(String),
}

fn print_usage(error: &UsageError, help: &str) -> ExitCode {
    match error {
        UsageError::Help => {
            print!("{help}");
            ExitCode::SUCCESS
        }
        UsageError::Invalid(option) => {
            eprint!("error: unknown or invalid option `{option}`\n\n{help}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn reject(reason: &str) -> ExitCode {
    eprint!("error: {reason}\n\n{HELP}");
    ExitCode::from(EXIT_USAGE)
}

fn finish(stages: &Stages) -> ExitCode {
    if stages.print_summary() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
