//! Backout: dispatch is stopped, and what is under way is ended.
//!
//! A run that nobody holds ends at once. A step that is held finishes under its lease, and what it did is taken back
//! where the workflow says how. What nobody can account for stays before a person. Nothing is deleted: every run that
//! is ended has its chain and its evidence, like any other that was canceled.

use domain::command::{Advanced, BackOut, Canceling};
use domain::failure::{MESSAGE_CHARS_MAX, bounded};
use domain::{Initiator, RunKey, Stopped, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use store::{Store, trace};
use tokio::time::sleep;

use crate::Engine;
use crate::dispatch::{HEARD_AFTER, Reach};
use crate::error::{EngineError, told};
use crate::pages::{Bookmark, Pages, Piece};

/// Runs change their status while the lists are read, so those are read until nobody new is in them, and at most this
/// often. What is left then is told.
const PASSES_MAX: u32 = 8;

/// What became of the runs that were under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// How far a backout is, for whoever goes on with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackoutSoFar {
    /// Since when it is being backed out, as the switch says it.
    pub begun: Timestamp,
    told: Backout,
    /// The first is made before everybody has heard of the stop.
    pass: u32,
    /// How many were ended before this pass.
    ended_before: u64,
    /// Where the pass left off; nowhere, if it is still to begin.
    from: Option<Bookmark>,
}

impl BackoutSoFar {
    fn begin(begun: Timestamp) -> Self {
        Self { begun, told: Backout::default(), pass: 0, ended_before: 0, from: None }
    }

    /// What is said of those that are not over is said anew with each pass.
    fn begin_pass(&mut self) {
        self.told = Backout { canceled: self.told.canceled, ..Backout::default() };
        self.ended_before = self.told.canceled;
    }

    /// Whether another pass would find nobody new, or there were enough of them.
    fn is_enough(&self) -> bool {
        self.pass >= PASSES_MAX || (self.pass > 0 && self.told.canceled == self.ended_before)
    }
}

