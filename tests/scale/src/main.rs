//! `cargo xtask scale`: measures the AWS store under simulated latency and partition limits, and a fleet of workers
//! under realistic conditions, in virtual time.
//!
//! The engine, the store and the workers are real, DynamoDB is an emulator, and the network between them adds 10 ms to
//! each request and throttles each partition as DynamoDB does. Virtual time makes the result independent of this
//! machine.

mod aws;
mod fleet;
mod measure;
mod network;
mod partitions;
mod services;
mod sqs;
mod visibility;

use std::process::ExitCode;
use std::thread;

use fleet::{FleetReport, FleetSize};
use measure::{Measurement, Sizes};

const HELP: &str = "\
Measure the AWS store and a fleet of workers, with a simulated latency of 10 ms per request and the limits of DynamoDB
partitions.

Usage: scale [--only rates|fleet] [--nightly] [--seed N] [--json]

  --only PART  Run one part only
  --nightly    Use the large sizes
  --seed N     The seed of all random choices [default: 1]
  --json       Print the results as one JSON object on standard output

The rates:
  evidence  Bundles signed for one tenant by 4 processes with 128 jobs each, a second
  wake      Due runs woken by one sweeper, a second
  behind    The same, behind 2,500 finished runs without evidence
  runs      Runs that start, finish and get their evidence, a second, before the hottest shared partition is full
  switch    Workers that can read the dispatch switch of the fleet before its item is full
  backout   Runs canceled a second by `backout --all`; fails if the requests for each run grow with the number of runs

The fleet runs for a simulated hour, or for six minutes in the small size. Indexes lag by up to 3 s, transactions become
visible item by item, messages are late or delivered twice, and workers die. Afterwards no run may be lost, no effect
repeated, no timer late, no evidence missing, no tenant slowed down by another, and the bill may be at most 1.2 times
the one under ideal conditions.

The exit code is 1 if a rate is below its minimum or the fleet violates an invariant. The goals of the rates are higher:
the output names the hottest partitions.
";

struct Options {
    sizes: Sizes,
    fleet: FleetSize,
    rates_only: bool,
    fleet_only: bool,
    seed: u64,
    json: bool,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprint!("{message}{HELP}");
            return ExitCode::from(2);
        }
    };
    match results(&options) {
        Ok(results) => report(&results, options.json),
        Err(error) => {
            eprintln!("scale: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The results of the selected parts.
struct Results {
    rates: Vec<Measurement>,
    fleet: Option<FleetReport>,
}

fn results(options: &Options) -> Result<Results, String> {
    let &Options { sizes, fleet, seed, .. } = options;
    thread::scope(|scope| {
        let fleet = (!options.rates_only).then(|| scope.spawn(move || fleet::simulate(fleet, seed)));
        let rates = if options.fleet_only { Vec::new() } else { measure::all(sizes, seed)? };
        Ok(Results { rates, fleet: fleet.map(measure::join_thread).transpose()? })
    })
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        sizes: Sizes::SMALL,
        fleet: FleetSize::SMALL,
        rates_only: false,
        fleet_only: false,
        seed: 1,
        json: false,
    };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--nightly" => (options.sizes, options.fleet) = (Sizes::LARGE, FleetSize::LARGE),
            "--only" => match args.next().as_deref() {
                Some("rates") => options.rates_only = true,
                Some("fleet") => options.fleet_only = true,
                _ => return Err("error: --only needs `rates` or `fleet`\n\n".to_owned()),
            },
            "--json" => options.json = true,
            "--seed" => {
                let seed = args.next().and_then(|seed| seed.parse().ok());
                options.seed = seed.ok_or("error: --seed needs a number\n\n")?;
            }
            "--help" | "-h" => return Err(String::new()),
            other => return Err(format!("error: unknown option {other:?}\n\n")),
        }
    }
    Ok(options)
}

fn report(Results { rates, fleet }: &Results, json: bool) -> ExitCode {
    for rate in rates {
        eprintln!("{rate}");
    }
    if let Some(fleet) = fleet {
        eprintln!("{fleet}");
    }
    if json {
        let mut values: serde_json::Map<_, _> = rates
            .iter()
            .map(|measurement| {
                (
                    format!("{}_{}", measurement.name, measurement.unit.as_str()),
                    measurement.rate.round().into(),
                )
            })
            .collect();
        if let Some(fleet) = fleet {
            values.insert("fleet_violations".to_owned(), fleet.violations.len().into());
        }
        println!("{}", serde_json::Value::Object(values));
    }
    let missed: Vec<&Measurement> =
        rates.iter().filter(|measurement| measurement.rate < measurement.minimum).collect();
    for measurement in &missed {
        eprintln!("scale: {} is below its minimum of {:.0}", measurement.name, measurement.minimum);
    }
    let violated = fleet.as_ref().is_some_and(|fleet| !fleet.violations.is_empty());
    if missed.is_empty() && !violated { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
