//! An interceptor for every call to a store. It counts, traces or fails calls.
//!
//! The simulation tests use it to crash, delay and duplicate every call. The crash tests use it to kill a worker
//! process at a numbered call.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use domain::chain::StoredEvent;
use domain::merkle::Position;
use domain::record::Signal;
use domain::{
    ApiKey, AppliedWorkflow, Approval, ApprovalId, BlobRef, Card, ConcurrencyKey, Decision, Digest, Evidence,
    Fleet, IdempotencyKey, InboxEntry, InboxStatus, KeyId, Millis, Outgoing, Payload, Plan, QueueName,
    Receipt, RunKey, RunRecord, RunStatus, SignalId, StepRecord, StepSeq, Tenant, TenantId, Timestamp,
    WorkerId, WorkerRecord, WorkflowName,
};

use crate::access::{Access, KeyPage};
use crate::archive::Archive;
use crate::cursor::PageQuery;
use crate::error::StoreError;
use crate::governance::{ApprovalPage, Governance, PolicyFiles};
use crate::inbox::{Accepted, DueSchedule, Inbox, Reopen};
use crate::ledger::{Admission, Holder, Ledger, RunPage, RunQuery, Waiter, Write};
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

impl<S: Store, I: Intercept> Ledger for Intercepted<S, I> {
    async fn put_plan(&self, tenant: &TenantId, plan: &Plan) -> Result<(), StoreError> {
        self.call("ledger.put_plan", self.store.put_plan(tenant, plan)).await
    }

    async fn plan(&self, tenant: &TenantId, hash: &Digest) -> Result<Option<Plan>, StoreError> {
        self.call("ledger.plan", self.store.plan(tenant, hash)).await
    }

    async fn admit(&self, admission: Admission) -> Result<Write, StoreError> {
        self.call("ledger.admit", self.store.admit(admission)).await
    }

    async fn holder(
        &self,
        tenant: &TenantId,
        concurrency_key: &ConcurrencyKey,
    ) -> Result<Option<Holder>, StoreError> {
        self.call("ledger.holder", self.store.holder(tenant, concurrency_key)).await
    }

    async fn enqueue_waiter(
        &self,
        tenant: &TenantId,
        concurrency_key: &ConcurrencyKey,
        current: Holder,
        next: Waiter,
    ) -> Result<Write, StoreError> {
        self.call("ledger.enqueue_waiter", self.store.enqueue_waiter(tenant, concurrency_key, current, next))
            .await
    }

    async fn commit(&self, decision: Decision) -> Result<Write, StoreError> {
        let change = Change { run: decision.record.key.clone(), to: decision.record.status };
        let info = StoreCall { name: "ledger.commit", changes: Some(change) };
        self.intercepted(info, self.store.commit(decision)).await
    }

    async fn load(&self, run: &RunKey) -> Result<Option<RunRecord>, StoreError> {
        self.call("ledger.load", self.store.load(run)).await
    }

    async fn input(&self, run: &RunKey) -> Result<Option<Payload>, StoreError> {
        self.call("ledger.input", self.store.input(run)).await
    }

    async fn step(&self, run: &RunKey, seq: StepSeq, undo: bool) -> Result<Option<StepRecord>, StoreError> {
        self.call("ledger.step", self.store.step(run, seq, undo)).await
    }

    async fn steps(&self, run: &RunKey) -> Result<Vec<StepRecord>, StoreError> {
        self.call("ledger.steps", self.store.steps(run)).await
    }

    async fn events(&self, run: &RunKey, from: u32, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        self.call("ledger.events", self.store.events(run, from, limit)).await
    }

    async fn history(
        &self,
        run: &RunKey,
        limit: u32,
    ) -> Result<(Vec<StoredEvent>, Vec<StepRecord>), StoreError> {
        self.call("ledger.history", self.store.history(run, limit)).await
    }

    async fn receipt(&self, tenant: &TenantId, key: &IdempotencyKey) -> Result<Option<Receipt>, StoreError> {
        self.call("ledger.receipt", self.store.receipt(tenant, key)).await
    }

    async fn displaced(&self, run: &RunKey, key: &IdempotencyKey) -> Result<Option<Receipt>, StoreError> {
        self.call("ledger.displaced", self.store.displaced(run, key)).await
    }

