//! `cargo xtask`: the entrance to everything that is done with this workspace.
//!
//! Each command says what it runs and how long that took, on standard error. Standard output belongs to
//! the programs it starts, so that `cargo xtask simulate --json | jq` works. It uses nothing but the
//! standard library: it is compiled before anything else can happen.

mod api;
mod browser;
mod cargo;
mod check;
mod debian;
mod infra;
mod local;
mod package;
mod parts;
mod program;
mod report;
mod storm;
mod test;
mod tools;

use std::process::ExitCode;

use cargo::Cargo;
use parts::Parts;

const HELP: &str = "\
What is done with this workspace, in one place.

Usage: cargo xtask <command> [options]

  check                       formatting, lints, documentation, licences: before every commit
  test [--fast] [-- FILTER]   all tests, then the proofs in their CI size
  local up|down|status        a local AWS without Docker, in the background
  simulate [options]          the real engine and worker, with every fault at every call
  model [options]             the protocol as a state machine, searched exhaustively, with its mutants
  api                         the API, tried by schemathesis with what its own document says
  storm [--deliveries N]      10,000 webhooks on a local AWS while workers are killed: nothing is lost
  differential [--actions N]  the default policy against a second reading of its rules, action by action
  bench <name> [options]      what a step takes (`linear5`: five steps that do nothing), a page of a million runs
                              (`list`), an accepted webhook (`accept`), or a bundle (`evidence`); how soon all who
                              listen see an event (`stream`)
  cost [--flat] [--json]      what a step costs on AWS, counted, priced and held against what was promised
  infra                       infra/: format, terraform validate where the provider can be had, checkov
  package [options]           the Lambda zips and the worker's image context, for x86-64 and arm64

To begin with:

  cargo run -- demo                        see what the product does
  cargo xtask test --fast                  the tests alone, without the proofs
  cargo xtask test -- a_stale_worker       the tests whose names contain these words
  cargo xtask simulate --json | jq         one JSON object on standard output
  cargo xtask simulate --help              the options of the program behind a command

`cargo xtask <command> --help` says more. The exit code is 0 when everything held, 2 when the command was
not understood; `simulate`, `model`, `bench` and `cost` hand on the exit code of
their program.
";

/// The command was not understood; nothing was run.
const MISUSED: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, options)) = args.split_first() else {
        return refuse("which command?");
    };
    let cargo = Cargo::from_environment();
    match command.as_str() {
        "check" => match check::options(options) {
            Ok(()) => finish(&check::check(&cargo)),
            Err(wrong) => explain(&wrong, check::HELP),
        },
        "test" => match test::options(options) {
            Ok(wanted) => finish(&test::test(&cargo, &wanted)),
            Err(wrong) => explain(&wrong, test::HELP),
        },
        "api" => match api::options(options) {
            Ok(()) => finish(&api::api(&cargo)),
            Err(wrong) => explain(&wrong, api::HELP),
        },
        "storm" => match storm::options(options) {
            Ok(wanted) => finish(&storm::storm(&cargo, &wanted)),
            Err(wrong) => explain(&wrong, storm::HELP),
        },
        "local" => match local::options(options) {
            Ok(wanted) => local::local(&cargo, &wanted),
            Err(wrong) => explain(&wrong, local::HELP),
        },
        "infra" => match infra::options(options) {
            Ok(()) => {
                let mut parts = Parts::default();
                infra::infra(&cargo, &mut parts);
                finish(&parts)
            }
            Err(wrong) => explain(&wrong, infra::HELP),
        },
        "package" => match package::options(options) {
            Ok(wanted) => finish(&package::package(&cargo, &wanted)),
            Err(wrong) => explain(&wrong, package::HELP),
        },
        "simulate" => program::hand_over(&cargo, program::SIMULATION, options),
        "model" => program::hand_over(&cargo, program::MODEL, options),
        "bench" => match options.split_first() {
            Some((name, rest)) if name == "evidence" => program::hand_over(&cargo, program::EVIDENCE, rest),
            _ => program::hand_over(&cargo, program::BENCH, options),
        },
        "cost" => program::hand_over(&cargo, program::COST, options),
        "differential" => program::hand_over(&cargo, program::POLICY, options),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        unknown => refuse(&format!("there is no command `{unknown}`")),
    }
}

/// Why a command's options were not taken.
enum Misuse {
    /// They asked for help, which is no mistake.
    Help,
    /// This one means nothing here.
    Unknown(String),
}

fn explain(misuse: &Misuse, help: &str) -> ExitCode {
    match misuse {
        Misuse::Help => {
            print!("{help}");
            ExitCode::SUCCESS
        }
        Misuse::Unknown(option) => {
            eprint!("xtask: there is no option `{option}`\n\n{help}");
            ExitCode::from(MISUSED)
        }
    }
}

fn refuse(why: &str) -> ExitCode {
    eprint!("xtask: {why}\n\n{HELP}");
    ExitCode::from(MISUSED)
}

fn finish(parts: &Parts) -> ExitCode {
    if parts.sum_up() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
