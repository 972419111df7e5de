//! `countersign-model [--json] [--long]`: explores the protocol's worlds and tries the mutants. What is
//! going on goes to standard error, the result to standard output; the exit status is 0 only if every
//! promise was kept, every situation reached and every mutant caught.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use countersign_model::{
    Checked, Mutant, MutantReport, Progress, PropertyReport, Report, UNIQUE_STATES_MIN, Variant, Violation,
    World, check, check_mutant, ci_variant, long_variant,
};

const USAGE: &str = "usage: countersign-model [--json] [--long]";
/// Often enough to see that it is alive.
const TICK: Duration = Duration::from_secs(1);

/// What was asked for.
#[derive(Default)]
struct Options {
    json: bool,
    long: bool,
}

fn main() -> ExitCode {
    let Some(options) = options(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let report = run(&if options.long { long_variant() } else { ci_variant() });
    if options.json {
        eprint!("{}", tables(&report));
        println!("{:#}", serde_json::json!(report));
    } else {
        print!("{}", tables(&report));
    }
    if report.all_is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options(arguments: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options::default();
    for argument in arguments {
        match argument.as_str() {
            "--json" => options.json = true,
            "--long" => options.long = true,
            _ => return None,
        }
    }
    Some(options)
}

fn run(variant: &Variant) -> Report {
    let mut narrator = Narrator::new();
    let worlds = variant.worlds.iter().map(|world| {
        let checked = check(world, &mut |progress| narrator.tell(progress));
        narrator.conclude(&checked);
        checked
    });
    let worlds = worlds.collect();
    let mutants = Mutant::ALL.map(|mutant| check_mutant(mutant, &mut |progress| narrator.tell(progress)));
    Report::new(variant, worlds, mutants.to_vec())
}

/// Says now and then how far things are.
struct Narrator {
    started: Instant,
    spoke: Instant,
}

impl Narrator {
    fn new() -> Self {
        let now = Instant::now();
        Self { started: now, spoke: now }
    }

    fn tell(&mut self, progress: Progress) {
        if self.spoke.elapsed() < TICK {
            return;
        }
        let Progress { world, unique_states, depth } = progress;
        eprintln!("{:>6.1} s  {world}: {unique_states} states, depth {depth} ...", self.seconds());
        self.spoke = Instant::now();
    }

    fn conclude(&mut self, checked: &Checked) {
        let Checked { world, unique_states, max_depth, violations, .. } = checked;
        let (name, broken) = (world.name, violations.len());
        let seconds = self.seconds();
        eprintln!("{seconds:>6.1} s  {name}: {unique_states} states, depth {max_depth}, {broken} violations");
        self.spoke = Instant::now();
    }

    fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

fn tables(report: &Report) -> String {
    let tables = [worlds(report), properties(report), mutants(report), violations(report), summary(report)];
    tables.concat()
}

fn worlds(report: &Report) -> String {
    let head =
        format!("\n{:<24} {:>7} {:>7} {:>10} {:>6}\n", "world", "workers", "crashes", "states", "depth");
    let row = |checked: &Checked| {
        let Checked { world: World { name, workers, budget, .. }, unique_states, max_depth, .. } = checked;
        format!("{name:<24} {workers:>7} {:>7} {unique_states:>10} {max_depth:>6}\n", budget.crashes)
    };
    head + &report.worlds.iter().map(row).collect::<String>()
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
        let caught_by = mutant.caught_by.unwrap_or("NOTHING");
        let remark = if mutant.is_as_expected() { "" } else { "  (NOT AS EXPECTED)" };
        format!("{name:<32} {unique_states:>6} {trace_len:>6}  {caught_by}{remark}\n")
    };
    head + &report.mutant_reports.iter().map(row).collect::<String>()
}

fn violations(report: &Report) -> String {
    let story = |violation: &Violation| {
        let Violation { world, property, trace } = violation;
        format!("\nIn the world `{world}` it is not so that {property}:\n    {}\n", trace.join("\n    "))
    };
    report.violation_reports.iter().map(story).collect()
}

fn summary(report: &Report) -> String {
    let Report { unique_states, violations, mutants_as_expected, mutants, .. } = report;
    format!(
        "\n{unique_states} unique states (at least {UNIQUE_STATES_MIN} wanted), {violations} violations, \
         {mutants_as_expected} of {mutants} mutants caught as expected\n"
    )
}
