//! A run on a page, for people.

use domain::plan::{Plan, PlannedStep, Work};
use domain::{RunStatus, StepSeq, StepStatus, Timestamp};

use crate::json::{
    CanceledDocument, ChainDocument, RunDocument, StepDocument, WaitDocument, WayDocument, run_document,
};
use crate::table::{indented, table, wrapped};
use crate::time::{distance, length, read};

use super::{Seen, compensation};

/// Sentences are broken at this width; a terminal is rarely narrower than this and the indent.
const WIDTH: usize = 92;

/// Everything about the run that a person needs.
pub fn run_text(seen: &Seen) -> String {
    document_text(&run_document(seen), seen.now)
}

/// The same for a run that was told of as a document, read at `now`.
pub fn document_text(run: &RunDocument, now: Timestamp) -> String {
    let why = run.waits.as_ref().map(|waits| wrapped(&waits.why, WIDTH)).unwrap_or_default();
    let ends = run.waits.as_ref().map(ways).unwrap_or_default();
    [
        heading(run, now),
        format!("\n{}", indented(&table_of(run, now), 2)),
        section("what went wrong", &failures(run)),
        section("effects", &compensation::text(run)),
        section("why it waits", &why),
        section("what ends the wait", &ends),
        format!("\n{}\n", chain(&run.chain)),
    ]
    .concat()
}

fn section(title: &str, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!("\n{title}\n{}", indented(body, 2)) }
}

fn heading(run: &RunDocument, now: Timestamp) -> String {
    let RunDocument { workflow, version, steps, created_at, .. } = run;
    let ago = read(created_at).map(|at| format!(", {}", distance(at, now))).unwrap_or_default();
    let lines = [
        ("run", Some(run.run.to_string())),
        ("workflow", Some(format!("{workflow}, version {version}, {}", counted(steps.len(), "step")))),
        ("status", Some(status(run))),
        ("canceled", run.canceled.as_ref().map(CanceledDocument::line)),
        ("started", Some(format!("{created_at}{ago}"))),
        ("key", Some(run.key.to_string())),
    ];
    lines.into_iter().filter_map(|(name, value)| Some(format!("{name:<10}{}\n", value?))).collect()
}

fn status(run: &RunDocument) -> String {
    let ended = run.completed_at.as_deref().and_then(read);
    match read(&run.created_at).zip(ended) {
        Some((began, ended)) => format!("{} after {}", run.status, length(ended - began)),
        None => run.status.to_string(),
    }
}

/// `1 step`, `5 steps`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The steps with their status, their attempts and who made them.
pub fn steps_table(seen: &Seen) -> String {
    table_of(&run_document(seen), seen.now)
}

fn table_of(run: &RunDocument, now: Timestamp) -> String {
    let rows: Vec<_> = run.steps.iter().map(|step| row(step, now)).collect();
    table(["#", "STEP", "TOOL", "STATUS", "ATTEMPTS", "WORKER"], &rows)
}

/// The steps of a plan with their places.
pub(super) fn numbered(plan: &Plan) -> impl Iterator<Item = (StepSeq, &PlannedStep)> {
    (0_u16..).map(StepSeq).zip(&plan.steps)
}

fn row(step: &StepDocument, now: Timestamp) -> [String; 6] {
    let attempts = match (step.tries.len(), step.undo_tries.len()) {
        (0, 0) => String::new(),
        (tries, 0) => tries.to_string(),
        (tries, undo_tries) => format!("{tries} + {undo_tries} back"),
    };
    [
        (step.seq.index() + 1).to_string(),
        step.id.to_string(),
        step.tool.clone(),
        step.status.to_string(),
        attempts,
        workers(step, now),
    ]
}

/// The tool's name as the workflow file writes it.
pub fn tool(work: &Work) -> &str {
    match work {
        Work::Call(call) => call.tool.as_str(),
        Work::Wait { .. } => "wait.event",
        Work::Gate { .. } => "approval.gate",
    }
}

/// Those who tried the step, each once, the first one first, and how long the last one still holds it.
fn workers(step: &StepDocument, now: Timestamp) -> String {
    let mut names: Vec<&str> = Vec::new();
    for attempt in step.tries.iter().chain(&step.undo_tries) {
        if !names.contains(&attempt.worker.as_str()) {
            names.push(&attempt.worker);
        }
    }
    let names = names.join(", ");
    match step.lease.as_ref().and_then(|lease| read(&lease.until)) {
        Some(until) if step.is_under_way() => {
            let held = if until > now { "lease runs out" } else { "lease ran out" };
            format!("{names} ({held} {})", distance(until, now))
        }
        _ => names,
    }
}

fn failures(run: &RunDocument) -> String {
    // Why the run waits tells these in more words.
    let told_as_wait = |step: &StepDocument| {
        step.seq == run.at && (run.status == RunStatus::Paused || step.status == StepStatus::FailedRetryable)
    };
    let told = |step: &StepDocument| {
        let failure = step.failure.as_ref().filter(|_| !told_as_wait(step))?;
        Some(wrapped(&format!("{}: {}: {}", step.id, failure.code, failure.message), WIDTH))
    };
    run.steps.iter().filter_map(told).collect()
}

fn ways(waits: &WaitDocument) -> String {
    let told = |way: &WayDocument| match &way.command {
        Some(command) => format!("{command}\n    {}\n", way.what),
        None => format!("(by itself) {}\n", way.what),
    };
    waits.ends.iter().map(told).collect()
}

/// Whether the chain of events holds, or where it breaks.
fn chain(chain: &ChainDocument) -> String {
    match &chain.fault {
        None => {
            let events = counted(chain.events.unwrap_or_default(), "event");
            format!("chain     {events}, verified: nothing was altered or left out")
        }
        Some(fault) => format!(
            "chain     BROKEN: {fault}; attempts and workers are not shown, because nothing proves them"
        ),
    }
}
