//! One place that every call to a store passes, where it can be counted, traced or made to fail.
//!
//! The proof of the product stands on this: a simulation that crashes, delays and confuses every single
//! call, and a worker process that kills itself at a numbered one.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use domain::chain::StoredEvent;
use domain::merkle::Position;
use domain::record::Signal;
use domain::{
    ApiKey, Applied, Approval, ApprovalId, BlobRef, Card, Decision, Digest, Evidence, Fleet, IdempotencyKey,
    InboxEntry, InboxStatus, KeyId, Millis, Outgoing, Payload, Plan, QueueName, Receipt, RunKey, RunRecord,
    RunStatus, SignalId, StepRecord, StepSeq, Tenant, TenantId, Ticket, Timestamp, WorkerId, WorkerRecord,
    WorkflowName,
};

use crate::access::{Access, KeyPage};
use crate::archive::Archive;
use crate::cursor::PageQuery;
use crate::error::StoreError;
use crate::governance::{ApprovalPage, Governance, PolicyFiles};
use crate::inbox::{Accepted, Again, DueSchedule, Inbox};
use crate::ledger::{Admission, Holder, InLine, Ledger, RunPage, RunQuery, Write};
use crate::queue::{DeadLetter, Delivery, Handle, Queue};
use crate::worker_registry::WorkerRegistry;
use crate::{BlobKind, Blobs, Store};

/// A call to a store, as an interceptor sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Which call.
    pub name: &'static str,
    /// The run it changes, if it changes one.
    pub changes: Option<Change>,
}

/// What a commit makes of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which run.
    pub run: RunKey,
    /// Where it then stands.
    pub to: RunStatus,
}

/// Stands between a caller and a store.
pub trait Intercept: Send + Sync + 'static {
    /// What is remembered of a call while it is under way.
    type Pass: Send;

    /// Before the call is sent. An error is the caller's answer, and the call is not made.
    fn before(&self, site: &Site) -> impl Future<Output = Result<Self::Pass, StoreError>> + Send;

    /// After the call was answered. An error takes the answer's place.
    fn after(&self, pass: Self::Pass) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A store whose calls pass an interceptor.
pub struct Intercepted<S, I> {
    store: S,
    intercept: I,
}

impl<S: Store, I: Intercept> Intercepted<S, I> {
    /// Puts `intercept` before `store`.
    pub fn new(store: S, intercept: I) -> Self {
        Self { store, intercept }
    }

    async fn plainly<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.pass(Site { name, changes: None }, call).await
    }

    async fn pass<T>(
        &self,
        site: Site,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let pass = self.intercept.before(&site).await?;
        let answer = call.await?;
        self.intercept.after(pass).await?;
        Ok(answer)
    }
}

impl<S: Store, I: Intercept> Ledger for Intercepted<S, I> {
    async fn put_plan(&self, tenant: &TenantId, plan: &Plan) -> Result<(), StoreError> {
        self.plainly("ledger.put_plan", self.store.put_plan(tenant, plan)).await
    }

    async fn plan(&self, tenant: &TenantId, hash: &Digest) -> Result<Option<Plan>, StoreError> {
        self.plainly("ledger.plan", self.store.plan(tenant, hash)).await
    }

    async fn admit(&self, admission: Admission) -> Result<Write, StoreError> {
        self.plainly("ledger.admit", self.store.admit(admission)).await
    }

    async fn holder(&self, tenant: &TenantId, ticket: &Ticket) -> Result<Option<Holder>, StoreError> {
        self.plainly("ledger.holder", self.store.holder(tenant, ticket)).await
    }

    async fn enqueue_waiter(
        &self,
        tenant: &TenantId,
        ticket: &Ticket,
        stands: Holder,
        next: InLine,
    ) -> Result<Write, StoreError> {
        self.plainly("ledger.enqueue_waiter", self.store.enqueue_waiter(tenant, ticket, stands, next)).await
    }

    async fn commit(&self, decision: Decision) -> Result<Write, StoreError> {
        let change = Change { run: decision.record.key.clone(), to: decision.record.status };
        let site = Site { name: "ledger.commit", changes: Some(change) };
        self.pass(site, self.store.commit(decision)).await
    }

    async fn load(&self, run: &RunKey) -> Result<Option<RunRecord>, StoreError> {
        self.plainly("ledger.load", self.store.load(run)).await
    }

    async fn input(&self, run: &RunKey) -> Result<Option<Payload>, StoreError> {
        self.plainly("ledger.input", self.store.input(run)).await
    }

    async fn step(&self, run: &RunKey, seq: StepSeq, undo: bool) -> Result<Option<StepRecord>, StoreError> {
        self.plainly("ledger.step", self.store.step(run, seq, undo)).await
    }

    async fn steps(&self, run: &RunKey) -> Result<Vec<StepRecord>, StoreError> {
        self.plainly("ledger.steps", self.store.steps(run)).await
    }

