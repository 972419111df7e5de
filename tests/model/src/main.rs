//! `countersign-model [--json] [--long] [--world WORLD]`: explores the configurations and checks the mutants. Progress
//! goes to standard error, the report to standard output. The exit status is 0 only if every invariant holds, every
//! situation was reached and every mutant was caught.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use countersign_model::{
    CheckEvent, CheckResult, MutantReport, Progress, PropertyReport, Report, Violation, World, run,
};

const HELP: &str = "\
Explore a model exhaustively, and check that every mutant is caught.

Usage: countersign-model [--json] [--long] [--world WORLD]

  --json         Print the report as one JSON object on standard output
  --long         Also explore the long configurations
  --world WORLD  What to model: `protocol` (leases, fences and receipts; the default)
                 or `governance` (policy, approvals and separation of duties)
";
/// The interval between progress lines.
const TICK: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Options {
    json: bool,
    long: bool,
    world: World,
}

fn main() -> ExitCode {
    let Some(options) = options(std::env::args().skip(1)) else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    let mut log = ProgressLog::new();
    let report = run(options.world, options.long, &mut |event| match event {
        CheckEvent::Progress(progress) => log.progress(progress),
        CheckEvent::Checked(checked) => log.result(checked),
    });
    if options.json {
        eprint!("{}", tables(&report));
        println!("{:#}", serde_json::json!(report));
    } else {
        print!("{}", tables(&report));
    }
    if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => options.json = true,
            "--long" => options.long = true,
            "--world" => options.world = world(&arguments.next()?)?,
            _ => return None,
        }
    }
    Some(options)
}

fn world(name: &str) -> Option<World> {
    match name {
        "protocol" => Some(World::Protocol),
        "governance" => Some(World::Governance),
        _ => None,
    }
}

/// Prints a progress line at most once per tick.
struct ProgressLog {
    started: Instant,
    logged_at: Instant,
}

impl ProgressLog {
    fn new() -> Self {
        let now = Instant::now();
        Self { started: now, logged_at: now }
    }

    fn progress(&mut self, progress: Progress) {
        if self.logged_at.elapsed() < TICK {
            return;
        }
        let Progress { config, unique_states, depth } = progress;
        eprintln!("{:>6.1} s  {config}: {unique_states} states, depth {depth} ...", self.seconds());
        self.logged_at = Instant::now();
    }

    fn result(&mut self, checked: &CheckResult) {
        let CheckResult { name, unique_states, max_depth, violations, .. } = checked;
        let broken = violations.len();
        let seconds = self.seconds();
        eprintln!("{seconds:>6.1} s  {name}: {unique_states} states, depth {max_depth}, {broken} violations");
        self.logged_at = Instant::now();
    }

    fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

fn tables(report: &Report) -> String {
    let tables = [configs(report), properties(report), mutants(report), violations(report), summary(report)];
    tables.concat()
}

fn configs(report: &Report) -> String {
    let head = format!("\n{:<28} {:<22} {:>10} {:>6}\n", "configuration", "size", "states", "depth");
    let row = |checked: &CheckResult| {
        let CheckResult { name, size, unique_states, max_depth, .. } = checked;
        format!("{name:<28} {size:<22} {unique_states:>10} {max_depth:>6}\n")
    };
    head + &report.configs.iter().map(row).collect::<String>()
}

fn properties(report: &Report) -> String {
    let head = format!("\n{:<68} {:<10} holds\n", "property", "kind");
    let row = |property: &PropertyReport| {
        let holds = if property.holds { "yes" } else { "NO" };
        format!("{:<68} {:<10} {holds}\n", property.name, property.kind)
    };
    head + &report.properties.iter().map(row).collect::<String>()
}

fn mutants(report: &Report) -> String {
    let head = format!("\n{:<32} {:>6} {:>6}  caught by\n", "mutant", "states", "steps");
    let row = |mutant: &MutantReport| {
        let MutantReport { name, unique_states, trace_len, .. } = mutant;
        let caught_by = mutant.caught_by.unwrap_or("NO INVARIANT");
        let remark = if mutant.is_as_expected() { "" } else { "  (NOT AS EXPECTED)" };
        format!("{name:<32} {unique_states:>6} {trace_len:>6}  {caught_by}{remark}\n")
    };
    head + &report.mutant_reports.iter().map(row).collect::<String>()
}

fn violations(report: &Report) -> String {
    let render = |violation: &Violation| {
        let Violation { config, property, trace } = violation;
        format!("\nviolated in configuration `{config}`: {property}\n    {}\n", trace.join("\n    "))
    };
    report.violation_reports.iter().map(render).collect()
}

fn summary(report: &Report) -> String {
    let Report { unique_states, unique_states_min, violations, mutants_as_expected, mutants, .. } = report;
    format!(
        "\n{unique_states} unique states (minimum {unique_states_min}), {violations} violations, \
         {mutants_as_expected} of {mutants} mutants caught as expected\n"
    )
}
