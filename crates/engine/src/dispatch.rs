//! Dispatch: the switch that stops it.
//!
//! Whoever walks asks the switch before anything is begun: a step claimed, a question asked, a wait opened. What it
//! said is remembered for a moment, so that a step does not pay for a read; a stop is heard everywhere after that
//! moment. A walk that finds it stopped lets its message go: every run that can move stands in the due index, and
//! whoever starts dispatch again announces those that wait.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use domain::{
    Fleet, Initiator, Job, Live, Millis, Outgoing, QueueName, RunKey, RunRecord, RunStatus, Stopped, Tenant,
    TenantId,
};
use serde::{Deserialize, Serialize};
use store::{Store, StoreError, Write, trace};
use tokio::time::Instant;

use crate::Engine;
use crate::commit::ROUNDS_MAX;
use crate::error::EngineError;
use crate::pages::{Bookmark, Pages, Piece};

/// Every process has heard of a stop after this long: a second that an answer of the switch is believed, and one that a
/// store may take to tell of it everywhere.
pub const HEARD_AFTER: Millis = Millis::secs(2);

/// How long an answer of the switch is believed.
const BELIEVED_FOR: Millis = Millis::secs(1);

/// A worker serves a few tenants; beyond this many, the switch is asked anew.
const REMEMBERED_MAX: usize = 1_024;

/// Whom the switch is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// One tenant.
    Tenant(TenantId),
    /// All of them.
    All,
}

/// How far a start is, for whoever goes on with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartSoFar {
    announced: u64,
    from: Bookmark,
}

/// How the switch stands for a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dispatch {
    /// Set while nothing is begun for anybody.
    pub fleet: Option<Stopped>,
    /// Set while nothing is begun for this tenant.
    pub tenant: Option<Stopped>,
}

impl Dispatch {
    fn of(fleet: Option<Fleet>, settled: Option<Tenant>) -> Self {
        Self {
            fleet: fleet.and_then(|fleet| fleet.stopped),
            tenant: settled.and_then(|settled| settled.stopped),
        }
    }

    /// Whether it is stopped, for all or for the tenant alone.
    pub fn is_stopped(&self) -> bool {
        self.fleet.is_some() || self.tenant.is_some()
    }

    /// What keeps anything from being begun for `run`, and whether it does so for all; nothing, if it may be. Each of the
    /// two can forbid it.
    pub fn forbids(&self, run: &RunRecord) -> Option<(bool, &Stopped)> {
        let fleet = self.fleet.iter().map(|stopped| (true, stopped));
        let tenant = self.tenant.iter().map(|stopped| (false, stopped));
        fleet.chain(tenant).find(|(_, stopped)| !stopped.lets(run))
    }
}

/// For whom the switch was found on, and when it was asked. That it is off is never remembered: whoever starts dispatch
/// announces the runs that wait, and they must not be turned away by what was so before.
#[derive(Default)]
pub(crate) struct Switches {
    on: Mutex<BTreeMap<TenantId, Instant>>,
}

impl Switches {
    fn is_on(&self, tenant: &TenantId) -> bool {
        let on = self.on.lock().unwrap_or_else(PoisonError::into_inner);
        on.get(tenant).is_some_and(|asked| asked.elapsed() < BELIEVED_FOR.std())
    }

    fn found_on(&self, tenant: &TenantId, asked: Instant) {
        let mut on = self.on.lock().unwrap_or_else(PoisonError::into_inner);
        if on.len() >= REMEMBERED_MAX {
            on.clear();
        }
        on.insert(tenant.clone(), asked);
    }

