//! A run as text.

use domain::plan::{Plan, PlannedStep, Work};
use domain::{RunStatus, StepSeq, StepStatus, Timestamp, WorkspaceId};

use crate::json::{
    CanceledDocument, ChainDocument, NextActionDocument, OTHER_KEY, RunDocument, StepDocument, WaitDocument,
    run_document,
};
use crate::table::{indented, table, wrapped};
use crate::time::{duration, in_seconds, parse, relative};

use super::{RunSnapshot, compensation};

/// Sentences wrap at this width; few terminals are narrower than this plus the indent.
const WIDTH: usize = 92;

/// The text of `run show`.
pub fn run_text(snapshot: &RunSnapshot) -> String {
    document_text(&run_document(snapshot), snapshot.now)
}

/// The text of `run show` for a run document, at `now`.
pub fn document_text(run: &RunDocument, now: Timestamp) -> String {
    let why = run.waiting.as_ref().map(|wait| wrapped(&wait.reason, WIDTH)).unwrap_or_default();
    let actions = run.waiting.as_ref().map(next_actions).unwrap_or_default();
    [
        heading(run, now),
        format!("\n{}", indented(&run_steps_table(run, now), 2)),
        section("failures", &failures(run)),
        section("effects", &compensation::text(run)),
        section("waiting", &why),
        section("next actions", &actions),
        format!("\n{}\n", chain(&run.chain)),
    ]
    .concat()
}

fn section(title: &str, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!("\n{title}\n{}", indented(body, 2)) }
}

fn heading(run: &RunDocument, now: Timestamp) -> String {
    let RunDocument { workflow, version, steps, created_at, .. } = run;
    let ago = parse(created_at).map(|at| format!(", {}", relative(at, now))).unwrap_or_default();
    let lines = [
        ("run", Some(run.run.to_string())),
        ("workflow", Some(format!("{workflow}, version {version}, {}", counted(steps.len(), "step")))),
        ("workspace", Some(run.workspace.to_string()).filter(|_| run.workspace != WorkspaceId::default())),
        ("status", Some(status(run))),
        ("canceled", run.canceled.as_ref().map(CanceledDocument::line)),
        ("started", Some(format!("{}{ago}", in_seconds(created_at)))),
        ("key", Some(run.idempotency_key.to_string())),
    ];
    lines.into_iter().filter_map(|(name, value)| Some(format!("{name:<10}{}\n", value?))).collect()
}

fn status(run: &RunDocument) -> String {
    let ended = run.completed_at.as_deref().and_then(parse);
    match parse(&run.created_at).zip(ended) {
        Some((began, ended)) => format!("{} after {}", run.status, duration(ended - began)),
        None => run.status.to_string(),
    }
}

/// `1 step`, `5 steps`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The steps with status, attempts and workers.
pub fn steps_table(snapshot: &RunSnapshot) -> String {
    run_steps_table(&run_document(snapshot), snapshot.now)
}

fn run_steps_table(run: &RunDocument, now: Timestamp) -> String {
    let rows: Vec<_> = run.steps.iter().map(|step| row(step, now)).collect();
    table(["#", "STEP", "TOOL", "STATUS", "ATTEMPTS", "WORKER"], &rows)
}

/// The steps of a plan with their index.
pub(super) fn numbered_steps(plan: &Plan) -> impl Iterator<Item = (StepSeq, &PlannedStep)> {
    (0_u16..).map(StepSeq).zip(&plan.steps)
}

fn row(step: &StepDocument, now: Timestamp) -> [String; 6] {
    let attempts = match (step.attempts.len(), step.rollback_attempts.len()) {
        (0, 0) => String::new(),
        (attempts, 0) => attempts.to_string(),
        (attempts, rollback) => format!("{attempts} + {rollback} rollback"),
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

/// The name of the tool in the workflow file.
pub fn tool(work: &Work) -> &str {
    match work {
        Work::Call(call) => call.tool.as_str(),
        Work::Wait { .. } => "wait.event",
        Work::Gate { .. } => "approval.gate",
    }
}

/// The workers that attempted the step, each once, oldest first, and the lease of the last one.
fn workers(step: &StepDocument, now: Timestamp) -> String {
    let mut names: Vec<&str> = Vec::new();
    for attempt in step.attempts.iter().chain(&step.rollback_attempts) {
        if !names.contains(&attempt.worker.as_str()) {
            names.push(&attempt.worker);
        }
    }
    let names = names.join(", ");
    match step.lease.as_ref().and_then(|lease| parse(&lease.expires_at)) {
        Some(until) if step.is_running() => {
            let lease = if until > now { "lease expires" } else { "lease expired" };
            format!("{names} ({lease} {})", relative(until, now))
        }
        _ => names,
    }
}

fn failures(run: &RunDocument) -> String {
    // The section about the wait already shows these.
    let is_shown_as_wait = |step: &StepDocument| {
        step.seq == run.current_step
            && (run.status == RunStatus::Paused || step.status == StepStatus::FailedRetryable)
    };
    let line = |step: &StepDocument| {
        let failure = step.failure.as_ref().filter(|_| !is_shown_as_wait(step))?;
        Some(wrapped(&format!("{}: {}: {}", step.id, failure.code, failure.message), WIDTH))
    };
    run.steps.iter().filter_map(line).collect()
}

fn next_actions(wait: &WaitDocument) -> String {
    let line = |action: &NextActionDocument| match &action.command {
        Some(command) => format!("{command}\n    {}\n", action.description),
        None => format!("(automatic) {}\n", action.description),
    };
    wait.next_actions.iter().map(line).collect()
}

/// The verification of the chain, in one line.
fn chain(chain: &ChainDocument) -> String {
    match &chain.error {
        None => {
            let events = counted(chain.events.unwrap_or_default(), "event");
            let evidence = match chain.evidence.as_deref() {
                Some("matches") => ", same as in the signed bundle",
                Some(_) => {
                    ", same as in the bundle; signature not verified because no public key is configured"
                }
                None => "",
            };
            format!("chain     {events}, verified{evidence}")
        }
        Some(fault) if chain.evidence.as_deref() == Some(OTHER_KEY) => {
            format!("chain     NOT VERIFIED: {fault}")
        }
        Some(fault) if chain.events.is_some() => {
            format!("chain     ALTERED: {fault}; `countersign bundle get` returns the bundle")
        }
        Some(fault) => format!(
            "chain     BROKEN: {fault}; attempts and workers are not shown, because they cannot be verified"
        ),
    }
}
