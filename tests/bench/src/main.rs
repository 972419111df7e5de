//! `cargo xtask bench`: measures steps, lists, webhooks and event streams.
//!
//! The real engine, worker and embedded store run in one process, on a file, with every commit synced. The steps do
//! nothing, so that the runtime is measured. Afterwards the recorded steps are counted in the store, so that a skipped
//! step cannot look like speed.

mod accept;
mod bench;
mod list;
mod machine;
mod noop;
mod report;
mod stream;

use std::process::ExitCode;

use accept::AcceptLoad;
use bench::{Bench, Load};

/// The allocator of `countersign` and `countersign-worker`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HELP: &str = "\
Measure the embedded store, with every commit synced: the cost of a step, the time of a page of a list, the rate of
accepted webhooks, and the latency of an event stream.

Usage: bench linear5 [--runs N] [--in-flight N] [--flat] [--json]
       bench list [--runs N] [--json]
       bench accept [--deliveries N] [--connections N] [--json]
       bench stream [--listeners N] [--events N] [--json]

  --runs N         linear5: number of runs to measure, after a tenth as many to warm up [default: 2000]
                   list: number of runs in the store [default: 1000000]
  --in-flight N    Number of concurrent runs [default: 64]
  --flat           Also compare 60-step with 5-step runs, and the 100,000th run with the 100th
  --deliveries N   Number of deliveries to measure, after a tenth as many to warm up [default: 20000]
  --connections N  Number of open connections [default: 64]
  --listeners N    Number of WebSockets on one server, to the tenant and then to one run [default: 1000]
  --events N       Number of events for each listener [default: 100]
  --json           Print the report as one JSON object on standard output
";

struct Options {
    benchmark: Benchmark,
    json: bool,
}

#[derive(Clone, Copy)]
enum Benchmark {
    /// Runs of five steps that do nothing.
    Linear5 { load: Load, flat: bool },
    /// Pages of lists of that many runs.
    List { runs: u32 },
    /// Deliveries to a webhook endpoint.
    Accept(AcceptLoad),
    /// Listeners on one server.
    Stream(stream::Load),
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
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut benchmark = match args.next().as_deref() {
        Some("linear5") => {
            Benchmark::Linear5 { load: Load { runs: 2_000, in_flight: 64, steps: 5 }, flat: false }
        }
        Some("list") => Benchmark::List { runs: 1_000_000 },
        Some("accept") => Benchmark::Accept(AcceptLoad { deliveries: 20_000, connections: 64 }),
        Some("stream") => Benchmark::Stream(stream::Load { listeners: 1_000, events: 100 }),
        _ => return Err(String::new()),
    };
    let mut json = false;
    while let Some(arg) = args.next() {
        let mut number = || {
            args.next()
                .and_then(|n| n.parse().ok())
                .filter(|n| *n > 0)
                .ok_or_else(|| format!("error: {arg} needs a number\n\n"))
        };
        match (arg.as_str(), &mut benchmark) {
            ("--json", _) => json = true,
            ("--flat", Benchmark::Linear5 { flat, .. }) => *flat = true,
            ("--runs", Benchmark::Linear5 { load: Load { runs, .. }, .. } | Benchmark::List { runs }) => {
                *runs = number()?;
            }
            ("--deliveries", Benchmark::Accept(load)) => load.deliveries = number()?,
            ("--connections", Benchmark::Accept(load)) => load.connections = number()?,
            ("--in-flight", Benchmark::Linear5 { load, .. }) => load.in_flight = number()?,
            ("--listeners", Benchmark::Stream(load)) => load.listeners = number()?,
            ("--events", Benchmark::Stream(load)) => load.events = number()?,
            (other, _) => return Err(format!("error: unknown option {other:?}\n\n")),
        }
    }
    Ok(Options { benchmark, json })
}

fn run(options: &Options) -> Result<(), String> {
    // A worker on a laptop has one thread beside the store's writer; a server uses all cores.
    let threads =
        if matches!(options.benchmark, Benchmark::Accept(_) | Benchmark::Stream(_)) { 2 } else { 1 };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        match options.benchmark {
            Benchmark::Linear5 { load, flat } => linear5(load, flat, options.json).await,
            Benchmark::List { runs } => list(runs, options.json).await,
            Benchmark::Accept(load) => accept(load, options.json).await,
            Benchmark::Stream(load) => stream::run(load, options.json).await,
        }
    })
}

async fn linear5(load: Load, flat: bool, json: bool) -> Result<(), String> {
    eprintln!("linear5: {} runs of 5 steps, {} in flight …", load.runs, load.in_flight);
    let concurrent = Bench::new(load)?.measure().await?;
    eprintln!("alone: 400 runs of 5 steps, one at a time …");
    let alone = Bench::new(Load { runs: 400, in_flight: 1, steps: 5 })?.measure().await?;
    eprintln!("with evidence: the same load, with evidence for every run …");
    let with_evidence = Bench::with_evidence(load)?.measure().await?;
    let flat = if flat { Some(flatness().await?) } else { None };
    report::print(&report::Linear5::new(&concurrent, &alone, &with_evidence, flat), json)
}

async fn list(runs: u32, json: bool) -> Result<(), String> {
    eprintln!("list: create {runs} runs, then query pages …");
    let report = list::measure(runs).await?;
    report::print_json(&report, json)?;
    report.limit_exceeded().map_or(Ok(()), Err)
}

async fn accept(load: AcceptLoad, json: bool) -> Result<(), String> {
    eprintln!("accept: {} deliveries over {} connections …", load.deliveries, load.connections);
    let report = accept::measure(load).await?;
    report::print_json(&report, json)?;
    report.limit_exceeded().map_or(Ok(()), Err)
}

/// The cost of a step in a long and a short run, and in an old and a new file.
async fn flatness() -> Result<report::Flat, String> {
    eprintln!("flat: runs of 5 steps and of 60 steps, one at a time …");
    let short = Bench::new(Load { runs: 1_500, in_flight: 1, steps: 5 })?.measure().await?;
    let long = Bench::new(Load { runs: 300, in_flight: 1, steps: 60 })?.measure().await?;
    let single = Bench::new(Load { runs: 1_500, in_flight: 1, steps: 1 })?.measure().await?;
    eprintln!("flat: 100,000 runs in one file …");
    let (early, late) =
        Bench::new(Load { runs: 300, in_flight: 1, steps: 5 })?.early_and_late(100_000).await?;
    Ok(report::Flat::new(&report::Lengths { single, short, long }, &early, &late))
}
