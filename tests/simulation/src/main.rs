//! `cargo xtask simulate`: runs every flow with every fault and prints a report.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use countersign_simulation::{FLOWS, Flow, FlowReport, Report, Size, Sweep, simulate};

const HELP: &str = "\
Run the real engine and worker through every flow, with every fault at every call.

Single faults run at every call. Of the pairs of faults, and of the faults while clocks are an hour apart, one in
eight runs; --nightly runs all.

Usage: simulate [--nightly] [--seeds N] [--first-seed N] [--no-pairs] [--json]

  --nightly       Run the whole grid: 8 to 17 minutes on two cores
  --seeds N       Number of random mixtures of two to four faults to run after the grid [default: 1000]
  --first-seed N  First seed. To repeat a failure: --first-seed SEED --seeds 1 [default: 0]
  --no-pairs      Run single faults only
  --flow FLOW     Run the grid of this flow only
  --trace FLOW    Print every call of a flow without faults, then exit
  --json          Print the report as one JSON object on standard output
";

fn main() -> ExitCode {
    let (sweep, json) = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprint!("{message}{HELP}");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    eprintln!("flow                             calls   points    pairs   simulations  violations");
    let report = simulate(sweep, progress);
    eprintln!("{} simulations in {:.0} s", report.simulations, began.elapsed().as_secs_f64());
    print(&report, json);
    if holds(&report) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options(mut args: impl Iterator<Item = String>) -> Result<(Sweep, bool), String> {
    let mut sweep = Sweep { seeds: 1_000, first_seed: 0, pairs: true, size: Size::Sample, only: None };
    let mut json = false;
    while let Some(arg) = args.next() {
        let mut number = |name: &str| {
            args.next()
                .and_then(|n| n.parse().ok())
                .ok_or_else(|| format!("error: {name} needs a whole number\n\n"))
        };
        match arg.as_str() {
            "--json" => json = true,
            "--nightly" => sweep.size = Size::Full,
            "--no-pairs" => sweep.pairs = false,
            "--seeds" => sweep.seeds = number("--seeds")?,
            "--first-seed" => sweep.first_seed = number("--first-seed")?,
            "--flow" => sweep.only = Some(flow_named(args.next().as_deref())?.name),
            "--trace" => trace(args.next().as_deref())?,
            "--help" | "-h" => return Err(String::new()),
            other => return Err(format!("error: unknown option {other:?}\n\n")),
        }
    }
    Ok((sweep, json))
}

fn flow_named(name: Option<&str>) -> Result<&'static Flow, String> {
    FLOWS.iter().find(|flow| Some(flow.name) == name).ok_or_else(|| {
        let names: Vec<_> = FLOWS.iter().map(|flow| flow.name).collect();
        format!("error: unknown flow; the flows are: {}\n\n", names.join(", "))
    })
}

/// Prints the numbered calls of a flow and exits.
fn trace(name: Option<&str>) -> Result<(), String> {
    flow_named(name)?.trace().iter().for_each(|call| println!("{call}"));
    std::process::exit(0)
}

fn progress(flow: &FlowReport) {
    eprintln!(
        "{:<32} {:>5} {:>8} {:>8} {:>13} {:>11}",
        flow.name, flow.calls, flow.points_reached, flow.pairs_reached, flow.simulations, flow.violations
    );
    let _ = std::io::stderr().flush();
}

fn print(report: &Report, json: bool) {
    if json {
        match serde_json::to_string(report) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("error: write the report: {error}"),
        }
    } else {
        println!("flows       {}", report.flows);
        println!("points      {} planned, {} reached", report.points_planned, report.points_reached);
        println!("pairs       {} planned, {} reached", report.pairs_planned, report.pairs_reached);
        println!("mixtures    {}", report.seeds);
        println!("violations  {}", report.violations);
    }
    for violation in &report.first_violations {
        eprintln!("\nviolation in flow `{}`, clock skew {:?}:", violation.flow, violation.skew);
        if let Some(seed) = violation.seed {
            eprintln!("  seed {seed}; repeat with --first-seed {seed} --seeds 1");
        }
        eprintln!("  faults: {:?}", violation.points);
        violation.broken.iter().for_each(|broken| eprintln!("  - {broken}"));
        violation.trace.iter().for_each(|call| eprintln!("      {call}"));
    }
}

fn holds(report: &Report) -> bool {
    report.violations == 0
        && report.points_planned == report.points_reached
        && report.pairs_planned == report.pairs_reached
}
