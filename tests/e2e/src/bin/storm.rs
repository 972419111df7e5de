//! `cargo xtask storm`: a whole storm, with its report.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use countersign_e2e::{Progress, Seen, Site, Storm, storm};
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};

/// The command was not understood.
const MISUSED: u8 = 2;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((wanted, json)) = options(&args) else {
        eprintln!("storm: `cargo xtask storm --help` says how this is used");
        return ExitCode::from(MISUSED);
    };
    let mut site = Site::from_environment();
    site.dynamodb = std::env::var("COUNTERSIGN_DYNAMODB").ok().filter(|there| !there.is_empty());
    let mut terminate = signal(SignalKind::terminate()).ok();
    let told_to_stop = async {
        match &mut terminate {
            Some(terminate) => tokio::select! { _ = ctrl_c() => {}, _ = terminate.recv() => {} },
            None => drop(ctrl_c().await),
        }
    };
    // Dropped in the middle, it takes its workers along.
    let report = tokio::select! {
        report = storm(&wanted, site, progress(&wanted)) => report,
        () = told_to_stop => return ExitCode::FAILURE,
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&report).unwrap_or_default());
        eprint!("{report}");
    } else {
        print!("{report}");
    }
    let broken = report.broken();
    for what in &broken {
        eprintln!("storm: {what}");
    }
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

/// A line now and then, on standard error.
fn progress(storm: &Storm) -> impl Fn(Progress) + use<> {
    const EVERY: Duration = Duration::from_secs(10);
    let (deliveries, distinct, begun) = (storm.deliveries, storm.distinct(), Instant::now());
    let told = Mutex::new(None::<Instant>);
    eprintln!("    0 s  making an account and deploying the functions");
    move |progress| {
        let Ok(mut told) = told.lock() else { return };
        if told.is_some_and(|told| told.elapsed() < EVERY) {
            return;
        }
        *told = Some(Instant::now());
        let line = match progress {
            Progress::UnderWay(Seen { delivered, changed, sealed, queued: [ingest, decisions, steps] }) => {
                format!(
                    "delivered {delivered}/{deliveries}  changed {changed}/{distinct}  sealed, as far as asked, {sealed}  \
                 queued {ingest}+{decisions}+{steps}"
                )
            }
            Progress::Counting { looked, of } => format!("verified {looked}/{of} bundles"),
        };
        eprintln!("{:>5} s  {line}", begun.elapsed().as_secs());
    }
}
