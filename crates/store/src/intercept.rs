//! An interceptor for every call to a store. It counts, traces or fails calls.
//!
//! The simulation tests use it to crash, delay and duplicate every call. The crash tests use it to kill a worker
//! process at a numbered call.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use domain::audit::AuditEntry;
use domain::audit_chain::{AuditHead, AuditRecord};
use domain::chain::StoredEvent;
use domain::record::Signal;
use domain::{
    ApiKey, AppliedWorkflow, Approval, ApprovalId, BlobRef, Card, ConcurrencyKey, Decision, Digest, Evidence,
    Fleet, IdempotencyKey, InboxEntry, InboxStatus, KeyId, Millis, Outgoing, Page, Payload, Plan, QueueName,
    Receipt, RunId, RunKey, RunRecord, RunStatus, SignalId, StepRecord, StepSeq, Tenant, TenantId, Timestamp,
    WorkerId, WorkerRecord, WorkflowName,
};

use crate::access::{Access, KeyPage};
use crate::archive::{Archive, LogPosition};
use crate::audit::{AuditLog, AuditPage, AuditedWrite};
use crate::cursor::PageQuery;
use crate::error::StoreError;
use crate::governance::{ApprovalPage, Governance, PolicyFiles};
use crate::inbox::{DueSchedule, Inbox, Reopen, StoredEntry};
use crate::ledger::{Admission, Due, KeyHolder, Ledger, RunPage, RunQuery, Waiter, Write};
use crate::queue::{DeadLetter, Delivery, Handle, Queue};
use crate::worker_registry::WorkerRegistry;
use crate::{BlobKind, Blobs, Store};

/// A call to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCall {
    /// The trait and the method, such as `ledger.commit`.
    pub name: &'static str,
    /// Set for `ledger.commit`.
    pub changes: Option<Change>,
}

/// The run that a commit changes, and its new status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub run: RunKey,
    pub to: RunStatus,
}

/// Runs before and after each call to a store.
pub trait Intercept: Send + Sync + 'static {
    /// State that `before` passes to `after`.
    type State: Send;

    /// Replaces [`Ledger::INDEX_DELAY`] of the store.
    const INDEX_DELAY: Option<Millis> = None;

    /// Runs before the call. An error is returned to the caller, and the call is not made.
    fn before(&self, call: &StoreCall) -> impl Future<Output = Result<Self::State, StoreError>> + Send;

    /// Runs after a successful call. An error replaces the result of the call.
    fn after(&self, state: Self::State) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A store with an interceptor.
pub struct Intercepted<S, I> {
    store: S,
    intercept: I,
}

impl<S: Store, I: Intercept> Intercepted<S, I> {
    pub fn new(store: S, intercept: I) -> Self {
        Self { store, intercept }
    }

    async fn call<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.intercepted(StoreCall { name, changes: None }, call).await
    }

    async fn intercepted<T>(
        &self,
        info: StoreCall,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let state = self.intercept.before(&info).await?;
        let result = call.await?;
        self.intercept.after(state).await?;
        Ok(result)
    }
}

/// Writes methods of a storage trait for [`Intercepted`]. Each calls the same method of the store through the
/// interceptor, as the call `prefix.method`.
macro_rules! intercept {
    ($prefix:literal: $($method:ident($($arg:ident: $type:ty),*) -> $value:ty;)*) => {$(
        async fn $method(&self, $($arg: $type),*) -> Result<$value, StoreError> {
            let name = concat!($prefix, ".", stringify!($method));
            self.call(name, self.store.$method($($arg),*)).await
        }
    )*};
}

impl<S: Store, I: Intercept> Ledger for Intercepted<S, I> {
    const INDEX_DELAY: Millis = match I::INDEX_DELAY {
        Some(delay) => delay,
        None => S::INDEX_DELAY,
    };

    intercept! { "ledger":
        put_plan(tenant: &TenantId, plan: &Plan) -> ();
        plan(tenant: &TenantId, hash: &Digest) -> Option<Plan>;
        admit(admission: Admission) -> Write;
        holder(tenant: &TenantId, concurrency_key: &ConcurrencyKey) -> Option<KeyHolder>;
        enqueue_waiter(tenant: &TenantId, concurrency_key: &ConcurrencyKey, waiter: Waiter) -> ();
        remove_waiter(tenant: &TenantId, concurrency_key: &ConcurrencyKey, waiter: Waiter) -> ();
        load(run: &RunKey) -> Option<RunRecord>;
        input(run: &RunKey) -> Option<Payload>;
        step(run: &RunKey, seq: StepSeq, rollback: bool) -> Option<StepRecord>;
        steps(run: &RunKey) -> Vec<StepRecord>;
        events(run: &RunKey, from: u32, limit: u32) -> Vec<StoredEvent>;
        history(run: &RunKey, limit: u32) -> (Vec<StoredEvent>, Vec<StepRecord>);
        receipt(tenant: &TenantId, key: &IdempotencyKey) -> Option<Receipt>;
        displaced(run: &RunKey, key: &IdempotencyKey) -> Option<Receipt>;
        signal(run: &RunKey, id: &SignalId) -> Option<Signal>;
        runs(tenant: &TenantId, query: RunQuery) -> RunPage;
        due_excluding(excluded: &BTreeSet<TenantId>, now: Timestamp, limit: u32) -> Vec<Due>;
        tenants(after: Option<&TenantId>, limit: u32) -> Vec<TenantId>;
        flush(now: Timestamp, limit: u32) -> u32;
    }

