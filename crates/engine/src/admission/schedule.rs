//! Schedules: each scheduled time becomes one inbox entry.
//!
//! The entry's key names the workflow and the time, so any number of sweeps create one entry and one run. After that
//! the workflow becomes due at its next time. After an outage only the last missed time starts a run.

use domain::plan::Schedule;
use domain::{
    AppliedWorkflow, Cause, Digest, IdempotencyKey, Initiator, Plan, Refusal, Source, StartRequest, Timestamp,
};
use serde_json::json;
use store::{DueSchedule, Store};

use super::occurrences::{self, ScheduledTimes};
use crate::admission::AdmissionService;
use crate::admission::InboundEvent;
use crate::error::{EngineError, error_chain};

impl<S: Store> AdmissionService<'_, S> {
    /// Starts the workflows that are due, at most `limit`; returns how many.
    pub(crate) async fn start_due_schedules(self, limit: u32) -> Result<u32, EngineError> {
        let due = self.core.retry_busy(|store| store.due_schedules(self.core.now(), limit)).await?;
        let mut started = 0;
        for due in &due {
            let workflow = &due.applied.workflow;
            match self.start_due_schedule(due).await {
                Ok(()) => started += 1,
                // One unusable schedule must not stop the others.
                Err(error) => {
                    tracing::error!(event = "schedule_failed", %workflow, error = %error_chain(&error), "scheduled run not started");
                }
            }
        }
        Ok(started)
    }

    async fn start_due_schedule(self, due: &DueSchedule) -> Result<(), EngineError> {
        let (applied, now) = (&due.applied, self.core.now());
        let schedule = applied.triggered_by.as_ref().and_then(|by| by.schedule.as_ref());
        let mut next = None;
        if let Some(schedule) = schedule {
            let times = occurrences_of(schedule, applied.plan)?;
            let time = times.at_or_before(now).map_or(due.at, |last| last.max(due.at));
            match self.accept(event(applied, schedule, &times, time)?).await {
                // Another version of the schedule has the same time with other content.
                Ok(_) | Err(EngineError::Refused(Refusal::KeyConflict { .. })) => {}
                Err(error) => return Err(error),
            }
            next = times.after(now);
        }
        // A concurrent sweep that was first has set the same time.
        self.core.retry_busy(|store| store.reschedule(due, next)).await?;
        Ok(())
    }
}

/// When a workflow that is applied now is first due, if it has a schedule.
pub(super) fn first_occurrence(plan: &Plan, now: Timestamp) -> Result<Option<Timestamp>, EngineError> {
    let schedule = plan.triggered_by.as_ref().and_then(|by| by.schedule.as_ref());
    let Some(schedule) = schedule else { return Ok(None) };
    Ok(occurrences_of(schedule, plan.hash())?.after(now))
}

fn occurrences_of(schedule: &Schedule, plan: Digest) -> Result<ScheduledTimes<'_>, EngineError> {
    let why = || format!("unknown time zone {:?}", schedule.zone);
    ScheduledTimes::of(schedule).ok_or_else(|| EngineError::BadPlan { plan, why: why() })
}

/// A scheduled time, as an event.
fn event(
    applied: &AppliedWorkflow,
    schedule: &Schedule,
    times: &ScheduledTimes<'_>,
    time: Timestamp,
) -> Result<InboundEvent, EngineError> {
    let bad = |why: String| EngineError::BadPlan { plan: applied.plan, why };
    let name = occurrences::name(time).ok_or_else(|| bad(format!("{time} is not a valid time")))?;
    let key = format!("scheduler:{}:{name}", applied.workflow);
    let key = IdempotencyKey::new(&key).map_err(|error| bad(error.to_string()))?;
    Ok(InboundEvent {
        tenant: applied.tenant.clone(),
        proof: Digest::of_parts("countersign/slot/v1", &[applied.tenant.as_str(), key.as_str()]),
        key,
        source: Source::Schedule,
        topic: None,
        record: None,
        dedupe_key: None,
        body: json!({
            "schedule": applied.workflow,
            "cron": schedule.cron,
            "scheduled_at": name,
            "local_time": times.local(time),
        }),
        start_request: Some(StartRequest {
            plan: applied.plan,
            workspace: None,
            trigger_kind: Source::Schedule.to_string(),
            by: Initiator::new(Cause::System, format!("schedule:{}", applied.workflow)),
            applied_by: applied.applied_by(),
        }),
    })
}
