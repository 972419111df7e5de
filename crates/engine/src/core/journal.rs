//! The journal: log events and metrics about runs.
//!
//! The process that commits a change logs it once and counts it. The event chain is the record; a log line may be
//! missing or doubled after a crash or a lost reply. A line names the run and its status, and contains no user data.

use domain::command::WakeReason;
use domain::{Decision, InboxStatus, Millis, RunKey, RunRecord, RunStatus, Source, StepSeq, WorkflowName};

use crate::metrics;

pub(crate) fn log_created(run: &RunKey, workflow: &WorkflowName) {
    metrics::run_created(&run.tenant);
    tracing::info!(event = "run_created", %run, %workflow, "run created");
}

/// A request that came through `source` is a duplicate.
pub(crate) fn log_duplicate(run: &RunKey, source: &str) {
    metrics::duplicate_request(&run.tenant, source);
    tracing::info!(event = "idempotency_hit", %run, source, "duplicate request");
}

/// An inbox entry started a run, or did not. A rejected one concerns an operator; `run show` gives the reason.
pub(crate) fn log_entry_processed(run: &RunKey, source: Source, status: &InboxStatus) {
    let outcome: &'static str = status.into();
    metrics::entry_processed(&run.tenant, source, outcome);
    if matches!(status, InboxStatus::Rejected { .. }) {
        tracing::warn!(event = "inbox_entry_rejected", %run, %source, "event started no run");
    } else {
        tracing::info!(event = "inbox_entry_processed", %run, %source, outcome, "inbox entry processed");
    }
}

/// The stored data of an ended run was not signed.
pub(crate) fn log_evidence_refused(run: &RunKey, reason: &'static str, error: &str) {
    metrics::evidence_refused(&run.tenant, reason);
    tracing::error!(event = "evidence_refused", %run, reason, error, "evidence not signed");
}

/// The sweep sent the message of an inbox entry again.
pub(crate) fn log_entry_resent(run: &RunKey, source: Source) {
    tracing::warn!(event = "inbox_entry_resent", %run, %source, "inbox entry overdue; message sent again");
}

/// The sweep woke a run. Only an orphaned run concerns an operator.
pub(crate) fn log_woken(run: &RunKey, why: WakeReason) {
    match why {
        WakeReason::Orphaned => {
            tracing::info!(event = "orphan_detected", code = "RUN_ORPHANED", %run, "orphaned run woken");
        }
        WakeReason::Due => tracing::debug!(event = "run_woken", %run, "due run woken"),
    }
}

/// What a commit changes in a run.
pub(crate) struct Transition {
    run: RunKey,
    from: RunStatus,
    to: RunStatus,
    ended_steps: Vec<StepSeq>,
    /// From start to end, if the run ends.
    duration: Option<Millis>,
}

impl Transition {
    pub(crate) fn of(before: &RunRecord, decision: &Decision) -> Self {
        let after = &decision.record;
        let ends = after.completed_at.filter(|_| before.completed_at.is_none());
        Self {
            run: after.key.clone(),
            from: before.status,
            to: after.status,
            ended_steps: decision.steps.iter().map(|step| step.seq).collect(),
            duration: ends.map(|end| end - after.created_at),
        }
    }

    /// Logs and counts the change. Called after the commit.
    pub(crate) fn log(&self) {
        let Self { run, from, to, ended_steps, duration } = self;
        for step in ended_steps {
            tracing::info!(event = "run_checkpoint", %run, step = step.0, "step ended");
        }
        if from != to {
            metrics::status_changed(&run.tenant, *from, *to);
            tracing::info!(event = "run_transition", %run, %from, %to, "run status changed");
        }
        if let Some(duration) = duration {
            metrics::run_ended(&run.tenant, *to, duration.std());
            tracing::info!(event = "run_completed", %run, status = %to, took_ms = duration.0, "run ended");
        }
    }
}
