//! `cargo xtask cost`: counts and prices the AWS requests of a step.
//!
//! Runs the real engine, one worker and the AWS store in one process. DynamoDB is an emulator that reports consumed
//! capacity; requests to SQS and S3 are counted. `docs/cost.md` describes the method and its assumptions.

mod bill;
mod capacity;
mod counted;
mod external;
mod load;
mod meter;
mod prices;
mod report;

use std::process::ExitCode;

use bill::Bill;
use load::{Load, Writes, count};
use report::{Flat, Report};

const HELP: &str = "\
Count and price the AWS requests of a step, for a plain run of five steps and for a governed run.

Usage: cost [--runs N] [--flat] [--json]

  --runs N  Number of runs to measure, one after the other [default: 50]
  --flat    Also compare each step after the first in 60-step runs with 5-step runs
  --json    Print the report as one JSON object on standard output

The exit code is 1 if a step costs more than its limit. Standard error names the limit and the most expensive line.
";

struct Options {
    runs: u32,
    flat: bool,
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
    match run(&options) {
        Ok(exceeded) if exceeded.is_empty() => ExitCode::SUCCESS,
        Ok(exceeded) => {
            for limit in &exceeded {
                eprintln!("cost: {limit}");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { runs: 50, flat: false, json: false };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => options.json = true,
            "--flat" => options.flat = true,
            "--runs" => {
                let number = args.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                options.runs = number.ok_or("error: --runs needs a number\n\n")?;
            }
            "--help" | "-h" => return Err(String::new()),
            other => return Err(format!("error: unknown option {other:?}\n\n")),
        }
    }
    Ok(options)
}

/// Counts, prints the report, and returns the limits that are exceeded.
fn run(options: &Options) -> Result<Vec<String>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let report = runtime.block_on(measure_all(options))?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?);
    } else {
        print!("{}", report::text(&report));
    }
    Ok(report.exceeded())
}

async fn measure_all(options: &Options) -> Result<Report, String> {
    let bill = async |load| Ok::<_, String>(Bill::of(&Box::pin(count(load, options.runs)).await?));
    let linear5 = bill(Load::Linear { steps: 5 }).await?;
    let governed = bill(Load::Governed(Writes::ApprovedOnly)).await?;
    let two_writes = bill(Load::Governed(Writes::ApprovedAndAllowed)).await?;
    let flat = if options.flat {
        let single = bill(Load::Linear { steps: 1 }).await?.usd_per_million_steps;
        let sixty = bill(Load::Linear { steps: 60 }).await?.usd_per_million_steps;
        Some(Flat::new(single, linear5.usd_per_million_steps, sixty))
    } else {
        None
    };
    Ok(Report::new(linear5, governed, two_writes, flat))
}
