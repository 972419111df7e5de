//! `cargo xtask bench`: what a step costs, how long a list takes, how fast a door takes in what comes, how soon those who
//! listen see an event.
//!
//! The real engine, worker and embedded store in one process, on a file, with every commit synced. The
//! steps do nothing, so that what is measured is the runtime. Afterwards the recorded steps are counted in
//! the store, so that a skipped step cannot look like speed.

mod accept;
mod bench;
mod list;
mod machine;
mod noop;
mod report;
mod stream;

use std::process::ExitCode;

use accept::Crowd;
use bench::{Bench, Load};

const HELP: &str = "\
What a step costs on the embedded store, with every commit synced; how long a page of a list takes; how fast signed
webhooks are accepted; how soon all who listen see an event.

Usage: bench linear5 [--runs N] [--in-flight N] [--flat] [--json]
       bench list [--runs N] [--json]
       bench accept [--deliveries N] [--connections N] [--json]
       bench stream [--listeners N] [--events N] [--json]

  --runs N       runs that are measured, after a tenth as many to warm up [default: 2000]; of a list, runs that
                 there are [default: 1000000]
  --in-flight N  runs under way at once [default: 64]
  --deliveries N deliveries that are measured, after a tenth as many to warm up [default: 20000]
  --connections N  connections that stay open meanwhile [default: 64]
  --flat         also show that cost stays flat: 60 steps against 5, the 100,000th run against the 100th
  --listeners N  WebSockets on one server, to the tenant and then to one run [default: 1000]
  --events N     events that each of them is to see [default: 100]
  --json         one JSON object on standard output
";

struct Options {
    what: What,
    json: bool,
}

/// What is measured.
#[derive(Clone, Copy)]
enum What {
    /// Runs of five steps that do nothing.
    Linear5 { load: Load, flat: bool },
    /// Pages of lists of so many runs.
    List { runs: u32 },
    /// Deliveries at a door.
    Accept(Crowd),
    /// Listeners at a server.
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
    let mut what = match args.next().as_deref() {
        Some("linear5") => What::Linear5 { load: Load { runs: 2_000, in_flight: 64, steps: 5 }, flat: false },
        Some("list") => What::List { runs: 1_000_000 },
        Some("accept") => What::Accept(Crowd { deliveries: 20_000, connections: 64 }),
        Some("stream") => What::Stream(stream::Load { listeners: 1_000, events: 100 }),
        _ => return Err(String::new()),
    };
    let mut json = false;
    while let Some(arg) = args.next() {
        let mut number = || {
            args.next()
                .and_then(|n| n.parse().ok())
                .filter(|n| *n > 0)
                .ok_or_else(|| format!("{arg} needs a number\n\n"))
        };
        match (arg.as_str(), &mut what) {
            ("--json", _) => json = true,
            ("--flat", What::Linear5 { flat, .. }) => *flat = true,
            ("--runs", What::Linear5 { load: Load { runs, .. }, .. } | What::List { runs }) => {
                *runs = number()?;
            }
            ("--deliveries", What::Accept(crowd)) => crowd.deliveries = number()?,
            ("--connections", What::Accept(crowd)) => crowd.connections = number()?,
            ("--in-flight", What::Linear5 { load, .. }) => load.in_flight = number()?,
            ("--listeners", What::Stream(load)) => load.listeners = number()?,
            ("--events", What::Stream(load)) => load.events = number()?,
            (other, _) => return Err(format!("unknown option {other:?}\n\n")),
        }
    }
    Ok(Options { what, json })
}

fn run(options: &Options) -> Result<(), String> {
    // A laptop's worker has one thread beside the store's writer; a server uses the cores there are.
    let threads = if matches!(options.what, What::Accept(_) | What::Stream(_)) { 2 } else { 1 };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        match options.what {
            What::Linear5 { load, flat } => linear5(load, flat, options.json).await,
            What::List { runs } => list(runs, options.json).await,
            What::Accept(crowd) => accept(crowd, options.json).await,
            What::Stream(load) => stream::run(load, options.json).await,
        }
    })
}

async fn linear5(load: Load, flat: bool, json: bool) -> Result<(), String> {
    eprintln!("linear5: {} runs of 5 steps, {} in flight …", load.runs, load.in_flight);
    let crowd = Bench::new(load)?.measure().await?;
    eprintln!("alone: 400 runs, one at a time …");
    let alone = Bench::new(Load { runs: 400, in_flight: 1, steps: 5 })?.measure().await?;
    eprintln!("with evidence: the same load, sealed …");
    let sealed = Bench::sealing(load)?.measure().await?;
    let flat = if flat { Some(flatness().await?) } else { None };
    report::print(&report::Linear5::new(&crowd, &alone, &sealed, flat), json)
}

async fn list(runs: u32, json: bool) -> Result<(), String> {
    eprintln!("list: {runs} runs, then pages of them …");
    let lists = list::measure(runs).await?;
    report::tell(&lists, json)?;
    lists.missed().map_or(Ok(()), Err)
}

async fn accept(crowd: Crowd, json: bool) -> Result<(), String> {
    eprintln!("accept: {} deliveries over {} connections …", crowd.deliveries, crowd.connections);
    let accepting = accept::measure(crowd).await?;
    report::tell(&accepting, json)?;
    accepting.missed().map_or(Ok(()), Err)
}

/// What a step costs in a long run against a short one, and late in a file's life against early.
async fn flatness() -> Result<report::Flat, String> {
    eprintln!("flat: runs of 5 steps against runs of 60, one at a time …");
    let short = Bench::new(Load { runs: 1_500, in_flight: 1, steps: 5 })?.measure().await?;
    let long = Bench::new(Load { runs: 300, in_flight: 1, steps: 60 })?.measure().await?;
    let single = Bench::new(Load { runs: 1_500, in_flight: 1, steps: 1 })?.measure().await?;
    eprintln!("flat: 100,000 runs into one file …");
    let (early, late) =
        Bench::new(Load { runs: 300, in_flight: 1, steps: 5 })?.early_and_late(100_000).await?;
    Ok(report::Flat::new(&report::Lengths { single, short, long }, &early, &late))
}
