//! The fault layer: numbers every call, and makes the planned ones fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Cause, Draft, Initiator, Millis, OpId, RunKey, Stamp};
use serde::Serialize;
use store::{Clock, Intercept, Ledger as _, Site, SqliteStore, StoreError};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// What can happen to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The caller dies before the call is sent.
    CrashBefore,
    /// The call is carried out, and the caller dies before the answer reaches it.
    CrashAfter,
    /// The call is carried out, and the answer is lost.
    ReplyLost,
    /// The call is turned away for now.
    Throttled,
    /// Somebody else writes first.
    Conflict,
    /// The caller stands still for two lease lengths, then goes on as if nothing had happened.
    Frozen,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::CrashBefore, Self::CrashAfter, Self::ReplyLost, Self::Throttled, Self::Conflict, Self::Frozen];
    /// Those that are tried in pairs.
    pub const PAIRED: [Self; 5] =
        [Self::CrashBefore, Self::CrashAfter, Self::ReplyLost, Self::Throttled, Self::Conflict];
}

/// A fault at a numbered call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Point {
    /// Which call, from 0.
    pub call: u32,
    /// What happens to it.
    pub kind: Kind,
}

/// The numbering, shared by everybody in one simulation.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: u32,
    planned: Vec<Point>,
    reached: u32,
    trace: Vec<String>,
    rivals: u32,
}

impl Faults {
    pub(crate) fn new(planned: Vec<Point>) -> Self {
        Self { state: Mutex::new(State { planned, ..State::default() }) }
    }

    /// Gives the call its number, and says what happens to it.
    fn number(&self, node: &str, name: &str) -> Option<Kind> {
        let mut state = self.lock();
        let call = state.calls;
        state.calls += 1;
        let kind = state.planned.iter().find(|point| point.call == call).map(|point| point.kind);
        state.reached += u32::from(kind.is_some());
        let fault = kind.map(|kind| format!(" !! {kind:?}")).unwrap_or_default();
        state.trace.push(format!("{call:>3} {node} {name}{fault}"));
        kind
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls there were.
    pub(crate) fn calls(&self) -> u32 {
        self.lock().calls
    }

    /// How many of the planned points were reached.
    pub(crate) fn reached(&self) -> u32 {
        self.lock().reached
    }

    /// Every call, in order.
    pub(crate) fn trace(&self) -> Vec<String> {
        self.lock().trace.clone()
    }

    fn rival(&self) -> u32 {
        let mut state = self.lock();
        state.rivals += 1;
        state.rivals
    }
}

/// A process of the simulation: it can die and freeze, and all its calls pass here.
#[derive(Clone)]
pub(crate) struct Node {
    name: Arc<str>,
    faults: Arc<Faults>,
    life: Arc<Life>,
    /// The store without faults, for whoever writes first.
    rival: SqliteStore,
    clock: Arc<dyn Clock>,
    freeze: Millis,
}

#[derive(Debug, Default)]
struct Life {
    died: Notify,
    dead: Mutex<bool>,
    frozen_until: Mutex<Option<Instant>>,
}

/// What a node is made of.
pub(crate) struct NodeParts {
    pub(crate) name: String,
    pub(crate) faults: Arc<Faults>,
    pub(crate) rival: SqliteStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) freeze: Millis,
}

/// A call under way.
pub(crate) struct Pass(Option<Kind>);

/// A call that was turned away.
pub(crate) enum Turned {
    /// Nothing was done.
    Away,
    /// It was done, and the answer is lost.
    ReplyLost,
}

impl Node {
    pub(crate) fn new(parts: NodeParts) -> Self {
        let NodeParts { name, faults, rival, clock, freeze } = parts;
        Self { name: name.into(), faults, life: Arc::default(), rival, clock, freeze }
    }

    /// Returns when the node has died.
    pub(crate) async fn died(&self) {
        loop {
            let notice = self.life.died.notified();
            if *self.life.dead.lock().unwrap_or_else(PoisonError::into_inner) {
                return;
            }
            notice.await;
        }
    }

    /// The node is gone: nothing it was doing goes on.
    async fn die(&self) -> std::convert::Infallible {
        *self.life.dead.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.life.died.notify_waiters();
        std::future::pending().await
    }

    /// Nothing passes in or out while the node is frozen, or once it is dead. From the outside that is
    /// what standing still is.
    async fn awake(&self) {
        if *self.life.dead.lock().unwrap_or_else(PoisonError::into_inner) {
            std::future::pending::<()>().await;
        }
        loop {
            let until = *self.life.frozen_until.lock().unwrap_or_else(PoisonError::into_inner);
            match until {
                Some(until) if until > Instant::now() => sleep_until(until).await,
                Some(_) | None => return,
            }
        }
    }

    pub(crate) async fn enter(&self, name: &str, changes: Option<&RunKey>) -> Result<Pass, Turned> {
        self.awake().await;
        let kind = self.faults.number(&self.name, name);
        match kind {
            Some(Kind::CrashBefore) => match self.die().await {},
            Some(Kind::Throttled) => Err(Turned::Away),
            Some(Kind::Conflict) => match changes {
                Some(run) => {
                    self.write_first(run).await;
                    Ok(Pass(kind))
                }
                None => Err(Turned::Away),
            },
            Some(Kind::Frozen) => {
                *self.life.frozen_until.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Instant::now() + self.freeze.std());
                self.awake().await;
                Ok(Pass(kind))
            }
            Some(Kind::CrashAfter | Kind::ReplyLost) | None => Ok(Pass(kind)),
        }
    }

    pub(crate) async fn leave(&self, pass: Pass) -> Result<(), Turned> {
        self.awake().await;
        match pass.0 {
            Some(Kind::CrashAfter) => match self.die().await {},
            Some(Kind::ReplyLost) => Err(Turned::ReplyLost),
            Some(Kind::CrashBefore | Kind::Throttled | Kind::Conflict | Kind::Frozen) | None => Ok(()),
        }
    }

    /// Somebody else writes to the run, so that the caller's condition fails.
    async fn write_first(&self, run: &RunKey) {
        let Ok(Some(record)) = self.rival.load(run).await else { return };
        let Ok(Some(plan)) = self.rival.plan(&run.tenant, &record.plan).await else { return };
        let Ok(op) = OpId::new(&format!("rival.{}", self.faults.rival())) else { return };
        let by = Initiator::new(Cause::System, "rival");
        // A decision that changes nothing but the version; whatever comes of it, it was somebody else's.
        let decision = Draft::new(record, &plan, Stamp { op, now: self.clock.now(), by }).close();
        let _ = self.rival.commit(decision).await;
    }
}

impl Intercept for Node {
    type Pass = Pass;

    async fn before(&self, site: &Site) -> Result<Pass, StoreError> {
        self.enter(site.name, site.changes.as_ref().map(|change| &change.run))
            .await
            .map_err(|turned| turned.explain(site.name))
    }

    async fn after(&self, pass: Pass) -> Result<(), StoreError> {
        self.leave(pass).await.map_err(|turned| turned.explain("simulated call"))
    }
}

impl Turned {
    fn explain(&self, doing: &'static str) -> StoreError {
        match self {
            Self::Away => StoreError::Busy { doing },
            Self::ReplyLost => StoreError::Unknown { doing },
        }
    }
}
