//! `cargo xtask storm`: runs a storm of full size and prints its report.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use countersign_e2e::{Progress, ProgressCounts, Storm, TestConfig, storm};
use parking_lot::Mutex;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};

/// The exit code for invalid options.
const USAGE_ERROR: u8 = 2;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((parameters, json)) = options(&args) else {
        eprintln!("storm: invalid options; see `cargo xtask storm --help`");
        return ExitCode::from(USAGE_ERROR);
    };
    let mut config = TestConfig::from_environment();
    config.dynamodb = std::env::var("COUNTERSIGN_DYNAMODB").ok().filter(|there| !there.is_empty());
    let mut terminate = signal(SignalKind::terminate()).ok();
    let stop_signal = async {
        match &mut terminate {
            Some(terminate) => tokio::select! { _ = ctrl_c() => {}, _ = terminate.recv() => {} },
            None => drop(ctrl_c().await),
        }
    };
    // Dropping the storm kills its workers.
    let report = tokio::select! {
        report = storm(&parameters, config, progress(&parameters)) => report,
        () = stop_signal => return ExitCode::FAILURE,
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&report).unwrap_or_default());
        eprint!("{report}");
    } else {
        print!("{report}");
    }
    let failures = report.failures();
    for failure in &failures {
        eprintln!("storm: {failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options(args: &[String]) -> Option<(Storm, bool)> {
    let (mut storm, mut json) = (Storm::default(), false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--json" {
            json = true;
            continue;
        }
        let number: u32 = args.next()?.parse().ok()?;
        match arg.as_str() {
            "--deliveries" if number > 0 => storm.deliveries = number,
            "--duplicates" if number < 100 => storm.duplicates_percent = number,
            "--seed" => storm.seed = number.into(),
            "--workers" if number > 0 => storm.workers = usize::try_from(number).ok()?,
            "--kill-every" if number > 0 => storm.kill_every = Duration::from_secs(number.into()),
            "--in-flight" if number > 0 => storm.in_flight = usize::try_from(number).ok()?,
            _ => return None,
        }
    }
    Some((storm, json))
}

/// Prints a progress line to standard error every ten seconds.
fn progress(storm: &Storm) -> impl Fn(Progress) + use<> {
    const EVERY: Duration = Duration::from_secs(10);
    let (deliveries, distinct, started) = (storm.deliveries, storm.distinct(), Instant::now());
    let last_line = Mutex::new(None::<Instant>);
    eprintln!("    0 s  create the AWS resources and deploy the functions");
    move |progress| {
        let mut last_line = last_line.lock();
        if last_line.is_some_and(|last_line| last_line.elapsed() < EVERY) {
            return;
        }
        *last_line = Some(Instant::now());
        let line = match progress {
            Progress::Running(ProgressCounts {
                delivered,
                changed,
                sealed,
                queued: [ingest, decisions, steps],
            }) => {
                format!(
                    "delivered {delivered}/{deliveries}  changed {changed}/{distinct}  evidence {sealed}  \
                 queued {ingest}+{decisions}+{steps}"
                )
            }
            Progress::Verifying { verified, of } => format!("verified {verified}/{of} bundles"),
        };
        eprintln!("{:>5} s  {line}", started.elapsed().as_secs());
    }
}
