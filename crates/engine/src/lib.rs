//! Load, decide, commit, hand on: in that order, for every verb.
//!
//! The engine knows no rules of its own. It loads what a decision needs, asks the domain, commits the
//! answer in one conditional write and carries on from what was committed. A write that was overtaken is
//! decided again from what stands there now; a write whose reply was lost is recognised by its op id.

mod accept;
mod admit;
mod advance;
mod approve;
mod backout;
mod binding;
mod commit;
mod dispatch;
mod error;
mod forecast;
mod govern;
mod health;
mod inspect;
mod journal;
pub mod metrics;
mod ops;
mod pages;
mod plans;
mod policies;
mod policy_pool;
pub mod question;
mod scheduled;
mod seal;
mod settle;
mod slot;
mod sweep;
mod tenant_handle;
mod undo;
mod verbs;
mod work;
mod worker_registry;

use std::sync::Arc;

use connectors::Toolbox;
use domain::{Approval, Initiator, Millis, RunRecord, Stamp, Timestamp, WorkerId};
use store::{Clock, Store};
use workflow::CompiledPlan;

pub use accept::{AcceptResult, InboundEvent};
pub use admit::{Place, StartRun, Started};
pub use advance::{AdvanceLimits, AdvanceResult, Hurry};
pub use approve::{Again, NotShown, Reply, Showing, Shows};
pub use backout::{Backout, BackoutSoFar, CountSoFar};
pub use dispatch::{Dispatch, HEARD_AFTER, Reach, StartSoFar};
pub use error::{EngineError, told};
pub use forecast::{Explain, Explained, Foreseen, Judged};
pub use health::{Found, Health, QueueHealth};
pub use inspect::RunView;
pub use ops::Ops;
pub use policies::{Counting, PolicyApplied};
pub use seal::Sealing;
pub use settle::{NewKey, Settle};
pub use sweep::Swept;
pub use tenant_handle::{ApprovalReply, TenantHandle};
pub use undo::{NotUndone, UndoCall, UndoEffect, UndoPlan};
pub use verbs::SignalRun;

use dispatch::Switches;
use govern::Bundles;
use plans::PlanCache;
use policy_pool::PolicyPool;

/// The clocks of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// For how long a step is held without a sign of life.
    pub lease: Millis,
    /// How often a holder gives one; a third of the lease leaves room for two that are lost.
    pub heartbeat: Millis,
    /// How long a tool may work in one go.
    pub work_max: Millis,
}

impl Default for Timing {
    fn default() -> Self {
        Self { lease: Millis::secs(30), heartbeat: Millis::secs(10), work_max: Millis::mins(10) }
    }
}

/// A run as it was last seen, with its plan.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) record: RunRecord,
    pub(crate) plan: Arc<CompiledPlan>,
    /// The request for approval that the current step waits for or carries.
    pub(crate) approval: Option<Approval>,
}

/// The runtime's verbs, on a store, with some tools, on behalf of somebody.
pub struct Engine<S> {
    store: Arc<S>,
    tools: Toolbox,
    clock: Arc<dyn Clock>,
    ops: Ops,
    me: WorkerId,
    timing: Timing,
    plans: PlanCache,
    bundles: Bundles,
    switches: Switches,
    policy_pool: PolicyPool,
    /// For what policy says about a step: its own room, so that whoever tries a policy out keeps no run waiting.
    judges: PolicyPool,
    shows: Showing,
    sealing: Option<Sealing>,
}

/// What an engine is made of.
pub struct Parts<S> {
    /// Where runs are kept.
    pub store: Arc<S>,
    /// What steps can call.
    pub tools: Toolbox,
    /// The time, as this process sees it.
    pub clock: Arc<dyn Clock>,
    /// This process; a restart is another one.
    pub me: WorkerId,
    /// The clocks of the protocol.
    pub timing: Timing,
    /// Who shows people what they are asked; nobody, where people look for themselves.
    pub shows: Showing,
    /// What evidence is signed with; whoever has nothing puts none together.
    pub sealing: Option<Sealing>,
}

impl<S: Store> Engine<S> {
    /// An engine of these parts.
    pub fn new(parts: Parts<S>) -> Self {
        let Parts { store, tools, clock, me, timing, shows, sealing } = parts;
        Self {
            store,
            tools,
            clock,
            ops: Ops::new(&me),
            me,
            timing,
            plans: PlanCache::default(),
            bundles: Bundles::default(),
            switches: Switches::default(),
            policy_pool: PolicyPool::default(),
            judges: PolicyPool::default(),
            shows,
            sealing,
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// The clocks of the protocol.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// The tools.
    pub fn tools(&self) -> &Toolbox {
        &self.tools
    }

    /// The time, as this process sees it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn stamp(&self, by: Initiator) -> Stamp {
        Stamp { op: self.ops.next(), now: self.now(), by }
    }
}
