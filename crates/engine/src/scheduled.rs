//! Schedules: a slot becomes an entry, once.
//!
//! The key of a slot names the workflow and the moment, so however many sweeps find it, and wherever one of them dies,
//! there is one entry and one run. Only then is the workflow made due at its next slot. After an outage the last slot
//! that was missed is taken up, and none before it.

use domain::plan::Schedule;
use domain::{
    Applied, Asked, Cause, Digest, IdempotencyKey, Initiator, Plan, Refusal, Source, Timestamp, WorkspaceId,
};
use serde_json::json;
use store::{DueSchedule, Store};

use crate::Engine;
use crate::accept::InboundEvent;
use crate::error::{EngineError, told};
use crate::slot::{self, Slots};

impl<S: Store> Engine<S> {
    /// When a workflow that is put to use now is first due, if it is started by a schedule.
    pub(crate) fn first_slot(&self, plan: &Plan) -> Result<Option<Timestamp>, EngineError> {
        let schedule = plan.triggered_by.as_ref().and_then(|by| by.schedule.as_ref());
        let Some(schedule) = schedule else { return Ok(None) };
        Ok(slots(schedule, plan.hash())?.after(self.now()))
    }

    /// Takes up the slots that have come, at most `limit` of them; says how many.
    pub(crate) async fn take_up_slots(&self, limit: u32) -> Result<u32, EngineError> {
        let due = self.retry_busy(|| self.store.due_schedules(self.now(), limit)).await?;
        let mut taken_up = 0;
        for due in &due {
            let workflow = &due.applied.workflow;
            match self.take_up_slot(due).await {
                Ok(()) => taken_up += 1,
                // One schedule that cannot be used must not keep the others from coming round.
                Err(error) => tracing::error!(%workflow, error = %told(&error), "a slot was not taken up"),
            }
        }
        Ok(taken_up)
    }

    async fn take_up_slot(&self, due: &DueSchedule) -> Result<(), EngineError> {
        let (applied, now) = (&due.applied, self.now());
        let schedule = applied.triggered_by.as_ref().and_then(|by| by.schedule.as_ref());
        let mut next = None;
        if let Some(schedule) = schedule {
            let slots = slots(schedule, applied.plan)?;
            let slot = slots.until(now).map_or(due.at, |last| last.max(due.at));
            match self.accept(knock(applied, schedule, &slots, slot)?).await {
                // A later version of the schedule tells the same slot in other words.
                Ok(_) | Err(EngineError::Refused(Refusal::KeyConflict { .. })) => {}
                Err(error) => return Err(error),
            }
            next = slots.after(now);
        }
        // Whoever was faster has made it due as late.
        self.retry_busy(|| self.store.reschedule(due, next)).await?;
        Ok(())
    }
}

fn slots(schedule: &Schedule, plan: Digest) -> Result<Slots<'_>, EngineError> {
    let why = || format!("this program knows no time zone {:?}", schedule.zone);
    Slots::of(schedule).ok_or_else(|| EngineError::BadPlan { plan, why: why() })
}

/// A slot, as something that came in.
fn knock(
    applied: &Applied,
    schedule: &Schedule,
    slots: &Slots<'_>,
    slot: Timestamp,
) -> Result<InboundEvent, EngineError> {
    let bad = |why: String| EngineError::BadPlan { plan: applied.plan, why };
    let name = slot::name(slot).ok_or_else(|| bad(format!("{slot} is no moment of any calendar")))?;
    let key = format!("scheduler:{}:{name}", applied.workflow);
    let key = IdempotencyKey::new(&key).map_err(|error| bad(error.to_string()))?;
    Ok(InboundEvent {
        tenant: applied.tenant.clone(),
        proof: Digest::of_parts("countersign/slot/v1", &[applied.tenant.as_str(), key.as_str()]),
        key,
        source: Source::Schedule,
        about: None,
        record: None,
        dedupe_key: None,
        body: json!({
            "schedule": applied.workflow,
            "cron": schedule.cron,
            "slot": name,
            "local": slots.local(slot),
        }),
        asked: Some(Asked {
            plan: applied.plan,
            workspace: WorkspaceId::default(),
            trigger_kind: Source::Schedule.to_string(),
            by: Initiator::new(Cause::System, format!("schedule:{}", applied.workflow)),
        }),
    })
}
