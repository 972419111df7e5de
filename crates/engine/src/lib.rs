//! The engine: load, decide, commit, act, in that order, for every operation.
//!
//! The engine contains no rules of its own. It loads what a decision needs, asks the domain, commits the decision in
//! one conditional write, and continues from the committed state. If another process wrote in between, the decision
//! is made again from the new state. A write whose reply was lost is recognised by its operation id.
//!
//! `admission` turns events into runs, `execution` advances runs, `governance` evaluates policy and records
//! approvals, `operations` is what operators do. They share `commit`, `plans` and `journal`.

mod admission;
mod commit;
mod error;
mod execution;
mod governance;
mod journal;
pub mod metrics;
mod operations;
mod ops;
mod plans;
mod tenant_handle;

use std::sync::Arc;

use connectors::ToolRegistry;
use domain::{Approval, Initiator, Millis, RunRecord, Stamp, Timestamp, WorkerId};
use store::{Clock, Store};
use workflow::CompiledPlan;

pub use admission::{AcceptResult, InboundEvent, StartOutcome, StartResult, StartRun};
pub use error::{EngineError, error_chain};
pub use execution::{AdvanceLimits, AdvanceResult, Shutdown, SweepResult};
pub use governance::policy_input;
pub use governance::{
    Again, ApprovalNotifier, DryRun, DryRunRequest, EvaluatedAction, Notifier, NotifyFailure, PolicyApplied,
    StepForecast, TenantPolicy, VoteRequest,
};
pub use operations::{
    Backout, BackoutProgress, CountProgress, DispatchScope, DispatchState, EvidenceSigner, FleetHealth,
    NewApiKey, NotUndoable, QueueHealth, RunView, STOP_VISIBLE_AFTER, SignalRun, StartProgress,
    TenantEntries, TenantUpdate, UndoCall, UndoEffect, UndoPlan,
};
pub use ops::Ops;
pub use tenant_handle::{TenantHandle, VoteInput};

use governance::evaluate::Bundles;
use governance::policy_pool::PolicyPool;
use operations::dispatch::Switches;
use plans::PlanCache;

/// The timing of leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease lasts without a renewal.
    pub lease: Millis,
    /// How often a lease is renewed. A third of the lease leaves two renewals before it expires.
    pub heartbeat: Millis,
    /// How long one tool call may take.
    pub work_max: Millis,
}

impl Default for Timing {
    fn default() -> Self {
        Self { lease: Millis::secs(30), heartbeat: Millis::secs(10), work_max: Millis::mins(10) }
    }
}

/// A run and its plan, as last read.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) record: RunRecord,
    pub(crate) plan: Arc<CompiledPlan>,
    /// The approval request that the current step waits for or was approved by.
    pub(crate) approval: Option<Approval>,
}

/// The operations of the runtime, over one store, with one set of tools.
pub struct Engine<S> {
    store: Arc<S>,
    tools: ToolRegistry,
    clock: Arc<dyn Clock>,
    ops: Ops,
    me: WorkerId,
    timing: Timing,
    plans: PlanCache,
    bundles: Bundles,
    switches: Switches,
    policy_pool: PolicyPool,
    /// For policy verdicts on steps. Separate, so that trying a policy out delays no run.
    verdict_pool: PolicyPool,
    notifier: Notifier,
    evidence_signer: Option<EvidenceSigner>,
}

/// What an engine is made of.
pub struct EngineParts<S> {
    pub store: Arc<S>,
    pub tools: ToolRegistry,
    pub clock: Arc<dyn Clock>,
    /// The name of this process. A restarted process has another one.
    pub me: WorkerId,
    pub timing: Timing,
    /// Posts approval requests to people; `None` where people look them up themselves.
    pub notifier: Notifier,
    /// Signs evidence; `None` in a process that builds none.
    pub evidence_signer: Option<EvidenceSigner>,
}

impl<S: Store> Engine<S> {
    pub fn new(parts: EngineParts<S>) -> Self {
        let EngineParts { store, tools, clock, me, timing, notifier, evidence_signer } = parts;
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
            verdict_pool: PolicyPool::default(),
            notifier,
            evidence_signer,
        }
    }

    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    pub fn tools(&self) -> &ToolRegistry {
        &self.tools
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn stamp(&self, by: Initiator) -> Stamp {
        Stamp { op: self.ops.next(), now: self.now(), by }
    }
}
