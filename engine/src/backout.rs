//! Backout: dispatch is stopped, and what is under way is ended.
//!
//! A run that nobody holds ends at once. A step that is held finishes under its lease, and what it did is taken back
//! where the workflow says how. What nobody can account for stays before a person. Nothing is deleted: every run that
//! is ended has its chain and its evidence, like any other that was canceled.

use domain::command::{Advanced, Canceling};
use domain::{Initiator, RunRecord, RunStatus, Stopped, TenantId, Timestamp};
use store::{RunQuery, Store};

use crate::Engine;
use crate::dispatch::{HEARD_AFTER, Reach};
use crate::error::{EngineError, told};

/// So many runs are looked at in one go.
const PAGE: u32 = 200;

/// Runs change their status while the lists are read, so those are read until nobody new is in them, and at most this
/// often. What is left then is told.
const PASSES_MAX: u32 = 8;

/// Where a run can be that is not over.
const UNDER_WAY: [RunStatus; 7] = [
    RunStatus::Queued,
    RunStatus::FailedRetryable,
    RunStatus::WaitingEvent,
    RunStatus::WaitingApproval,
    RunStatus::Running,
    RunStatus::RollingBack,
    RunStatus::Paused,
];

/// What became of the runs that were under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backout {
    /// Ended by this call.
    pub canceled: u64,
    /// Asked to end, and still finishing a step, settling an effect or taking one back.
    pub finishing: u64,
    /// Paused over an effect that nobody can account for. A person decides.
    pub need_a_person: u64,
    /// Not asked: others kept changing them, or they cannot be read. Try again.
    pub left: u64,
}

/// What became of one of them.
enum Became {
    Canceled,
    Finishing,
    NeedsAPerson,
    Left,
    /// It was over by then.
    Over,
}

impl Backout {
    /// Whether all of them are over.
    pub fn is_done(&self) -> bool {
        self.finishing == 0 && self.need_a_person == 0 && self.left == 0
    }

    fn count(&mut self, became: &Became) {
        match became {
            Became::Canceled => self.canceled += 1,
            Became::Finishing => self.finishing += 1,
            Became::NeedsAPerson => self.need_a_person += 1,
            Became::Left => self.left += 1,
            Became::Over => {}
        }
    }
}

/// Which runs are ended, by whom and why.
struct Order<'o> {
    until: Timestamp,
    by: &'o Initiator,
    reason: String,
}

impl<S: Store> Engine<S> {
    /// Stops dispatch and ends every run that was under way by then, for the reason `backout`. `progress` hears of
    /// every run. Doing it again goes on where it was left, and does no harm. The way back is to start dispatch: what
    /// came meanwhile is then begun.
    pub async fn backout(
        &self,
        reach: &Reach,
        by: &Initiator,
        reason: &str,
        mut progress: impl FnMut(&Backout) + Send,
    ) -> Result<Backout, EngineError> {
        let now = self.now();
        let wish = Stopped { backout: Some(now), ..Stopped::new(by.clone(), reason, now) };
        let stands = self.stop(reach, wish).await?;
        let until = stands.backout.unwrap_or(now) + HEARD_AFTER;
        let order = Order { until, by, reason: format!("backout: {reason}") };
        let mut told = Backout::default();
        for _ in 0..PASSES_MAX {
            let before = told.canceled;
            told = Backout { canceled: before, ..Backout::default() };
            for tenant in self.reached(reach).await? {
                self.back_out(&tenant, &order, &mut told, &mut progress).await?;
            }
            if told.canceled == before {
                break;
            }
        }
        Ok(told)
    }

    /// How many runs a backout would end, or ask to.
    pub async fn under_way(&self, reach: &Reach) -> Result<u64, EngineError> {
        let mut count = 0;
        for tenant in self.reached(reach).await? {
            for status in UNDER_WAY {
                let mut query = RunQuery { status: Some(status), ..RunQuery::newest(tenant.clone(), PAGE) };
                loop {
                    let page = self.patiently(|| self.store.runs(query.clone())).await?;
                    count += page.runs.len() as u64;
                    query.before = page.next;
                    if query.before.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(count)
    }

    async fn back_out(
        &self,
        tenant: &TenantId,
        order: &Order<'_>,
        told: &mut Backout,
        progress: &mut (impl FnMut(&Backout) + Send),
    ) -> Result<(), EngineError> {
        for status in UNDER_WAY {
            let newest = RunQuery::newest(tenant.clone(), PAGE);
            let mut query = RunQuery { status: Some(status), until: Some(order.until), ..newest };
            loop {
                let page = self.patiently(|| self.store.runs(query.clone())).await?;
                for run in &page.runs {
                    told.count(&self.end(run, order).await?);
                    progress(told);
                }
                query.before = page.next;
                if query.before.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn end(&self, run: &RunRecord, order: &Order<'_>) -> Result<Became, EngineError> {
        // Whoever gives up on an effect that nobody can account for must have looked at it.
        if run.status == RunStatus::Paused && run.live.leaves_unknown() {
            return Ok(Became::NeedsAPerson);
        }
        match self.cancel(&run.key, order.by, &order.reason).await {
            Ok(Canceling::Now(Advanced::Over(_))) => Ok(Became::Canceled),
            Ok(Canceling::Now(Advanced::Paused)) => Ok(Became::NeedsAPerson),
            Ok(Canceling::Now(Advanced::Ready) | Canceling::Requested | Canceling::Before) => {
                // Its message may have been let go while nothing was begun at all.
                self.announce_one(&run.key).await?;
                Ok(Became::Finishing)
            }
            Err(EngineError::Refused(_)) => Ok(Became::Over),
            Err(EngineError::Store(error)) => Err(error.into()),
            // One run that cannot be ended must not keep the others from it.
            Err(error) => {
                tracing::error!(run = %run.key, error = %told(&error), "a run was not backed out");
                Ok(Became::Left)
            }
        }
    }
}
