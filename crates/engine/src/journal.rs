//! The journal: what becomes of runs, as events in the log and in numbers.
//!
//! Whoever committed something says so in one line, for those who watch many runs at once, and counts it. The chain is
//! the record; this is no part of it, and a line may be missing or come twice where a process died or an answer was lost.
//! A line names the run and where it stands, and nothing that anybody wrote, read or paid.

use domain::command::Woken;
use domain::{Code, Decision, Millis, RunKey, RunRecord, RunStatus, StepSeq, WorkflowName};

use crate::metrics;

/// A run was begun.
pub(crate) fn created(run: &RunKey, workflow: &WorkflowName) {
    metrics::began(&run.tenant);
    tracing::info!(event = "run_created", %run, %workflow, "a run was begun");
}

/// The same request was there before, by way of `source`, and its answer stands.
pub(crate) fn known(run: &RunKey, source: &str) {
    metrics::known(&run.tenant, source);
    tracing::info!(event = "idempotency_hit", %run, source, "the same request came before");
}

/// The sweep woke a run. Only one that was left is worth an operator's eye; all others were due and had nobody to look
/// before.
pub(crate) fn woken(run: &RunKey, why: Woken) {
    match why {
        Woken::Orphaned => {
            let code = Code::RunOrphaned.as_str();
            tracing::info!(event = "orphan_detected", code, %run, "woke a run that was left");
        }
        Woken::Due => tracing::debug!(%run, "woke a run that was due"),
    }
}

/// What a commit makes of a run.
pub(crate) struct Move {
    run: RunKey,
    from: RunStatus,
    to: RunStatus,
    /// The steps that ended with it.
    ended: Vec<StepSeq>,
    /// From its beginning to its end, if this is its end.
    took: Option<Millis>,
}

impl Move {
    /// What `decision` makes of the run that stands as `before`.
    pub(crate) fn of(before: &RunRecord, decision: &Decision) -> Self {
        let after = &decision.record;
        let ends = after.completed_at.filter(|_| before.completed_at.is_none());
        Self {
            run: after.key.clone(),
            from: before.status,
            to: after.status,
            ended: decision.steps.iter().map(|step| step.seq).collect(),
            took: ends.map(|end| end - after.created_at),
        }
    }

    /// Tells of it. To be called once it is committed.
    pub(crate) fn tell(&self) {
        let Self { run, from, to, ended, took } = self;
        for step in ended {
            tracing::info!(event = "run_checkpoint", %run, step = step.0, "a step ended");
        }
        if from != to {
            metrics::moved(&run.tenant, *from, *to);
            tracing::info!(event = "run_transition", %run, %from, %to, "a run moved");
        }
        if let Some(took) = took {
            metrics::ended(&run.tenant, *to, took.std());
            tracing::info!(event = "run_completed", %run, status = %to, took_ms = took.0, "a run is over");
        }
    }
}
