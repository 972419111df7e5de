//! The core: what every part of the engine shares.
//!
//! `commit` loads runs and commits decisions. `plans`, `bundles` and `payloads` read and store what runs refer to.
//! `dispatch` is the switch that a driver checks. `audit` writes administrative changes. `policy_pool` bounds policy evaluations. `journal` logs and counts.

pub(crate) mod approval_connections;
pub(crate) mod audit;
pub(crate) mod bundles;
mod cache;
pub(crate) mod commit;
pub(crate) mod connections;
pub(crate) mod dispatch;
pub(crate) mod journal;
pub(crate) mod notifier;
mod operation_ids;
mod payloads;
mod plans;
pub(crate) mod policy_pool;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use connectors::ToolRegistry;
use domain::{Approval, DecisionContext, Initiator, Millis, RunRecord, Timestamp, WorkerId};
use evidence::SigningKey;
use store::Clock;
use workflow::CompiledPlan;

use bundles::BundleCache;
use connections::ConnectionParts;
use dispatch::DispatchCache;
use notifier::Notifier;
use plans::PlanCache;
use policy_pool::PolicyPool;

pub use operation_ids::OperationIds;

/// The timing of leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease lasts without a renewal.
    pub lease: Millis,
    /// How often a lease is renewed. A third of the lease leaves two renewals before it expires.
    pub renew_every: Millis,
    /// How long one tool call may take.
    pub work_max: Millis,
}

impl Default for Timing {
    fn default() -> Self {
        Self { lease: Millis::secs(30), renew_every: Millis::secs(10), work_max: Millis::mins(10) }
    }
}

/// What evidence is signed with, and the name of the log.
#[derive(Clone)]
pub struct EvidenceSigner {
    pub key: Arc<SigningKey>,
    /// The name of the transparency log.
    pub origin: String,
}

/// What an engine is made of.
pub struct EngineParts<S> {
    pub store: Arc<S>,
    pub tools: ToolRegistry,
    pub connections: ConnectionParts,
    pub clock: Arc<dyn Clock>,
    /// The name of this process. A restarted process has another one.
    pub me: WorkerId,
    pub timing: Timing,
    /// Posts approval requests to people; `None` where people look them up themselves.
    pub notifier: Notifier,
    /// Signs evidence; `None` in a process that builds none.
    pub evidence_signer: Option<EvidenceSigner>,
}

/// A run and its plan, as last read.
#[derive(Clone)]
pub(crate) struct LoadedRun {
    pub(crate) record: RunRecord,
    pub(crate) plan: Arc<CompiledPlan>,
    /// The approval request that the current step waits for or was approved by.
    pub(crate) approval: Option<Approval>,
}

/// How a job on a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvanceResult {
    /// Nothing is left to do now; the message can be deleted.
    Done,
    /// Nothing can be done before this time; the message should return then.
    NotBefore(Timestamp),
}

/// The store, the tools, and the state of this process.
pub(crate) struct Core<S> {
    pub(crate) store: Arc<S>,
    pub(crate) tools: ToolRegistry,
    pub(crate) connections: ConnectionParts,
    clock: Arc<dyn Clock>,
    operation_ids: OperationIds,
    pub(crate) me: WorkerId,
    pub(crate) timing: Timing,
    plans: PlanCache,
    bundles: BundleCache,
    pub(crate) dispatch_cache: DispatchCache,
    pub(crate) policy_pool: PolicyPool,
    pub(crate) verdicts: Arc<policy::VerdictCache>,
    /// For policy verdicts on steps. Separate, so that trying a policy out delays no run.
    pub(crate) verdict_pool: PolicyPool,
    pub(crate) notifier: Notifier,
    pub(crate) evidence_signer: Option<EvidenceSigner>,
    /// The time of the newest audit entry of this process.
    newest_audit: AtomicI64,
}

impl<S> Core<S> {
    pub(crate) fn new(parts: EngineParts<S>) -> Self {
        let EngineParts { store, tools, connections, clock, me, timing, notifier, evidence_signer } = parts;
        Self {
            store,
            newest_audit: AtomicI64::new(0),
            tools,
            connections,
            clock,
            operation_ids: OperationIds::new(&me),
            me,
            timing,
            plans: PlanCache::default(),
            bundles: BundleCache::default(),
            dispatch_cache: DispatchCache::default(),
            policy_pool: PolicyPool::default(),
            verdicts: Arc::default(),
            verdict_pool: PolicyPool::default(),
            notifier,
            evidence_signer,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn context(&self, by: Initiator) -> DecisionContext {
        DecisionContext { op: self.operation_ids.next(), now: self.now(), by }
    }
}

/// Defines a part of the engine: a reference to the core that its methods are on.
macro_rules! service {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<'e, S> {
            core: &'e $crate::core::Core<S>,
        }

        impl<'e, S> $name<'e, S> {
            pub(crate) fn new(core: &'e $crate::core::Core<S>) -> Self {
                Self { core }
            }
        }

        // By hand, because a derive would require the store to be `Copy`.
        impl<S> Clone for $name<'_, S> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<S> Copy for $name<'_, S> {}
    };
}
pub(crate) use service;
