//! A run on a page, for people.

use domain::plan::{Plan, PlannedStep, Work};
use domain::view::step_status;
use domain::{Live, RunRecord, RunStatus, StepSeq};

use crate::table::{indented, table, wrapped};
use crate::time::{distance, length, moment};

use super::history::History;
use super::{Seen, Waiting, compensation, waiting};

/// Sentences are broken at this width; a terminal is rarely narrower than this and the indent.
const WIDTH: usize = 92;

/// Everything about the run that a person needs.
pub fn run_text(seen: &Seen) -> String {
    let waiting = waiting(seen);
    let why = waiting.as_ref().map(|waiting| wrapped(&waiting.why, WIDTH)).unwrap_or_default();
    let ends = waiting.as_ref().map(ways).unwrap_or_default();
    [
        heading(seen),
        format!("\n{}", indented(&steps_table(seen), 2)),
        section("what went wrong", &failures(seen)),
        section("effects", &compensation::text(&seen.view)),
        section("why it waits", &why),
        section("what ends the wait", &ends),
        format!("\n{}\n", chain(seen)),
    ]
    .concat()
}

fn section(title: &str, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!("\n{title}\n{}", indented(body, 2)) }
}

fn heading(seen: &Seen) -> String {
    let record = &seen.view.record;
    let RunRecord { workflow, workflow_version, steps, trigger, .. } = record;
    let lines = [
        ("run", record.key.run.to_string()),
        ("workflow", format!("{workflow}, version {workflow_version}, {}", counted((*steps).into(), "step"))),
        ("status", status(record)),
        ("started", format!("{}, {}", moment(record.created_at), distance(record.created_at, seen.now))),
        ("key", trigger.reference.to_string()),
    ];
    lines.map(|(name, value)| format!("{name:<10}{value}\n")).concat()
}

fn status(record: &RunRecord) -> String {
    match record.duration() {
        Some(took) => format!("{} after {}", record.status, length(took)),
        None => record.status.to_string(),
    }
}

/// `1 step`, `5 steps`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The steps with their status, their attempts and who made them.
pub fn steps_table(seen: &Seen) -> String {
    let history = seen.history();
    let rows: Vec<_> = numbered(seen.view.plan()).map(|(seq, step)| row(seen, &history, seq, step)).collect();
    table(["#", "STEP", "TOOL", "STATUS", "ATTEMPTS", "WORKER"], &rows)
}

/// The steps of a plan with their places.
pub(super) fn numbered(plan: &Plan) -> impl Iterator<Item = (StepSeq, &PlannedStep)> {
    (0_u16..).map(StepSeq).zip(&plan.steps)
}

fn row(seen: &Seen, history: &History, seq: StepSeq, step: &PlannedStep) -> [String; 6] {
    let past = history.step(seq);
    let attempts = match (past.tries.len(), past.undo_tries.len()) {
        (0, 0) => String::new(),
        (tries, 0) => tries.to_string(),
        (tries, undo_tries) => format!("{tries} + {undo_tries} back"),
    };
    [
        (seq.index() + 1).to_string(),
        step.id.to_string(),
        tool(&step.work).to_owned(),
        step_status(&seen.view.record, &seen.view.steps, seq).to_string(),
        attempts,
        workers(seen, history, seq),
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

fn workers(seen: &Seen, history: &History, seq: StepSeq) -> String {
    let past = history.step(seq);
    let names = past.workers().join(", ");
    let record = &seen.view.record;
    match &record.live {
        Live::Running(lease) if seq == record.at && past.under_way().is_some() => {
            let held = if lease.until > seen.now { "lease runs out" } else { "lease ran out" };
            format!("{names} ({held} {})", distance(lease.until, seen.now))
        }
        _ => names,
    }
}

fn failures(seen: &Seen) -> String {
    let history = seen.history();
    let record = &seen.view.record;
    // Why the run waits tells these in more words.
    let waits = record.status == RunStatus::Paused || matches!(record.live, Live::Retrying { .. });
    let told_as_wait = |seq| seq == record.at && waits;
    let told = |(seq, step): (StepSeq, &PlannedStep)| {
        let failure = history.step(seq).failure.filter(|_| !told_as_wait(seq))?;
        Some(wrapped(&format!("{}: {}: {}", step.id, failure.code, failure.message), WIDTH))
    };
    numbered(seen.view.plan()).filter_map(told).collect()
}

fn ways(waiting: &Waiting) -> String {
    let told = |way: &super::Way| match &way.command {
        Some(command) => format!("{command}\n    {}\n", way.what),
        None => format!("(by itself) {}\n", way.what),
    };
    waiting.ends.iter().map(told).collect()
}

/// Whether the chain of events holds, or where it breaks.
fn chain(seen: &Seen) -> String {
    match &seen.view.events {
        Ok(events) => {
            format!("chain     {}, verified: nothing was altered or left out", counted(events.len(), "event"))
        }
        Err(fault) => format!(
            "chain     BROKEN: {fault}; attempts and workers are not shown, because nothing proves them"
        ),
    }
}
