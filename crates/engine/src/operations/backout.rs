//! Backout: stops dispatch and cancels the runs in progress.
//!
//! A run without a held step ends at once. A held step finishes under its lease, and its effect is rolled back where
//! the workflow says how. A run with an unknown outcome stays paused for a person. Nothing is deleted: every canceled
//! run keeps its chain and gets its evidence.

use domain::command::{AfterStep, BackOut, CancelResult};
use domain::failure::{MESSAGE_CHARS_MAX, bounded};
use domain::{DispatchStop, Initiator, RunKey, RunRecord, TenantId, Timestamp};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use store::{Store, trace};
use tokio::time::sleep;

use crate::error::{EngineError, error_chain};
use crate::operations::OperationsService;
use crate::operations::dispatch::{DispatchScope, STOP_VISIBLE_AFTER};
use crate::operations::pages::{BatchLimit, Pages, ResumePosition, Tenants};
use crate::tenant_handle::TenantHandle;

/// Runs change status while the lists are read. The lists are read until they contain no new run, and at most this
/// often.
const PASSES_MAX: u32 = 8;

/// How many runs are canceled at the same time. A canceled run takes two requests to DynamoDB.
const CONCURRENT_RUNS: usize = 32;

/// How many runs a backout canceled, and how many are left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backout {
    /// Canceled by this call.
    pub canceled: u64,
    /// Asked to cancel, and still finishing a step or rolling back.
    pub canceling: u64,
    /// Paused with an unknown outcome. A person decides.
    pub needs_operator: u64,
    /// Not canceled: others kept changing them, or they cannot be read. Try again.
    pub remaining: u64,
}

enum BackoutOutcome {
    Canceled,
    Canceling,
    NeedsOperator,
    Remaining,
    /// It had ended before.
    AlreadyEnded,
}

impl Backout {
    pub fn is_done(&self) -> bool {
        self.canceling == 0 && self.needs_operator == 0 && self.remaining == 0
    }

    fn count(&mut self, outcome: &BackoutOutcome) {
        match outcome {
            BackoutOutcome::Canceled => self.canceled += 1,
            BackoutOutcome::Canceling => self.canceling += 1,
            BackoutOutcome::NeedsOperator => self.needs_operator += 1,
            BackoutOutcome::Remaining => self.remaining += 1,
            BackoutOutcome::AlreadyEnded => {}
        }
    }
}

/// Which runs are canceled, by which user, and why.
struct BackoutRequest<'o> {
    until: Timestamp,
    by: &'o Initiator,
    reason: String,
}

/// The progress of a backout that continues in a later call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackoutProgress {
    /// When the backout started, as the dispatch switch records it.
    pub started_at: Timestamp,
    counts: Backout,
    /// The first pass is made before every process has seen the stop. It cancels every run that is listed and ignores
    /// the time of its admission, because the clock of another machine may be fast. Later passes, and a repeated
    /// backout, must leave the runs that were requested since, and go by that time.
    pass: u32,
    /// How many were canceled before this pass.
    ended_before: u64,
    /// Where the pass stopped; `None` before it starts.
    from: Option<ResumePosition>,
}

impl BackoutProgress {
    /// The backout that started at `started_at`, and whether this call started it.
    fn begin(started_at: Timestamp, is_new: bool) -> Self {
        Self { started_at, counts: Backout::default(), pass: u32::from(!is_new), ended_before: 0, from: None }
    }

    /// The counts of runs that are left are counted again in each pass.
    fn begin_pass(&mut self) {
        self.counts = Backout { canceled: self.counts.canceled, ..Backout::default() };
        self.ended_before = self.counts.canceled;
    }

    /// Whether another pass would find no new run, or the limit of passes is reached.
    fn is_complete(&self) -> bool {
        self.pass >= PASSES_MAX || (self.pass > 0 && self.counts.canceled == self.ended_before)
    }
}

/// The progress of a count that continues in a later call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountProgress {
    counted: u64,
    from: ResumePosition,
}

impl<S: Store> TenantHandle<S> {
    /// Stops dispatch and cancels a part of the runs in progress; returns the counts and the remaining work.
    pub async fn back_out_part(
        &self,
        reason: &str,
        so_far: Option<BackoutProgress>,
    ) -> Result<(Backout, Option<BackoutProgress>), EngineError> {
        let operations = OperationsService::new(&self.core);
        operations.back_out_part(&self.scope(), (&self.admin(), &self.by), reason, so_far, |_| {}).await
    }

