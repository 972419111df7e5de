//! `cargo xtask bench`: what a step costs, counted; and how soon those who listen see an event.
//!
//! The real engine, worker and embedded store in one process, on a file, with every commit synced. The
//! steps do nothing, so that what is measured is the runtime. Afterwards the recorded steps are counted in
//! the store, so that a skipped step cannot look like speed.

mod bench;
mod machine;
mod noop;
mod report;
mod stream;

use std::process::ExitCode;

use bench::{Bench, Load};

const HELP: &str = "\
What a step costs on the embedded store, with every commit synced; how soon all who listen see an event.

Usage: bench linear5 [--runs N] [--in-flight N] [--flat] [--json]
       bench stream [--listeners N] [--events N] [--json]

  --runs N       runs that are measured, after a tenth as many to warm up [default: 2000]
  --in-flight N  runs under way at once [default: 64]
  --flat         also show that cost stays flat: 60 steps against 5, the 100,000th run against the 100th
  --listeners N  WebSockets on one server, to the tenant and then to one run [default: 1000]
  --events N     events that each of them is to see [default: 100]
  --json         one JSON object on standard output
";

struct Options {
    what: What,
    load: Load,
    stream: stream::Load,
    flat: bool,
    json: bool,
}

#[derive(Clone, Copy)]
enum What {
    Linear5,
    Stream,
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
    let what = match args.next().as_deref() {
        Some("linear5") => What::Linear5,
        Some("stream") => What::Stream,
        _ => return Err(String::new()),
    };
    let mut options = Options {
        what,
        load: Load { runs: 2_000, in_flight: 64, steps: 5 },
        stream: stream::Load { listeners: 1_000, events: 100 },
        flat: false,
        json: false,
    };
    while let Some(arg) = args.next() {
        let mut number = || {
            args.next()
                .and_then(|n| n.parse().ok())
                .filter(|n| *n > 0)
                .ok_or_else(|| format!("{arg} needs a number\n\n"))
        };
        match arg.as_str() {
            "--json" => options.json = true,
            "--flat" => options.flat = true,
            "--runs" => options.load.runs = number()?,
            "--in-flight" => options.load.in_flight = number()?,
            "--listeners" => options.stream.listeners = number()?,
            "--events" => options.stream.events = number()?,
            other => return Err(format!("unknown option {other:?}\n\n")),
        }
    }
    Ok(options)
}

fn run(options: &Options) -> Result<(), String> {
    match options.what {
        What::Linear5 => linear5(options),
        What::Stream => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            runtime.block_on(stream::run(options.stream, options.json))
        }
    }
}

fn linear5(options: &Options) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        eprintln!("linear5: {} runs of 5 steps, {} in flight …", options.load.runs, options.load.in_flight);
        let crowd = Bench::new(options.load)?.measure().await?;
        eprintln!("alone: 400 runs, one at a time …");
        let alone = Bench::new(Load { runs: 400, in_flight: 1, steps: 5 })?.measure().await?;
        eprintln!("with evidence: the same load, sealed …");
        let sealed = Bench::sealing(options.load)?.measure().await?;
        let flat = if options.flat { Some(flatness().await?) } else { None };
        report::print(&report::Linear5::new(&crowd, &alone, &sealed, flat), options.json)
    })
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