    fn forget(&self) {
        self.on.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl<S: Store> Engine<S> {
    /// How the switch stands for `tenant`.
    pub async fn dispatch(&self, tenant: &TenantId) -> Result<Dispatch, EngineError> {
        let (fleet, settled) = tokio::try_join!(
            biased;
            self.retry_busy(|| self.store.fleet()),
            self.retry_busy(|| self.store.tenant(tenant)),
        )?;
        Ok(Dispatch::of(fleet, settled))
    }

    /// How the switch stood for `tenant` a moment ago.
    async fn eventual(&self, tenant: &TenantId) -> Result<Dispatch, EngineError> {
        let (fleet, settled) = self.retry_busy(|| self.store.eventual(tenant)).await?;
        Ok(Dispatch::of(fleet, settled))
    }

    /// How the switch for all stands.
    pub async fn fleet_stopped(&self) -> Result<Option<Stopped>, EngineError> {
        Ok(self.retry_busy(|| self.store.fleet()).await?.and_then(|fleet| fleet.stopped))
    }

    /// Whether something may be begun for `run`, as of a moment ago.
    pub(crate) async fn may_begin(&self, run: &RunRecord) -> Result<bool, EngineError> {
        let tenant = &run.key.tenant;
        if self.switches.is_on(tenant) {
            return Ok(true);
        }
        let asked = Instant::now();
        if !self.eventual(tenant).await?.is_stopped() {
            self.switches.found_on(tenant, asked);
            return Ok(true);
        }
        // It may have been started since, and whoever starts it announces a run only once.
        Ok(self.dispatch(tenant).await?.forbids(run).is_none())
    }

    /// Stops dispatch; says how it stands now. Every process has heard of it [`HEARD_AFTER`] this returns, and steps
    /// under way finish. If it was stopped before, whoever stopped it is remembered.
    pub async fn stop_dispatch(
        &self,
        reach: &Reach,
        by: &Initiator,
        reason: &str,
    ) -> Result<Stopped, EngineError> {
        let wish = Stopped::new(by.clone(), reason, self.now());
        self.stop(reach, wish).await
    }

    pub(crate) async fn stop(&self, reach: &Reach, wish: Stopped) -> Result<Stopped, EngineError> {
        let both = |before: Stopped| Stopped { backout: before.backout.or(wish.backout), ..before };
        let to = |stands: Option<Stopped>| Some(stands.map_or_else(|| wish.clone(), both));
        let stands = self.turn(reach, to).await?;
        tracing::warn!(?reach, by = wish.by.id, reason = wish.reason, "dispatch is stopped");
        Ok(stands.unwrap_or(wish))
    }

    /// Starts dispatch again and has every run walked that can go on; says how many those are. Whoever is not reached
    /// because this is cut short is woken by the sweep.
    pub async fn start_dispatch(&self, reach: &Reach, by: &Initiator) -> Result<u64, EngineError> {
        let mut so_far = None;
        loop {
            let (announced, rest) = self.start_some(reach, by, so_far).await?;
            match rest {
                Some(rest) => so_far = Some(rest),
                None => return Ok(announced),
            }
        }
    }

    /// A piece of that, behind what was done `so_far`; says how many runs that makes and what is left to be done.
    pub async fn start_some(
        &self,
        reach: &Reach,
        by: &Initiator,
        so_far: Option<StartSoFar>,
    ) -> Result<(u64, Option<StartSoFar>), EngineError> {
        if so_far.is_none() {
            self.turn(reach, |_| None).await?;
            tracing::warn!(?reach, by = by.id, "dispatch is started");
        }
        let (mut announced, from) =
            so_far.map_or((0, None), |StartSoFar { announced, from }| (announced, Some(from)));
        let mut piece = Piece::begin();
        for tenant in Bookmark::rest(from.as_ref(), self.reached(reach).await?) {
            let mut pages = Pages::of(&tenant, None, from.as_ref());
            while let Some(runs) = pages.next(self).await? {
                announced += self.announce(&runs).await?;
                piece.took(runs.len());
                if let Some(from) = pages.bookmark().filter(|_| piece.is_full()) {
                    return Ok((announced, Some(StartSoFar { announced, from: from.clone() })));
                }
            }
        }
        Ok((announced, None))
    }

    /// Turns the switch from whatever it is to `to` of that, and says what it is then.
    async fn turn(
        &self,
        reach: &Reach,
        to: impl Fn(Option<Stopped>) -> Option<Stopped>,
    ) -> Result<Option<Stopped>, EngineError> {
        for _ in 0..ROUNDS_MAX {
            let (stands, written) = match reach {
                Reach::Tenant(tenant) => self.turn_for(tenant, &to).await?,
                Reach::All => self.turn_for_all(&to).await?,
            };
            if written == Write::Committed {
                // Whoever turns it hears it at once.
                self.switches.forget();
                return Ok(stands);
            }
        }
        Err(StoreError::Busy { doing: "turn the switch" }.into())
    }

    async fn turn_for(
        &self,
        id: &TenantId,
        to: &impl Fn(Option<Stopped>) -> Option<Stopped>,
    ) -> Result<(Option<Stopped>, Write), EngineError> {
        let before = self.retry_busy(|| self.store.tenant(id)).await?;
        let revision = before.as_ref().map_or(0, |before| before.revision.saturating_add(1));
        let before = before.unwrap_or_else(|| Tenant::new(id.clone()));
        let stopped = to(before.stopped.clone());
        if stopped == before.stopped {
            return Ok((stopped, Write::Committed));
        }
        let after = Tenant { stopped: stopped.clone(), revision, ..before };
        Ok((stopped, self.retry_busy(|| self.store.put_tenant(after.clone())).await?))
    }

    async fn turn_for_all(
        &self,
        to: &impl Fn(Option<Stopped>) -> Option<Stopped>,
    ) -> Result<(Option<Stopped>, Write), EngineError> {
        let before = self.retry_busy(|| self.store.fleet()).await?;
        let revision = before.as_ref().map_or(0, |before| before.revision.saturating_add(1));
        let stood = before.and_then(|before| before.stopped);
        let stopped = to(stood.clone());
        if stopped == stood {
            return Ok((stopped, Write::Committed));
        }
        let after = Fleet { stopped: stopped.clone(), revision };
        Ok((stopped, self.retry_busy(|| self.store.put_fleet(after.clone())).await?))
    }

    /// Has those among `runs` walked that can go on; says how many those are.
    async fn announce(&self, runs: &[RunRecord]) -> Result<u64, EngineError> {
        let mut announced = 0;
        for run in runs.iter().filter(|run| can_be_taken_up(run)) {
            trace::within(run.story(), self.announce_one(&run.key)).await?;
            announced += 1;
        }
        Ok(announced)
    }

    pub(crate) async fn announce_one(&self, run: &RunKey) -> Result<(), EngineError> {
        let run = run.clone();
        let message = Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) };
        Ok(self.retry_busy(|| self.store.send(&message)).await?)
    }

    /// The tenants that the switch is about and that have runs which are not over, in order.
    pub(crate) async fn reached(&self, reach: &Reach) -> Result<Vec<TenantId>, EngineError> {
        match reach {
            Reach::Tenant(tenant) => Ok(vec![tenant.clone()]),
            Reach::All => Ok(self.retry_busy(|| self.store.tenants()).await?),
        }
    }
}

/// Whether a walk would find something to do, now or when a lease runs out.
fn can_be_taken_up(run: &RunRecord) -> bool {
    let moves = match &run.live {
        Live::Ready { .. } | Live::Running(_) | Live::Retrying { .. } => true,
        Live::Unresolved { .. }
        | Live::WaitingEvent { .. }
        | Live::WaitingApproval { .. }
        | Live::Over { .. } => false,
    };
    moves && run.status != RunStatus::Paused
}
