//! `cargo xtask scale`: measures the AWS store under simulated latency and partition limits, in virtual time.
//!
//! The engine and the store are real, DynamoDB is an emulator, and the network between them adds 10 ms to each request
//! and throttles each partition as DynamoDB does. Virtual time makes the result independent of this machine.

mod measure;
mod network;
mod partitions;
mod services;

use std::process::ExitCode;

use measure::{Measurement, Sizes};

const HELP: &str = "\
Measure the AWS store under a simulated latency of 10 ms per request and the limits of DynamoDB partitions.

Usage: scale [--nightly] [--seed N] [--json]

  --nightly  Measure the large sizes
  --seed N   The seed of the latencies [default: 1]
  --json     Print the measurements as one JSON object on standard output

The measurements:
  seal   Bundles sealed for one tenant by 4 processes with 128 jobs each, a second
  wake   Due runs woken by one sweeper, a second
  runs   Runs that start, finish and get their evidence, a second, before the hottest shared partition is full

The exit code is 1 if a rate is below its minimum. The goals are higher: the output names the hottest partitions.
";

struct Options {
    sizes: Sizes,
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
    match measure::all(options.sizes, options.seed) {
        Ok(measurements) => report(&measurements, options.json),
        Err(error) => {
            eprintln!("scale: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { sizes: Sizes::SMALL, seed: 1, json: false };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--nightly" => options.sizes = Sizes::LARGE,
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

fn report(measurements: &[Measurement], json: bool) -> ExitCode {
    for measurement in measurements {
        eprintln!("{measurement}");
    }
    if json {
        let values: serde_json::Map<_, _> = measurements
            .iter()
            .map(|of| (format!("{}_per_second", of.name), of.rate.round().into()))
            .collect();
        println!("{}", serde_json::Value::Object(values));
    }
    let missed: Vec<&Measurement> = measurements.iter().filter(|of| of.rate < of.minimum).collect();
    for measurement in &missed {
        eprintln!("scale: {} is below its minimum of {:.0}/s", measurement.name, measurement.minimum);
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