/// How far a count is, for whoever goes on with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountSoFar {
    counted: u64,
    from: Bookmark,
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
        let mut so_far = None;
        loop {
            let (told, rest) = self.back_out_some(reach, by, reason, so_far, &mut progress).await?;
            match rest {
                Some(rest) => so_far = Some(rest),
                None => return Ok(told),
            }
        }
    }

    /// A piece of that, behind what was done `so_far`; says what became of the runs and what is left to be done.
    pub async fn back_out_some(
        &self,
        reach: &Reach,
        by: &Initiator,
        reason: &str,
        so_far: Option<BackoutSoFar>,
        mut progress: impl FnMut(&Backout) + Send,
    ) -> Result<(Backout, Option<BackoutSoFar>), EngineError> {
        let mut so_far = match so_far {
            Some(so_far) if self.backed_out_since(reach).await? == Some(so_far.begun) => so_far,
            Some(_) => return Err(EngineError::BackoutOver),
            None => BackoutSoFar::begin(self.begin_backout(reach, by, reason).await?),
        };
        let until = so_far.begun + HEARD_AFTER;
        let order = Order { until, by, reason: bounded(&format!("backout: {reason}"), MESSAGE_CHARS_MAX) };
        let mut piece = Piece::begin();
        loop {
            if so_far.pass > 0 {
                // Until then somebody who has not heard of the stop may begin something.
                sleep((until - self.now()).std()).await;
            }
            so_far.from = self.pass(reach, &order, &mut so_far, &mut piece, &mut progress).await?;
            if so_far.from.is_none() {
                if so_far.is_enough() {
                    return Ok((so_far.told, None));
                }
                so_far.pass += 1;
            }
            if piece.is_full() {
                return Ok((so_far.told, Some(so_far)));
            }
        }
    }

    /// Since when what is under way is being ended, if it is.
    async fn backed_out_since(&self, reach: &Reach) -> Result<Option<Timestamp>, EngineError> {
        let stands = match reach {
            Reach::Tenant(tenant) => self.dispatch(tenant).await?.tenant,
            Reach::All => self.fleet_stopped().await?,
        };
        Ok(stands.and_then(|stopped| stopped.backout))
    }

    /// Stops dispatch, so that what is under way can end; says since when it is being ended.
    async fn begin_backout(
        &self,
        reach: &Reach,
        by: &Initiator,
        reason: &str,
    ) -> Result<Timestamp, EngineError> {
        let now = self.now();
        let wish = Stopped { backout: Some(now), ..Stopped::new(by.clone(), reason, now) };
        Ok(self.stop(reach, wish).await?.backout.unwrap_or(now))
    }

    /// How many runs a backout would end, or ask to.
    pub async fn under_way(&self, reach: &Reach) -> Result<u64, EngineError> {
        let mut so_far = None;
        loop {
            let (counted, rest) = self.count_some(reach, so_far).await?;
            match rest {
                Some(rest) => so_far = Some(rest),
                None => return Ok(counted),
            }
        }
    }

    /// A piece of that, behind what was counted `so_far`; says how many that makes and what is left to be counted.
    pub async fn count_some(
        &self,
        reach: &Reach,
        so_far: Option<CountSoFar>,
    ) -> Result<(u64, Option<CountSoFar>), EngineError> {
        let (mut counted, from) =
            so_far.map_or((0, None), |CountSoFar { counted, from }| (counted, Some(from)));
        let mut piece = Piece::begin();
        for tenant in Bookmark::rest(from.as_ref(), self.reached(reach).await?) {
            let mut pages = Pages::of(&tenant, self.backed_out_until(&tenant).await?, from.as_ref());
            while let Some(runs) = pages.next(self).await? {
                counted += runs.len() as u64;
                piece.took(runs.len());
                if let Some(from) = pages.bookmark().filter(|_| piece.is_full()) {
                    return Ok((counted, Some(CountSoFar { counted, from: from.clone() })));
                }
            }
        }
        Ok((counted, None))
    }

    /// Until when runs were admitted that are being ended, if `tenant` is backed out already.
    async fn backed_out_until(&self, tenant: &TenantId) -> Result<Option<Timestamp>, EngineError> {
        let stands = self.dispatch(tenant).await?;
        let begun = [stands.fleet, stands.tenant].into_iter().flatten().find_map(|stopped| stopped.backout);
        Ok(begun.map(|begun| begun + HEARD_AFTER))
    }

    /// Looks at every run once, or at as many as make a piece; says where it left off, unless it is through.
    async fn pass(
        &self,
        reach: &Reach,
        order: &Order<'_>,
        so_far: &mut BackoutSoFar,
        piece: &mut Piece,
        progress: &mut (impl FnMut(&Backout) + Send),
    ) -> Result<Option<Bookmark>, EngineError> {
        let from = so_far.from.take();
        if from.is_none() {
            so_far.begin_pass();
        }
        for tenant in Bookmark::rest(from.as_ref(), self.reached(reach).await?) {
            let mut pages = Pages::of(&tenant, Some(order.until), from.as_ref());
            while let Some(runs) = pages.next(self).await? {
                for run in &runs {
                    let became = trace::within(run.story(), self.end(&run.key, order)).await?;
                    so_far.told.count(&became);
                    progress(&so_far.told);
                }
                piece.took(runs.len());
                if piece.is_full() && pages.bookmark().is_some() {
                    return Ok(pages.bookmark().cloned());
                }
            }
        }
        Ok(None)
    }

    async fn end(&self, run: &RunKey, order: &Order<'_>) -> Result<Became, EngineError> {
        match self.decide(run, order.by, &BackOut { reason: order.reason.clone() }).await {
            Ok(Some(Canceling::Now(Advanced::Over(_)))) => Ok(Became::Canceled),
            Ok(None | Some(Canceling::Now(Advanced::Paused))) => Ok(Became::NeedsAPerson),
            Ok(Some(
                Canceling::Now(Advanced::Ready) | Canceling::Requested | Canceling::AlreadyRequested,
            )) => {
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
