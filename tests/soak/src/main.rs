//! `cargo xtask soak`: random workflows on the real programs, while processes, the store and external systems fail.
//!
//! The external systems and the oracle are in this process; the programs under test are child processes that are killed
//! and replaced. Afterwards the oracle compares the effects outside with the receipts, the evidence, the transparency log
//! and what the soak itself did.

mod chaos;
mod deployment;
mod external_systems;
mod facts;
mod fleet;
mod flow;
mod load;
mod oracle;
mod people;
#[cfg(feature = "aws")]
mod proxy;
mod rng;
mod soak;

use std::process::ExitCode;
use std::time::Duration;

use deployment::SqliteDeployment;
use soak::{Report, Settings, soak};

/// The exit code for invalid options.
const USAGE_ERROR: u8 = 2;

/// At most this many violations are printed.
const SHOWN_MAX: usize = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreKind {
    Sqlite,
    Aws,
}

struct Options {
    settings: Settings,
    store: StoreKind,
    json: bool,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = options(&args) else {
        eprintln!("soak: invalid options; see `cargo xtask soak --help`");
        return ExitCode::from(USAGE_ERROR);
    };
    eprintln!("soak: seed {}", options.settings.seed);
    match run(&options).await {
        Ok(report) => print(&report, options.json),
        Err(error) => {
            eprintln!("soak: seed {}: {error}", options.settings.seed);
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<Report, String> {
    match options.store {
        StoreKind::Sqlite => Box::pin(soak(SqliteDeployment::open().await?, &options.settings)).await,
        #[cfg(feature = "aws")]
        StoreKind::Aws => {
            let deployment = Box::pin(deployment::AwsDeployment::open()).await?;
            Box::pin(soak(deployment, &options.settings)).await
        }
        #[cfg(not(feature = "aws"))]
        StoreKind::Aws => Err("this program was built without the feature `aws`".to_owned()),
    }
}

fn print(report: &Report, json: bool) -> ExitCode {
    if json {
        println!("{}", serde_json::to_string_pretty(report).unwrap_or_default());
    }
    eprintln!("{report}");
    for violation in report.found.iter().take(SHOWN_MAX) {
        eprintln!("soak: violation: {violation}");
    }
    if report.found.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "soak: {} violations with seed {}; the store is kept in {}",
        report.found.len(),
        report.seed,
        report.store_location
    );
    ExitCode::FAILURE
}

fn options(args: &[String]) -> Option<Options> {
    let mut options = Options { settings: Settings::default(), store: StoreKind::Sqlite, json: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => options.json = true,
            "--store" => {
                options.store = match args.next()?.as_str() {
                    "sqlite" => StoreKind::Sqlite,
                    "aws" => StoreKind::Aws,
                    _ => return None,
                };
            }
            "--minutes" => options.settings.time = Duration::from_mins(args.next()?.parse().ok()?),
            "--seed" => options.settings.seed = args.next()?.parse().ok()?,
            "--runs" => options.settings.runs = args.next()?.parse().ok()?,
            _ => return None,
        }
    }
    Some(options)
}
