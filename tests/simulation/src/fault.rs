//! The fault layer: numbers every call and injects the planned faults.

use std::sync::Arc;

use domain::{Cause, DecisionContext, Draft, Initiator, Millis, OpId, RunKey};
use parking_lot::Mutex;
use serde::Serialize;
use store::{Clock, Intercept, Ledger as _, SqliteStore, StoreCall, StoreError};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The fault injected at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The caller crashes before it sends the call.
    CrashBefore,
    /// The call is carried out, and the caller crashes before it receives the reply.
    CrashAfter,
    /// The call is carried out, and the reply is lost.
    ReplyLost,
    /// The call is rejected temporarily.
    Throttled,
    /// Another writer writes first.
    Conflict,
    /// The caller freezes for two lease lengths, then continues.
    Frozen,
}

impl FaultKind {
    pub const ALL: [Self; 6] =
        [Self::CrashBefore, Self::CrashAfter, Self::ReplyLost, Self::Throttled, Self::Conflict, Self::Frozen];
    /// The kinds that are combined in pairs.
    pub const PAIRED: [Self; 5] =
        [Self::CrashBefore, Self::CrashAfter, Self::ReplyLost, Self::Throttled, Self::Conflict];
}

/// A fault at a numbered call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FaultPoint {
    /// The number of the call, from 0.
    pub call: u32,
    pub kind: FaultKind,
}

/// The call counter and the planned faults, shared by all nodes of one simulation.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: u32,
    planned: Vec<FaultPoint>,
    reached: u32,
    trace: Vec<String>,
    rivals: u32,
}

impl Faults {
    pub(crate) fn new(planned: Vec<FaultPoint>) -> Self {
        Self { state: Mutex::new(State { planned, ..State::default() }) }
    }

    /// Numbers the call and returns its planned fault.
    fn record_call(&self, node: &str, name: &str) -> Option<FaultKind> {
        let mut state = self.state.lock();
        let call = state.calls;
        state.calls += 1;
        let kind = state.planned.iter().find(|point| point.call == call).map(|point| point.kind);
        state.reached += u32::from(kind.is_some());
        let fault = kind.map(|kind| format!(" !! {kind:?}")).unwrap_or_default();
        state.trace.push(format!("{call:>3} {node} {name}{fault}"));
        kind
    }

    pub(crate) fn calls(&self) -> u32 {
        self.state.lock().calls
    }

    /// The number of planned faults that were injected.
    pub(crate) fn reached(&self) -> u32 {
        self.state.lock().reached
    }

    /// Every call, in order.
    pub(crate) fn trace(&self) -> Vec<String> {
        self.state.lock().trace.clone()
    }

    fn next_rival(&self) -> u32 {
        let mut state = self.state.lock();
        state.rivals += 1;
        state.rivals
    }
}

/// A process of the simulation. It can crash and freeze, and all its calls pass here.
#[derive(Clone)]
pub(crate) struct Node {
    name: Arc<str>,
    faults: Arc<Faults>,
    state: Arc<NodeState>,
    /// The store without faults, for the rival writer of `Conflict`.
    rival: SqliteStore,
    clock: Arc<dyn Clock>,
    freeze: Millis,
}

#[derive(Debug, Default)]
struct NodeState {
    crash_notify: Notify,
    crashed: Mutex<bool>,
    frozen_until: Mutex<Option<Instant>>,
}

pub(crate) struct NodeConfig {
    pub(crate) name: String,
    pub(crate) faults: Arc<Faults>,
    pub(crate) rival: SqliteStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) freeze: Millis,
}

/// A call in progress.
pub(crate) struct PendingCall(Option<FaultKind>);

pub(crate) enum CallFailed {
    /// The call was not carried out.
    Rejected,
    /// The call was carried out; the reply is lost.
    ReplyLost,
}