    async fn events(&self, run: &RunKey, from: u32, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        self.plainly("ledger.events", self.store.events(run, from, limit)).await
    }

    async fn history(
        &self,
        run: &RunKey,
        limit: u32,
    ) -> Result<(Vec<StoredEvent>, Vec<StepRecord>), StoreError> {
        self.plainly("ledger.history", self.store.history(run, limit)).await
    }

    async fn receipt(&self, tenant: &TenantId, key: &IdempotencyKey) -> Result<Option<Receipt>, StoreError> {
        self.plainly("ledger.receipt", self.store.receipt(tenant, key)).await
    }

    async fn displaced(&self, run: &RunKey, key: &IdempotencyKey) -> Result<Option<Receipt>, StoreError> {
        self.plainly("ledger.displaced", self.store.displaced(run, key)).await
    }

    async fn signal(&self, run: &RunKey, id: &SignalId) -> Result<Option<Signal>, StoreError> {
        self.plainly("ledger.signal", self.store.signal(run, id)).await
    }

    async fn runs(&self, tenant: &TenantId, query: RunQuery) -> Result<RunPage, StoreError> {
        self.plainly("ledger.runs", self.store.runs(tenant, query)).await
    }

    async fn due_excluding(
        &self,
        but: &BTreeSet<TenantId>,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<RunKey>, StoreError> {
        self.plainly("ledger.due", self.store.due_excluding(but, now, limit)).await
    }

    async fn tenants(&self) -> Result<Vec<TenantId>, StoreError> {
        self.plainly("ledger.tenants", self.store.tenants()).await
    }

    async fn flush(&self, now: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.plainly("ledger.flush", self.store.flush(now, limit)).await
    }
}

impl<S: Store, I: Intercept> Queue for Intercepted<S, I> {
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        self.plainly("queue.send", self.store.send(message)).await
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
        wait: Duration,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.plainly("queue.receive", self.store.receive(queue, max, visibility, wait)).await
    }

    async fn extend(&self, handle: &Handle, visibility: Millis) -> Result<bool, StoreError> {
        self.plainly("queue.extend", self.store.extend(handle, visibility)).await
    }

    async fn delete(&self, handle: &Handle) -> Result<bool, StoreError> {
        self.plainly("queue.delete", self.store.delete(handle)).await
    }

    async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.plainly("queue.dead_letters", self.store.dead_letters(limit)).await
    }

    async fn redrive(&self, limit: u32) -> Result<u32, StoreError> {
        self.plainly("queue.redrive", self.store.redrive(limit)).await
    }

    async fn depth(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.plainly("queue.depth", self.store.depth(queue)).await
    }

    async fn waiting(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.plainly("queue.waiting", self.store.waiting(queue)).await
    }
}

impl<S: Store, I: Intercept> Blobs for Intercepted<S, I> {
    async fn put_blob(&self, on: BlobKind, tenant: &TenantId, bytes: Vec<u8>) -> Result<BlobRef, StoreError> {
        self.plainly("blobs.put", self.store.put_blob(on, tenant, bytes)).await
    }

    async fn blob(
        &self,
        on: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.plainly("blobs.get", self.store.blob(on, tenant, blob)).await
    }
}

impl<S: Store, I: Intercept> Governance for Intercepted<S, I> {
    async fn tenant(&self, tenant: &TenantId) -> Result<Option<Tenant>, StoreError> {
        self.plainly("governance.tenant", self.store.tenant(tenant)).await
    }

    async fn put_tenant(&self, tenant: Tenant) -> Result<Write, StoreError> {
        self.plainly("governance.put_tenant", self.store.put_tenant(tenant)).await
    }

    async fn fleet(&self) -> Result<Option<Fleet>, StoreError> {
        self.plainly("governance.fleet", self.store.fleet()).await
    }

    async fn eventual(&self, tenant: &TenantId) -> Result<(Option<Fleet>, Option<Tenant>), StoreError> {
        self.plainly("governance.eventual", self.store.eventual(tenant)).await
    }

    async fn put_fleet(&self, fleet: Fleet) -> Result<Write, StoreError> {
        self.plainly("governance.put_fleet", self.store.put_fleet(fleet)).await
    }

    async fn put_policy(
        &self,
        tenant: &TenantId,
        hash: &Digest,
        files: PolicyFiles,
    ) -> Result<(), StoreError> {
        self.plainly("governance.put_policy", self.store.put_policy(tenant, hash, files)).await
    }

    async fn policy(&self, tenant: &TenantId, hash: &Digest) -> Result<Option<PolicyFiles>, StoreError> {
        self.plainly("governance.policy", self.store.policy(tenant, hash)).await
    }

    async fn approval(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.plainly("governance.approval", self.store.approval(tenant, id)).await
    }