    /// Counts a part of the runs that a backout would cancel.
    pub async fn count_part(
        &self,
        so_far: Option<CountProgress>,
    ) -> Result<(u64, Option<CountProgress>), EngineError> {
        OperationsService::new(&self.core).count_part(&self.scope(), so_far).await
    }
}

impl<S: Store> OperationsService<'_, S> {
    /// Stops dispatch and cancels every run that was in progress by then, with a reason that starts with `backout`.
    /// `progress` is called for every run. Repeating it continues where it stopped. To resume, start dispatch: events
    /// that arrived meanwhile start their runs then.
    pub async fn backout(
        self,
        scope: &DispatchScope,
        by: &Initiator,
        reason: &str,
        mut progress: impl FnMut(&Backout) + Send,
    ) -> Result<Backout, EngineError> {
        let mut so_far = None;
        loop {
            let (counts, rest) = self.back_out_part(scope, (by, by), reason, so_far, &mut progress).await?;
            match rest {
                Some(rest) => so_far = Some(rest),
                None => return Ok(counts),
            }
        }
    }

    /// Does a part of a backout; returns the counts and the remaining work. `admin` stops dispatch, with the credential
    /// that was used; `by` cancels the runs.
    pub async fn back_out_part(
        self,
        scope: &DispatchScope,
        (admin, by): (&Initiator, &Initiator),
        reason: &str,
        so_far: Option<BackoutProgress>,
        mut progress: impl FnMut(&Backout) + Send,
    ) -> Result<(Backout, Option<BackoutProgress>), EngineError> {
        let mut so_far = match so_far {
            Some(so_far) if self.backout_started_at(scope).await? == Some(so_far.started_at) => so_far,
            Some(_) => return Err(EngineError::DispatchStartedDuringBackout),
            None => self.begin_backout(scope, admin, reason).await?,
        };
        let until = so_far.started_at + STOP_VISIBLE_AFTER;
        let request =
            BackoutRequest { until, by, reason: bounded(&format!("backout: {reason}"), MESSAGE_CHARS_MAX) };
        let mut limit = BatchLimit::start();
        loop {
            if so_far.pass > 0 {
                // Until then a process that has not seen the stop may start a step, and the index may not list its run.
                sleep((until + S::INDEX_DELAY - self.core.now()).std()).await;
            }
            so_far.from = self.pass(scope, &request, &mut so_far, &mut limit, &mut progress).await?;
            if so_far.from.is_none() {
                if so_far.is_complete() {
                    return Ok((so_far.counts, None));
                }
                so_far.pass += 1;
            }
            if limit.is_full() {
                return Ok((so_far.counts, Some(so_far)));
            }
        }
    }

    /// When the current backout started.
    async fn backout_started_at(self, scope: &DispatchScope) -> Result<Option<Timestamp>, EngineError> {
        let state = match scope {
            DispatchScope::Tenant(tenant) => self.dispatch(tenant).await?.tenant,
            DispatchScope::All => self.fleet_stopped().await?,
        };
        Ok(state.and_then(|stopped| stopped.backout))
    }

    /// Stops dispatch and starts a backout, or continues the one that was started before.
    async fn begin_backout(
        self,
        scope: &DispatchScope,
        by: &Initiator,
        reason: &str,
    ) -> Result<BackoutProgress, EngineError> {
        let earlier = self.backout_started_at(scope).await?;
        let now = self.core.now();
        let request = DispatchStop { backout: Some(now), ..DispatchStop::new(by.clone(), reason, now) };
        let started_at = self.stop(scope, request).await?.backout.unwrap_or(now);
        Ok(BackoutProgress::begin(started_at, earlier != Some(started_at)))
    }

    /// How many runs a backout would cancel.
    pub async fn count_active_runs(self, scope: &DispatchScope) -> Result<u64, EngineError> {
        let mut so_far = None;
        loop {
            let (counted, rest) = self.count_part(scope, so_far).await?;
            match rest {
                Some(rest) => so_far = Some(rest),
                None => return Ok(counted),
            }
        }
    }

    /// Does a part of the count; returns the count so far and the remaining work.
    pub async fn count_part(
        self,
        scope: &DispatchScope,
        so_far: Option<CountProgress>,
    ) -> Result<(u64, Option<CountProgress>), EngineError> {
        let (mut counted, mut from) =
            so_far.map_or((0, None), |CountProgress { counted, from }| (counted, Some(from)));
        let mut limit = BatchLimit::start();
        let mut tenants = Tenants::of(scope, &mut from);
        while let Some(tenant) = tenants.next(self.core).await? {
            let mut pages = Pages::of(&tenant, self.backout_cutoff(&tenant).await?, from.as_ref());
            while let Some(runs) = pages.next(self.core).await? {
                counted += runs.len() as u64;
                limit.add(runs.len());
                if let Some(from) = pages.bookmark().filter(|_| limit.is_full()) {
                    let from = from.with_later_tenants(tenants);
                    return Ok((counted, Some(CountProgress { counted, from })));
                }
            }
        }
        Ok((counted, None))
    }

    /// Runs admitted before this time are being canceled; `None` if `tenant` is not backed out.
    async fn backout_cutoff(self, tenant: &TenantId) -> Result<Option<Timestamp>, EngineError> {
        let state = self.dispatch(tenant).await?;
        let started_at =
            [state.fleet, state.tenant].into_iter().flatten().find_map(|stopped| stopped.backout);
        Ok(started_at.map(|started_at| started_at + STOP_VISIBLE_AFTER))
    }

    /// Processes each run once, up to the size of a part; returns where it stopped.
    async fn pass(
        self,
        scope: &DispatchScope,
        request: &BackoutRequest<'_>,
        so_far: &mut BackoutProgress,
        limit: &mut BatchLimit,
        progress: &mut (impl FnMut(&Backout) + Send),
    ) -> Result<Option<ResumePosition>, EngineError> {
        let mut from = so_far.from.take();
        if from.is_none() {
            so_far.begin_pass();
        }
        let mut tenants = Tenants::of(scope, &mut from);
        while let Some(tenant) = tenants.next(self.core).await? {
            let until = (so_far.pass > 0).then_some(request.until);
            let mut pages = Pages::of(&tenant, until, from.as_ref());
            while let Some(runs) = pages.next(self.core).await? {
                let count = runs.len();
                let outcomes = runs.into_iter().map(|run| self.cancel_in_trace(run, request));
                let mut outcomes = stream::iter(outcomes).buffer_unordered(CONCURRENT_RUNS);
                while let Some(outcome) = outcomes.try_next().await? {
                    so_far.counts.count(&outcome);
                    progress(&so_far.counts);
                }
                limit.add(count);
                if let Some(from) = pages.bookmark().filter(|_| limit.is_full()) {
                    return Ok(Some(from.with_later_tenants(tenants)));
                }
            }
        }
        Ok(None)
    }

    async fn cancel_in_trace(
        self,
        run: RunRecord,
        request: &BackoutRequest<'_>,
    ) -> Result<BackoutOutcome, EngineError> {
        trace::with_context(run.trace_context(), self.cancel_run(&run.key, request)).await
    }

    async fn cancel_run(
        self,
        run: &RunKey,
        request: &BackoutRequest<'_>,
    ) -> Result<BackoutOutcome, EngineError> {
        match self.core.decide(run, request.by, &BackOut { reason: request.reason.clone() }).await {
            Ok(Some(CancelResult::Stopped(AfterStep::Ended(_)))) => Ok(BackoutOutcome::Canceled),
            Ok(None | Some(CancelResult::Stopped(AfterStep::Paused))) => Ok(BackoutOutcome::NeedsOperator),
            Ok(Some(
                CancelResult::Stopped(AfterStep::Ready)
                | CancelResult::Requested
                | CancelResult::AlreadyRequested
                | CancelResult::RollingBack,
            )) => {
                // Its message may have been deleted while dispatch was stopped.
                self.enqueue_run(run).await?;
                Ok(BackoutOutcome::Canceling)
            }
            Err(EngineError::Refused(_)) => Ok(BackoutOutcome::AlreadyEnded),
            Err(EngineError::Store(error)) => Err(error.into()),
            // One run that cannot be canceled must not stop the others.
            Err(error) => {
                tracing::error!(event = "backout_failed", %run, error = %error_chain(&error), "run not backed out");
                Ok(BackoutOutcome::Remaining)
            }
        }
    }
}