    async fn commit(&self, decision: Decision) -> Result<Write, StoreError> {
        let change = Change { run: decision.record.key.clone(), to: decision.record.status };
        let info = StoreCall { name: "ledger.commit", changes: Some(change) };
        self.intercepted(info, self.store.commit(decision)).await
    }
}

impl<S: Store, I: Intercept> Queue for Intercepted<S, I> {
    intercept! { "queue":
        send(message: &Outgoing) -> ();
        receive(queue: QueueName, max: usize, visibility: Millis, wait: Duration) -> Vec<Delivery>;
        receive_except(
            queue: QueueName, except: &BTreeSet<TenantId>, max: usize, visibility: Millis
        ) -> Option<Vec<Delivery>>;
        extend(handle: &Handle, visibility: Millis) -> bool;
        delete(handle: &Handle) -> bool;
        dead_letters(limit: u32) -> Vec<DeadLetter>;
        redrive(limit: u32) -> u32;
        depth(queue: QueueName) -> u64;
        visible(queue: QueueName) -> u64;
    }
}

impl<S: Store, I: Intercept> Blobs for Intercepted<S, I> {
    intercept! { "blobs":
        put_blob(kind: BlobKind, tenant: &TenantId, bytes: Vec<u8>) -> BlobRef;
        blob(kind: BlobKind, tenant: &TenantId, blob: &BlobRef) -> Option<Vec<u8>>;
        put_bundle(tenant: &TenantId, name: &str, bytes: Vec<u8>) -> Option<Vec<u8>>;
        bundle(tenant: &TenantId, name: &str) -> Option<Vec<u8>>;
    }
}

impl<S: Store, I: Intercept> Governance for Intercepted<S, I> {
    intercept! { "governance":
        tenant(tenant: &TenantId) -> Option<Tenant>;
        put_tenant(tenant: Tenant) -> Write;
        fleet() -> Option<Fleet>;
        settings_eventual(tenant: &TenantId) -> (Option<Fleet>, Option<Tenant>);
        tenant_eventual(tenant: &TenantId) -> Option<Tenant>;
        put_fleet(fleet: Fleet) -> Write;
        put_policy(tenant: &TenantId, hash: &Digest, files: PolicyFiles) -> ();
        policy(tenant: &TenantId, hash: &Digest) -> Option<PolicyFiles>;
        approval(tenant: &TenantId, id: &ApprovalId) -> Option<Approval>;
        approvals(run: &RunKey) -> Vec<Approval>;
        open_approvals(tenant: &TenantId, query: PageQuery) -> ApprovalPage;
        card(tenant: &TenantId, id: &ApprovalId) -> Option<Card>;
        put_card(tenant: &TenantId, id: &ApprovalId, card: Card, replaces: Option<Card>) -> Write;
        page(tenant: &TenantId, id: &ApprovalId) -> Option<Page>;
        put_page(tenant: &TenantId, id: &ApprovalId, page: Page, replaces: Option<Page>) -> Write;
    }
}

impl<S: Store, I: Intercept> Access for Intercepted<S, I> {
    intercept! { "access":
        key(tenant: &TenantId, id: &KeyId) -> Option<ApiKey>;
        put_key(key: ApiKey) -> Write;
        keys(tenant: &TenantId, query: PageQuery) -> KeyPage;
    }
}

impl<S: Store, I: Intercept> AuditLog for Intercepted<S, I> {
    intercept! { "audit_log":
        write_audited(write: AuditedWrite, entry: AuditEntry) -> Write;
        audit(tenant: Option<&TenantId>, query: PageQuery) -> AuditPage;
        audit_record(tenant: Option<&TenantId>, sequence: u64) -> Option<AuditRecord>;
        audit_head(tenant: Option<&TenantId>) -> AuditHead;
    }
}

impl<S: Store, I: Intercept> WorkerRegistry for Intercepted<S, I> {
    intercept! { "worker_registry":
        worker(worker: &WorkerId) -> Option<WorkerRecord>;
        put_worker(worker: WorkerRecord) -> Write;
        workers() -> Vec<WorkerRecord>;
    }
}

impl<S: Store, I: Intercept> Archive for Intercepted<S, I> {
    fn bundle_name(&self, run: &RunId) -> String {
        self.store.bundle_name(run)
    }

    intercept! { "archive":
        append_log(run: &RunKey, leaf: Digest) -> LogPosition;
        put_evidence(run: &RunKey, evidence: Evidence) -> Write;
        load_with_evidence(run: &RunKey) -> Option<(RunRecord, Option<Evidence>)>;
        evidence(run: &RunKey) -> Option<Evidence>;
    }
}

impl<S: Store, I: Intercept> Inbox for Intercepted<S, I> {
    intercept! { "inbox":
        accept(entry: InboxEntry) -> StoredEntry;
        entry(run: &RunKey) -> Option<InboxEntry>;
        set_status(run: &RunKey, status: InboxStatus, expires_at: Timestamp) -> Write;
        reopen(run: &RunKey, reopen: Reopen) -> Write;
        postpone_entry(run: &RunKey, due_at: Timestamp) -> Write;
        apply(applied: AppliedWorkflow, due: Option<Timestamp>) -> Write;
        due_schedules(now: Timestamp, limit: u32) -> Vec<DueSchedule>;
        reschedule(due: &DueSchedule, to: Option<Timestamp>) -> Write;
        applied(tenant: &TenantId) -> Vec<AppliedWorkflow>;
        versions(tenant: &TenantId, workflow: &WorkflowName) -> Vec<AppliedWorkflow>;
    }
}
