//! `cargo xtask cost`: what a step costs on AWS, counted and priced.
//!
//! The real engine, one worker and the store on AWS in one process. DynamoDB is a stand-in that consumes
//! capacity as DynamoDB does; what SQS and S3 would be sent is counted. How, and what is assumed where nothing
//! can be counted, stands in `docs/cost.md`.

mod bill;
mod capacity;
mod counted;
mod load;
mod meter;
mod prices;
mod report;
mod world;

use std::process::ExitCode;

use bill::Bill;
use load::{Load, Writes, count};
use report::{Flat, Report};

const HELP: &str = "\
What a step costs on AWS, counted and priced: a plain run of five steps, and a governed one.

Usage: cost [--runs N] [--flat] [--json]

  --runs N  runs that are measured, one after the other [default: 50]
  --flat    also show that cost stays flat: each step beyond the first, in 60-step runs against 5-step runs
  --json    one JSON object on standard output

The exit code is 1 if a step costs more than was promised; standard error says which line is to blame.
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
        Ok(missed) if missed.is_empty() => ExitCode::SUCCESS,
        Ok(missed) => {
            for what in &missed {
                eprintln!("cost: {what}");
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
                options.runs = number.ok_or("--runs needs a number\n\n")?;
            }
            "--help" | "-h" => return Err(String::new()),
            other => return Err(format!("unknown option {other:?}\n\n")),
        }
    }
    Ok(options)
}

/// Counts, prints, and says what was promised and is not so.
fn run(options: &Options) -> Result<Vec<String>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let report = runtime.block_on(measured(options))?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?);
    } else {
        print!("{}", report::text(&report));
    }
    Ok(report.missed())
}

async fn measured(options: &Options) -> Result<Report, String> {
    let bill = async |load| Ok::<_, String>(Bill::of(&Box::pin(count(load, options.runs)).await?));
    let linear5 = bill(Load::Linear { steps: 5 }).await?;
    let governed = bill(Load::Governed(Writes::Approved)).await?;
    let two_writes = bill(Load::Governed(Writes::AndAllowed)).await?;
    let flat = if options.flat {
        let single = bill(Load::Linear { steps: 1 }).await?.usd_per_million_steps;
        let sixty = bill(Load::Linear { steps: 60 }).await?.usd_per_million_steps;
        Some(Flat::new(single, linear5.usd_per_million_steps, sixty))
    } else {
        None
    };
    Ok(Report::new(linear5, governed, two_writes, flat))
}