    async fn approvals(&self, run: &RunKey) -> Result<Vec<Approval>, StoreError> {
        self.plainly("governance.approvals", self.store.approvals(run)).await
    }

    async fn open_approvals(&self, tenant: &TenantId, query: PageQuery) -> Result<ApprovalPage, StoreError> {
        self.plainly("governance.open_approvals", self.store.open_approvals(tenant, query)).await
    }

    async fn card(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Option<Card>, StoreError> {
        self.plainly("governance.card", self.store.card(tenant, id)).await
    }

    async fn put_card(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
        card: Card,
        replaces: Option<Card>,
    ) -> Result<Write, StoreError> {
        self.plainly("governance.put_card", self.store.put_card(tenant, id, card, replaces)).await
    }
}

impl<S: Store, I: Intercept> Access for Intercepted<S, I> {
    async fn key(&self, tenant: &TenantId, id: &KeyId) -> Result<Option<ApiKey>, StoreError> {
        self.plainly("access.key", self.store.key(tenant, id)).await
    }

    async fn put_key(&self, key: ApiKey) -> Result<Write, StoreError> {
        self.plainly("access.put_key", self.store.put_key(key)).await
    }

    async fn keys(&self, tenant: &TenantId, query: PageQuery) -> Result<KeyPage, StoreError> {
        self.plainly("access.keys", self.store.keys(tenant, query)).await
    }
}

impl<S: Store, I: Intercept> WorkerRegistry for Intercepted<S, I> {
    async fn registered_worker(&self, worker: &WorkerId) -> Result<Option<WorkerRecord>, StoreError> {
        self.plainly("roll.registered_worker", self.store.registered_worker(worker)).await
    }

    async fn put_worker(&self, worker: WorkerRecord) -> Result<Write, StoreError> {
        self.plainly("roll.put_worker", self.store.put_worker(worker)).await
    }

    async fn roll(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        self.plainly("roll.roll", self.store.roll()).await
    }
}

impl<S: Store, I: Intercept> Archive for Intercepted<S, I> {
    const LOG_FOR_EACH_TENANT: bool = S::LOG_FOR_EACH_TENANT;

    async fn append_log(&self, run: &RunKey, leaf: Digest) -> Result<Position, StoreError> {
        self.plainly("archive.append_log", self.store.append_log(run, leaf)).await
    }

    async fn put_evidence(&self, run: &RunKey, evidence: Evidence) -> Result<Write, StoreError> {
        self.plainly("archive.put_evidence", self.store.put_evidence(run, evidence)).await
    }

    async fn filed(&self, run: &RunKey) -> Result<Option<(RunRecord, Option<Evidence>)>, StoreError> {
        self.plainly("archive.filed", self.store.filed(run)).await
    }

    async fn evidence(&self, run: &RunKey) -> Result<Option<Evidence>, StoreError> {
        self.plainly("archive.evidence", self.store.evidence(run)).await
    }
}

impl<S: Store, I: Intercept> Inbox for Intercepted<S, I> {
    async fn accept(&self, entry: InboxEntry) -> Result<Accepted, StoreError> {
        self.plainly("inbox.accept", self.store.accept(entry)).await
    }

    async fn entry(&self, run: &RunKey) -> Result<Option<InboxEntry>, StoreError> {
        self.plainly("inbox.entry", self.store.entry(run)).await
    }

    async fn settle(
        &self,
        run: &RunKey,
        status: InboxStatus,
        forget_at: Timestamp,
    ) -> Result<Write, StoreError> {
        self.plainly("inbox.settle", self.store.settle(run, status, forget_at)).await
    }

    async fn reopen(&self, run: &RunKey, again: Again) -> Result<Write, StoreError> {
        self.plainly("inbox.reopen", self.store.reopen(run, again)).await
    }

    async fn apply(&self, applied: Applied, due: Option<Timestamp>) -> Result<Write, StoreError> {
        self.plainly("inbox.apply", self.store.apply(applied, due)).await
    }

    async fn due_schedules(&self, now: Timestamp, limit: u32) -> Result<Vec<DueSchedule>, StoreError> {
        self.plainly("inbox.due_schedules", self.store.due_schedules(now, limit)).await
    }

    async fn reschedule(&self, due: &DueSchedule, to: Option<Timestamp>) -> Result<Write, StoreError> {
        self.plainly("inbox.reschedule", self.store.reschedule(due, to)).await
    }

    async fn applied(&self, tenant: &TenantId) -> Result<Vec<Applied>, StoreError> {
        self.plainly("inbox.applied", self.store.applied(tenant)).await
    }

    async fn versions(&self, tenant: &TenantId, workflow: &WorkflowName) -> Result<Vec<Applied>, StoreError> {
        self.plainly("inbox.versions", self.store.versions(tenant, workflow)).await
    }
}
