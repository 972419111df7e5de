//! Backout: dispatch is stopped, and what is under way is ended.
//!
//! A run that nobody holds ends at once. A step that is held finishes under its lease, and what it did is taken back
//! where the workflow says how. What nobody can account for stays before a person. Nothing is deleted: every run that
//! is ended has its chain and its evidence, like any other that was canceled.

use domain::command::{Advanced, BackOut, Canceling};
use domain::failure::{MESSAGE_CHARS_MAX, bounded};
use domain::{Initiator, RunKey, Stopped, Timestamp};
use store::Store;
use tokio::time::sleep;

use crate::Engine;
use crate::dispatch::{HEARD_AFTER, Reach};
use crate::error::{EngineError, told};
use crate::pages::Pages;

/// Runs change their status while the lists are read, so those are read until nobody new is in them, and at most this
/// often. What is left then is told.
const PASSES_MAX: u32 = 8;

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
        let order = Order { until, by, reason: bounded(&format!("backout: {reason}"), MESSAGE_CHARS_MAX) };
        let mut told = Backout::default();
        self.pass(reach, &order, &mut told, &mut progress).await?;
        // Until then somebody who has not heard of the stop may begin something.
        sleep((until - self.now()).std()).await;
        for _ in 0..PASSES_MAX {
            let before = told.canceled;
            self.pass(reach, &order, &mut told, &mut progress).await?;
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
            let stands = self.dispatch(&tenant).await?;
            let begun =
                [stands.fleet, stands.tenant].into_iter().flatten().find_map(|stopped| stopped.backout);
            let mut pages = Pages::of(&tenant, begun.map(|begun| begun + HEARD_AFTER));
            while let Some(runs) = pages.next(self).await? {
                count += runs.len() as u64;
            }
        }
        Ok(count)
    }

    /// Looks at every run once. What `told` says of those that are not over is said anew.
    async fn pass(
        &self,
        reach: &Reach,
        order: &Order<'_>,
        told: &mut Backout,
        progress: &mut (impl FnMut(&Backout) + Send),
    ) -> Result<(), EngineError> {
        *told = Backout { canceled: told.canceled, ..Backout::default() };
        for tenant in self.reached(reach).await? {
            let mut pages = Pages::of(&tenant, Some(order.until));
            while let Some(runs) = pages.next(self).await? {
                for run in &runs {
                    told.count(&self.end(&run.key, order).await?);
                    progress(told);
                }
            }
        }
        Ok(())
    }

    async fn end(&self, run: &RunKey, order: &Order<'_>) -> Result<Became, EngineError> {
        match self.decide(run, order.by, &BackOut { reason: order.reason.clone() }).await {
            Ok(Some(Canceling::Now(Advanced::Over(_)))) => Ok(Became::Canceled),
            Ok(None | Some(Canceling::Now(Advanced::Paused))) => Ok(Became::NeedsAPerson),
            Ok(Some(Canceling::Now(Advanced::Ready) | Canceling::Requested | Canceling::Before)) => {
                // Its message may have been let go while nothing was begun at all.
                self.announce_one(run).await?;
                Ok(Became::Finishing)
            }
            Err(EngineError::Refused(_)) => Ok(Became::Over),
            Err(EngineError::Store(error)) => Err(error.into()),
            // One run that cannot be ended must not keep the others from it.
            Err(error) => {
                tracing::error!(%run, error = %told(&error), "a run was not backed out");
                Ok(Became::Left)
            }
        }
    }
}