impl Node {
    pub(crate) fn new(parts: NodeConfig) -> Self {
        let NodeConfig { name, faults, rival, clock, freeze } = parts;
        Self { name: name.into(), faults, state: Arc::default(), rival, clock, freeze }
    }

    /// Returns when the node has crashed.
    pub(crate) async fn wait_for_crash(&self) {
        loop {
            let notified = self.state.crash_notify.notified();
            if *self.state.crashed.lock() {
                return;
            }
            notified.await;
        }
    }

    /// Crashes the node. The future never resolves, so the caller stops here.
    async fn crash(&self) -> std::convert::Infallible {
        *self.state.crashed.lock() = true;
        self.state.crash_notify.notify_waiters();
        std::future::pending().await
    }

    /// Blocks calls and replies while the node is frozen, and for ever after a crash.
    async fn wait_while_frozen(&self) {
        if *self.state.crashed.lock() {
            std::future::pending::<()>().await;
        }
        loop {
            let until = *self.state.frozen_until.lock();
            match until {
                Some(until) if until > Instant::now() => sleep_until(until).await,
                Some(_) | None => return,
            }
        }
    }

    pub(crate) async fn begin_call(
        &self,
        name: &str,
        changes: Option<&RunKey>,
    ) -> Result<PendingCall, CallFailed> {
        self.wait_while_frozen().await;
        let kind = self.faults.record_call(&self.name, name);
        match kind {
            Some(FaultKind::CrashBefore) => match self.crash().await {},
            Some(FaultKind::Throttled) => Err(CallFailed::Rejected),
            Some(FaultKind::Conflict) => match changes {
                Some(run) => {
                    self.write_as_rival(run).await;
                    Ok(PendingCall(kind))
                }
                None => Err(CallFailed::Rejected),
            },
            Some(FaultKind::Frozen) => {
                *self.state.frozen_until.lock() = Some(Instant::now() + self.freeze.std());
                self.wait_while_frozen().await;
                Ok(PendingCall(kind))
            }
            Some(FaultKind::CrashAfter | FaultKind::ReplyLost) | None => Ok(PendingCall(kind)),
        }
    }

    pub(crate) async fn end_call(&self, call: PendingCall) -> Result<(), CallFailed> {
        self.wait_while_frozen().await;
        match call.0 {
            Some(FaultKind::CrashAfter) => match self.crash().await {},
            Some(FaultKind::ReplyLost) => Err(CallFailed::ReplyLost),
            Some(FaultKind::CrashBefore | FaultKind::Throttled | FaultKind::Conflict | FaultKind::Frozen)
            | None => Ok(()),
        }
    }

    /// A rival writes to the run, so that the caller's condition fails.
    async fn write_as_rival(&self, run: &RunKey) {
        let Ok(Some(record)) = self.rival.load(run).await else { return };
        let Ok(Some(plan)) = self.rival.plan(&run.tenant, &record.plan).await else { return };
        let Ok(op) = OpId::new(&format!("rival.{}", self.faults.next_rival())) else { return };
        let by = Initiator::new(Cause::System, "rival");
        // A decision that changes only the version. Its result does not matter.
        let decision = Draft::new(record, &plan, DecisionContext { op, now: self.clock.now(), by }).close();
        let _ = self.rival.commit(decision).await;
    }
}

impl Intercept for Node {
    type State = PendingCall;

    async fn before(&self, call: &StoreCall) -> Result<PendingCall, StoreError> {
        self.begin_call(call.name, call.changes.as_ref().map(|change| &change.run))
            .await
            .map_err(|failed| failed.to_store_error(call.name))
    }

    async fn after(&self, call: PendingCall) -> Result<(), StoreError> {
        self.end_call(call).await.map_err(|failed| failed.to_store_error("simulated call"))
    }
}

impl CallFailed {
    fn to_store_error(&self, doing: &'static str) -> StoreError {
        match self {
            Self::Rejected => StoreError::Busy { doing },
            Self::ReplyLost => StoreError::Unknown { doing },
        }
    }
}