    async fn signal(&self, run: &RunKey, id: &SignalId) -> Result<Option<Signal>, StoreError> {
        self.call("ledger.signal", self.store.signal(run, id)).await
    }

    async fn runs(&self, tenant: &TenantId, query: RunQuery) -> Result<RunPage, StoreError> {
        self.call("ledger.runs", self.store.runs(tenant, query)).await
    }

    async fn due_excluding(
        &self,
        excluded: &BTreeSet<TenantId>,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<RunKey>, StoreError> {
        self.call("ledger.due", self.store.due_excluding(excluded, now, limit)).await
    }

    async fn tenants(&self) -> Result<Vec<TenantId>, StoreError> {
        self.call("ledger.tenants", self.store.tenants()).await
    }

    async fn flush(&self, now: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.call("ledger.flush", self.store.flush(now, limit)).await
    }
}

impl<S: Store, I: Intercept> Queue for Intercepted<S, I> {
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        self.call("queue.send", self.store.send(message)).await
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
        wait: Duration,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.call("queue.receive", self.store.receive(queue, max, visibility, wait)).await
    }

    async fn extend(&self, handle: &Handle, visibility: Millis) -> Result<bool, StoreError> {
        self.call("queue.extend", self.store.extend(handle, visibility)).await
    }

    async fn delete(&self, handle: &Handle) -> Result<bool, StoreError> {
        self.call("queue.delete", self.store.delete(handle)).await
    }

    async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.call("queue.dead_letters", self.store.dead_letters(limit)).await
    }

    async fn redrive(&self, limit: u32) -> Result<u32, StoreError> {
        self.call("queue.redrive", self.store.redrive(limit)).await
    }

    async fn depth(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.call("queue.depth", self.store.depth(queue)).await
    }

    async fn visible(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.call("queue.visible", self.store.visible(queue)).await
    }
}

impl<S: Store, I: Intercept> Blobs for Intercepted<S, I> {
    async fn put_blob(
        &self,
        kind: BlobKind,
        tenant: &TenantId,
        bytes: Vec<u8>,
    ) -> Result<BlobRef, StoreError> {
        self.call("blobs.put", self.store.put_blob(kind, tenant, bytes)).await
    }

    async fn blob(
        &self,
        kind: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.call("blobs.get", self.store.blob(kind, tenant, blob)).await
    }
}

impl<S: Store, I: Intercept> Governance for Intercepted<S, I> {
    async fn tenant(&self, tenant: &TenantId) -> Result<Option<Tenant>, StoreError> {
        self.call("governance.tenant", self.store.tenant(tenant)).await
    }

    async fn put_tenant(&self, tenant: Tenant) -> Result<Write, StoreError> {
        self.call("governance.put_tenant", self.store.put_tenant(tenant)).await
    }

    async fn fleet(&self) -> Result<Option<Fleet>, StoreError> {
        self.call("governance.fleet", self.store.fleet()).await
    }

    async fn eventual(&self, tenant: &TenantId) -> Result<(Option<Fleet>, Option<Tenant>), StoreError> {
        self.call("governance.eventual", self.store.eventual(tenant)).await
    }

    async fn put_fleet(&self, fleet: Fleet) -> Result<Write, StoreError> {
        self.call("governance.put_fleet", self.store.put_fleet(fleet)).await
    }

    async fn put_policy(
        &self,
        tenant: &TenantId,
        hash: &Digest,
        files: PolicyFiles,
    ) -> Result<(), StoreError> {
        self.call("governance.put_policy", self.store.put_policy(tenant, hash, files)).await
    }

    async fn policy(&self, tenant: &TenantId, hash: &Digest) -> Result<Option<PolicyFiles>, StoreError> {
        self.call("governance.policy", self.store.policy(tenant, hash)).await
    }

    async fn approval(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.call("governance.approval", self.store.approval(tenant, id)).await
    }

    async fn approvals(&self, run: &RunKey) -> Result<Vec<Approval>, StoreError> {
        self.call("governance.approvals", self.store.approvals(run)).await
    }

    async fn open_approvals(&self, tenant: &TenantId, query: PageQuery) -> Result<ApprovalPage, StoreError> {
        self.call("governance.open_approvals", self.store.open_approvals(tenant, query)).await
    }

