//! A run as one JSON document, for programs.

use domain::plan::PlannedStep;
use domain::view::step_status;
use domain::{Live, Payload, StepRecord, StepSeq};
use serde_json::{Value, json};

use crate::time::moment;

use super::history::{History, Try, TryEnd};
use super::text::{numbered, tool};
use super::{Seen, compensation, waiting};

/// Everything about the run.
pub fn run_json(seen: &Seen) -> Value {
    let record = &seen.view.record;
    json!({
        "run": record.key.run,
        "tenant": record.key.tenant,
        "workflow": record.workflow,
        "version": record.workflow_version,
        "plan": record.plan,
        "status": record.status,
        "created_at": moment(record.created_at),
        "completed_at": record.completed_at.map(moment),
        "key": record.trigger.reference,
        "record": record.trigger.record,
        "steps": steps(seen),
        "effects": record.effects,
        "compensation": compensation::to_json(&seen.view),
        "waits": waits(seen),
        "chain": chain(seen),
    })
}

fn steps(seen: &Seen) -> Value {
    let history = seen.history();
    numbered(seen.view.plan()).map(|(seq, step)| step_json(seen, &history, seq, step)).collect()
}

fn step_json(seen: &Seen, history: &History, seq: StepSeq, step: &PlannedStep) -> Value {
    let past = history.step(seq);
    let ended = seen.view.steps.iter().find(|record| record.seq == seq && !record.undo);
    json!({
        "seq": seq,
        "id": step.id,
        "tool": tool(&step.work),
        "status": step_status(&seen.view.record, &seen.view.steps, seq),
        "attempts": past.tries.len(),
        "tries": tries(&past.tries),
        "undo_tries": tries(&past.undo_tries),
        "lease": lease(seen, seq),
        "failure": past.failure,
        "effect": ended.and_then(|record| record.receipt.as_ref()),
        "output": ended.map(output),
    })
}

fn tries(tries: &[Try]) -> Value {
    tries.iter().map(|attempt| json!({ "worker": attempt.worker, "end": end_name(attempt.end) })).collect()
}

fn end_name(end: TryEnd) -> &'static str {
    match end {
        TryEnd::UnderWay => "under_way",
        TryEnd::Done => "done",
        TryEnd::Failed => "failed",
        TryEnd::Silent => "silent",
    }
}

fn lease(seen: &Seen, seq: StepSeq) -> Value {
    match &seen.view.record.live {
        Live::Running(lease) if seq == seen.view.record.at => json!({
            "owner": lease.owner,
            "fence": lease.fence,
            "since": moment(lease.since),
            "until": moment(lease.until),
            "intent": lease.intent.as_ref().map(|intent| &intent.key),
        }),
        _ => Value::Null,
    }
}

/// What the step gave; a large output by pointer, as the ledger keeps it.
fn output(record: &StepRecord) -> Value {
    match &record.output {
        Some(Payload::Inline(value)) => value.clone(),
        Some(Payload::Blob(blob)) => json!({ "blob": blob }),
        None => Value::Null,
    }
}

fn waits(seen: &Seen) -> Value {
    let Some(waiting) = waiting(seen) else { return Value::Null };
    let ends: Vec<Value> =
        waiting.ends.iter().map(|way| json!({ "what": way.what, "command": way.command })).collect();
    json!({ "why": waiting.why, "ends": ends })
}

fn chain(seen: &Seen) -> Value {
    match &seen.view.events {
        Ok(events) => json!({ "verified": true, "events": events.len(), "head": seen.view.record.head }),
        Err(fault) => json!({ "verified": false, "fault": fault.to_string() }),
    }
}
