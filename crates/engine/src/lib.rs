//! The engine: load, decide, commit, act, in that order, for every operation.
//!
//! The engine contains no rules of its own. It loads what a decision needs, asks the domain, commits the decision in
//! one conditional write, and continues from the committed state. If another process wrote in between, the decision
//! is made again from the new state. A write whose reply was lost is recognized by its operation id.
//!
//! The engine has four parts over one core. [`Engine`] itself only opens them:
//!
//! | part | what it does | uses |
//! |---|---|---|
//! | [`operations`](Engine::operations) | inspect, cancel, undo, dispatch, backout, sweep, evidence | execution, admission |
//! | [`execution`](Engine::execution) | advances runs under leases | governance |
//! | [`governance`](Engine::governance) | verdicts, approvals, settings and API keys of tenants | |
//! | [`admission`](Engine::admission) | turns events and requests into runs | |
//! | `core` | store, tools, clock; commit, plans, policies, payloads, journal | |
//!
//! Every part uses `core`; a test in `tests/architecture` fails if a part uses one that is not in its row. The
//! operations of one user of one tenant are on [`TenantHandle`], each in the part that it belongs to.

mod admission;
mod core;
mod error;
mod execution;
mod governance;
pub mod metrics;
mod operations;
mod tenant_handle;

use std::sync::Arc;

use connectors::ToolRegistry;
use domain::{Initiator, TenantId, Timestamp};
use store::Store;

pub use admission::{
    AcceptResult, AdmissionService, InboundEvent, StartApplied, StartOutcome, StartResult, StartRun,
};
pub use core::approval_connections::DeliveryConnection;
pub use core::audit::AuditQuery;
pub use core::bundles::TenantBundle;
pub use core::connections::{ConnectionParts, CredentialFailure, ResolvedConnection};
pub use core::dispatch::DispatchState;
pub use core::notifier::{ApprovalNotifier, Notifier, NotifyContext, NotifyFailure, RetryHint};
pub use core::{AdvanceResult, EngineParts, EvidenceSigner, OperationIds, Timing};
pub use error::{EngineError, error_chain};
pub use execution::{AdvanceLimits, ExecutionService, Shutdown};
pub use governance::policy_input;
pub use governance::{
    ConnectionUpdate, DryRun, DryRunRequest, EvaluatedAction, GovernanceService, NewApiKey, PolicyApplied,
    StepForecast, TenantPolicy, TenantUpdate, VoteInput, VoteRequest,
};
pub use operations::{
    Backout, BackoutProgress, CountProgress, DispatchScope, FleetHealth, NotUndoable, OperationsService,
    QueueHealth, RunView, STOP_VISIBLE_AFTER, SignalRun, StartProgress, SweepResult, TenantEntries, UndoCall,
    UndoEffect, UndoPlan,
};
pub use tenant_handle::TenantHandle;

use core::Core;

/// The operations of the runtime, over one store, with one set of tools.
pub struct Engine<S> {
    core: Arc<Core<S>>,
}

impl<S: Store> Engine<S> {
    pub fn new(parts: EngineParts<S>) -> Self {
        Self { core: Arc::new(Core::new(parts)) }
    }

    pub fn store(&self) -> &Arc<S> {
        &self.core.store
    }

    pub fn timing(&self) -> &Timing {
        &self.core.timing
    }

    pub fn tools(&self) -> &ToolRegistry {
        &self.core.tools
    }

    pub fn now(&self) -> Timestamp {
        self.core.now()
    }

    pub fn admission(&self) -> AdmissionService<'_, S> {
        AdmissionService::new(&self.core)
    }

    pub fn execution(&self) -> ExecutionService<'_, S> {
        ExecutionService::new(&self.core)
    }

    pub fn governance(&self) -> GovernanceService<'_, S> {
        GovernanceService::new(&self.core)
    }

    pub fn operations(&self) -> OperationsService<'_, S> {
        OperationsService::new(&self.core)
    }

    /// The operations of `tenant`, on behalf of `by`.
    pub fn tenant_handle(&self, tenant: &TenantId, by: &Initiator) -> TenantHandle<S> {
        TenantHandle::new(Arc::clone(&self.core), tenant.clone(), by.clone())
    }
}