    async fn card(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Option<Card>, StoreError> {
        self.call("governance.card", self.store.card(tenant, id)).await
    }

    async fn put_card(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
        card: Card,
        replaces: Option<Card>,
    ) -> Result<Write, StoreError> {
        self.call("governance.put_card", self.store.put_card(tenant, id, card, replaces)).await
    }
}

impl<S: Store, I: Intercept> Access for Intercepted<S, I> {
    async fn key(&self, tenant: &TenantId, id: &KeyId) -> Result<Option<ApiKey>, StoreError> {
        self.call("access.key", self.store.key(tenant, id)).await
    }

    async fn put_key(&self, key: ApiKey) -> Result<Write, StoreError> {
        self.call("access.put_key", self.store.put_key(key)).await
    }

    async fn keys(&self, tenant: &TenantId, query: PageQuery) -> Result<KeyPage, StoreError> {
        self.call("access.keys", self.store.keys(tenant, query)).await
    }
}

impl<S: Store, I: Intercept> WorkerRegistry for Intercepted<S, I> {
    async fn worker(&self, worker: &WorkerId) -> Result<Option<WorkerRecord>, StoreError> {
        self.call("worker_registry.worker", self.store.worker(worker)).await
    }

    async fn put_worker(&self, worker: WorkerRecord) -> Result<Write, StoreError> {
        self.call("worker_registry.put_worker", self.store.put_worker(worker)).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        self.call("worker_registry.workers", self.store.workers()).await
    }
}

impl<S: Store, I: Intercept> Archive for Intercepted<S, I> {
    const LOG_FOR_EACH_TENANT: bool = S::LOG_FOR_EACH_TENANT;

    async fn append_log(&self, run: &RunKey, leaf: Digest) -> Result<Position, StoreError> {
        self.call("archive.append_log", self.store.append_log(run, leaf)).await
    }

    async fn put_evidence(&self, run: &RunKey, evidence: Evidence) -> Result<Write, StoreError> {
        self.call("archive.put_evidence", self.store.put_evidence(run, evidence)).await
    }

    async fn load_with_evidence(
        &self,
        run: &RunKey,
    ) -> Result<Option<(RunRecord, Option<Evidence>)>, StoreError> {
        self.call("archive.load_with_evidence", self.store.load_with_evidence(run)).await
    }

    async fn evidence(&self, run: &RunKey) -> Result<Option<Evidence>, StoreError> {
        self.call("archive.evidence", self.store.evidence(run)).await
    }
}

impl<S: Store, I: Intercept> Inbox for Intercepted<S, I> {
    async fn accept(&self, entry: InboxEntry) -> Result<Accepted, StoreError> {
        self.call("inbox.accept", self.store.accept(entry)).await
    }

    async fn entry(&self, run: &RunKey) -> Result<Option<InboxEntry>, StoreError> {
        self.call("inbox.entry", self.store.entry(run)).await
    }

    async fn set_status(
        &self,
        run: &RunKey,
        status: InboxStatus,
        forget_at: Timestamp,
    ) -> Result<Write, StoreError> {
        self.call("inbox.set_status", self.store.set_status(run, status, forget_at)).await
    }

    async fn reopen(&self, run: &RunKey, reopen: Reopen) -> Result<Write, StoreError> {
        self.call("inbox.reopen", self.store.reopen(run, reopen)).await
    }

    async fn apply(&self, applied: AppliedWorkflow, due: Option<Timestamp>) -> Result<Write, StoreError> {
        self.call("inbox.apply", self.store.apply(applied, due)).await
    }

    async fn due_schedules(&self, now: Timestamp, limit: u32) -> Result<Vec<DueSchedule>, StoreError> {
        self.call("inbox.due_schedules", self.store.due_schedules(now, limit)).await
    }

    async fn reschedule(&self, due: &DueSchedule, to: Option<Timestamp>) -> Result<Write, StoreError> {
        self.call("inbox.reschedule", self.store.reschedule(due, to)).await
    }

    async fn applied(&self, tenant: &TenantId) -> Result<Vec<AppliedWorkflow>, StoreError> {
        self.call("inbox.applied", self.store.applied(tenant)).await
    }

    async fn versions(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowName,
    ) -> Result<Vec<AppliedWorkflow>, StoreError> {
        self.call("inbox.versions", self.store.versions(tenant, workflow)).await
    }
}
