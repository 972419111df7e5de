//! The embedded store: one SQLite file, or an in-memory database.
//!
//! A file has one writer thread, which commits all waiting writes in one transaction with one sync (group commit),
//! and a few read connections. An in-memory database has one connection, used on the calling thread, which keeps a
//! simulation single-threaded. Both run the same statements. Several processes may share a file: SQLite's lock
//! serializes their writes, and `wakeup` notifies receivers in other processes.

mod access;
mod archive;
mod audit;
mod connections;
mod db;
mod governance;
mod inbox;
mod schema;
mod wakeup;
mod worker_registry;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::audit::AuditEntry;
use domain::audit_chain::{AuditHead, AuditRecord};
use domain::chain::StoredEvent;
use domain::record::Signal;
use domain::{
    ApiKey, AppliedWorkflow, Approval, ApprovalId, BlobRef, Card, ConcurrencyKey, Decision, Digest, Evidence,
    Fleet, IdempotencyKey, InboxEntry, InboxStatus, KeyId, Millis, Outgoing, Page, Payload, Plan, QueueName,
    Receipt, RunId, RunKey, RunRecord, SignalId, StepRecord, StepSeq, Tenant, TenantId, Timestamp, WorkerId,
    WorkerRecord, WorkflowName,
};
use tokio::time::Instant;

use crate::access::{Access, KeyPage};
use crate::archive::{Archive, LogPosition};
use crate::audit::{AuditLog, AuditPage, AuditedWrite};
use crate::blobs::{self, BlobKind, Blobs};
use crate::clock::{Clock, SystemClock};
use crate::cursor::{Cursor, PageQuery, UnknownCursor};
use crate::error::StoreError;
use crate::governance::{ApprovalPage, Governance, PolicyFiles};
use crate::inbox::{DueSchedule, Inbox, Reopen, StoredEntry};
use crate::ledger::{Admission, Due, KeyHolder, Ledger, RunPage, RunQuery, Waiter, Write};
use crate::queue::{DeadLetter, Delivery, Handle, Queue, RECEIVES_MAX};
use crate::sqlite::wakeup::WakeUp;
use crate::trace;
use crate::worker_registry::WorkerRegistry;

use connections::Connections;
pub use connections::Usage;
use db::{Db, FirstCommit};

/// How often a receiver polls where processes cannot notify each other.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Options of the embedded store.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The clock for visibility timeouts and delays.
    pub clock: Arc<dyn Clock>,
    /// A message that was received this often moves to the dead letters.
    pub receives_max: u32,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), receives_max: RECEIVES_MAX }
    }
}

#[derive(Clone)]
pub struct SqliteStore {
    connections: Arc<Connections>,
    wakeup: Arc<WakeUp>,
    options: SqliteOptions,
}

impl SqliteStore {
    /// Opens the store in the file at `path`. Creates the file and its tables if they are missing.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        let path: PathBuf = path.as_ref().into();
        let wakeup = WakeUp::for_file(&path);
        let connections = Connections::file(&path)?;
        Ok(Self { connections: Arc::new(connections), wakeup: Arc::new(wakeup), options })
    }

    /// An in-memory store, which is lost when it is dropped.
    pub fn memory(options: SqliteOptions) -> Result<Self, StoreError> {
        Ok(Self {
            connections: Arc::new(Connections::memory()?),
            wakeup: Arc::new(WakeUp::in_process()),
            options,
        })
    }

    /// Parses a cursor that a user entered.
    pub fn cursor(text: &str) -> Result<Cursor, UnknownCursor> {
        let cursor = Cursor::new(text);
        parse_row(&cursor).map(|_| cursor)
    }

    pub fn usage(&self) -> Usage {
        self.connections.usage()
    }

    /// The number of messages with a job other than `advance` that become visible before `before`.
    pub async fn jobs(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.connections.read("count pending jobs", |db| db.jobs(before)).await
    }

    /// Gives the transparency log a new name. The log of a restored copy would otherwise contradict the log of the
    /// original, which went on after the copy was made.
    pub async fn rename_log(&self) -> Result<(), StoreError> {
        self.connections.write("rename the transparency log", Db::rename_log).await
    }

    /// Copies every committed row to `path`, an empty or missing file. Other processes can write meanwhile.
    pub async fn back_up(&self, path: &Path) -> Result<(), StoreError> {
        self.connections.back_up(path).await
    }

    /// Moves the write-ahead log into the database file.
    pub async fn checkpoint(&self) -> Result<(), StoreError> {
        self.connections.checkpoint().await
    }

    fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    async fn write_decision(
        &self,
        decision: Decision,
        first: Option<FirstCommit>,
    ) -> Result<Write, StoreError> {
        let now = self.now();
        let has_messages = !decision.outgoing.is_empty();
        let trace = trace::commit_context(&decision.record);
        let write = self
            .connections
            .write("commit a decision", move |db| db.commit(&decision, first.as_ref(), trace, now))
            .await?;
        if has_messages && write == Write::Committed {
            self.wakeup.notify();
        }
        Ok(write)
    }

    async fn try_receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
    ) -> Result<db::Received, StoreError> {
        // Reads first, because a read is cheaper than a write transaction.
        let now = self.now();
        let next = self.connections.read("check for visible messages", |db| db.next_visible(queue)).await?;
        match next {
            Some(at) if at <= now => self.receive_now(queue, BTreeSet::new(), max, visibility).await,
            next => Ok(db::Received { deliveries: Vec::new(), next }),
        }
    }

    async fn receive_now(
        &self,
        queue: QueueName,
        except: BTreeSet<TenantId>,
        max: usize,
        visibility: Millis,
    ) -> Result<db::Received, StoreError> {
        let (now, limit) = (self.now(), self.options.receives_max);
        let receive = move |db: &Db| db.receive((queue, &except), max, now, visibility, limit);
        self.connections.write("receive messages", receive).await
    }

    /// When to check for messages again if no notification arrives.
    fn next_check(&self, next: Option<Timestamp>, deadline: Instant) -> Instant {
        let poll = Instant::now() + self.wakeup.poll_interval(POLL_INTERVAL);
        let visible = next.map(|at| Instant::now() + (at - self.now()).std().max(Duration::from_millis(1)));
        visible.into_iter().chain([poll, deadline]).min().unwrap_or(deadline)
    }
}

/// The row that a cursor names.
fn cursor_row(cursor: Option<&Cursor>, doing: &'static str) -> Result<Option<i64>, StoreError> {
    cursor.map(parse_row).transpose().map_err(|error| StoreError::broken(doing, error))
}

fn parse_row(cursor: &Cursor) -> Result<i64, UnknownCursor> {
    cursor.as_str().parse().map_err(|_| UnknownCursor(cursor.to_string()))
}

impl Ledger for SqliteStore {
    async fn put_plan(&self, tenant: &TenantId, plan: &Plan) -> Result<(), StoreError> {
        let (tenant, plan) = (tenant.clone(), plan.clone());
        self.connections.write("store a plan", move |db| db.put_plan(&tenant, &plan)).await
    }

    async fn plan(&self, tenant: &TenantId, hash: &Digest) -> Result<Option<Plan>, StoreError> {
        self.connections.read("read a plan", |db| db.plan(tenant, hash)).await
    }

    async fn admit(&self, admission: Admission) -> Result<Write, StoreError> {
        let Admission { decision, input, hold } = admission;
        self.write_decision(decision, Some(FirstCommit { input, hold })).await
    }

    async fn holder(
        &self,
        tenant: &TenantId,
        concurrency_key: &ConcurrencyKey,
    ) -> Result<Option<KeyHolder>, StoreError> {
        self.connections
            .read("find the holder of a concurrency key", |db| db.holder(tenant, concurrency_key))
            .await
    }

    async fn enqueue_waiter(
        &self,
        tenant: &TenantId,
        concurrency_key: &ConcurrencyKey,
        waiter: Waiter,
    ) -> Result<(), StoreError> {
        let (tenant, concurrency_key) = (tenant.clone(), *concurrency_key);
        let write = move |db: &Db| db.enqueue_waiter((&tenant, &concurrency_key), &waiter);
        self.connections.write("enqueue a run for a concurrency key", write).await
    }

    async fn remove_waiter(
        &self,
        tenant: &TenantId,
        concurrency_key: &ConcurrencyKey,
        waiter: Waiter,
    ) -> Result<(), StoreError> {
        let (tenant, concurrency_key) = (tenant.clone(), *concurrency_key);
        let write = move |db: &Db| db.remove_waiter((&tenant, &concurrency_key), &waiter);
        self.connections.write("remove a run from the wait queue of a concurrency key", write).await
    }

    async fn commit(&self, decision: Decision) -> Result<Write, StoreError> {
        self.write_decision(decision, None).await
    }

    async fn load(&self, run: &RunKey) -> Result<Option<RunRecord>, StoreError> {
        self.connections.read("load a run", |db| db.load(run)).await
    }

    async fn input(&self, run: &RunKey) -> Result<Option<Payload>, StoreError> {
        self.connections.read("read the input of a run", |db| db.input(run)).await
    }

    async fn step(
        &self,
        run: &RunKey,
        seq: StepSeq,
        rollback: bool,
    ) -> Result<Option<StepRecord>, StoreError> {
        let steps = self.connections.read("read a step", |db| db.steps(run, Some((seq, rollback)))).await?;
        Ok(steps.into_iter().next())
    }

    async fn steps(&self, run: &RunKey) -> Result<Vec<StepRecord>, StoreError> {
        self.connections.read("list the steps of a run", |db| db.steps(run, None)).await
    }

    async fn events(&self, run: &RunKey, from: u32, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        self.connections.read("list the events of a run", |db| db.events(run, from, limit)).await
    }

    async fn history(
        &self,
        run: &RunKey,
        limit: u32,
    ) -> Result<(Vec<StoredEvent>, Vec<StepRecord>), StoreError> {
        let read = |db: &Db| Ok((db.events(run, 0, limit)?, db.steps(run, None)?));
        self.connections.read("read the history of a run", read).await
    }

    async fn receipt(&self, tenant: &TenantId, key: &IdempotencyKey) -> Result<Option<Receipt>, StoreError> {
        self.connections.read("read a receipt", |db| db.receipt(tenant, key)).await
    }

    async fn displaced(&self, run: &RunKey, key: &IdempotencyKey) -> Result<Option<Receipt>, StoreError> {
        self.connections.read("read a displaced receipt", |db| db.displaced(run, key)).await
    }

    async fn signal(&self, run: &RunKey, id: &SignalId) -> Result<Option<Signal>, StoreError> {
        self.connections.read("read a signal", |db| db.signal(run, id)).await
    }

    async fn runs(&self, tenant: &TenantId, query: RunQuery) -> Result<RunPage, StoreError> {
        let before = cursor_row(query.before.as_ref(), "list runs")?;
        self.connections.read("list runs", |db| db.runs(tenant, &query, before)).await
    }

    async fn due_excluding(
        &self,
        excluded: &BTreeSet<TenantId>,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Due>, StoreError> {
        self.connections.read("find due runs", |db| db.due_excluding(excluded, now, limit)).await
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: u32) -> Result<Vec<TenantId>, StoreError> {
        self.connections.read("list tenants", |db| db.tenants(after, limit)).await
    }

    async fn flush(&self, now: Timestamp, limit: u32) -> Result<u32, StoreError> {
        // A commit stores its messages in the same transaction, so only a dead letter can be missing. That of a job which
        // advances a run is replaced when the run is due; an ended run is not due.
        if self
            .connections
            .read("find evidence to request", |db| db.evidence_to_retry(now, 1))
            .await?
            .is_empty()
        {
            return Ok(0);
        }
        let sent =
            self.connections.write("request evidence", move |db| db.retry_evidence(now, limit)).await?;
        self.wakeup.notify();
        Ok(sent)
    }
}

impl Queue for SqliteStore {
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        let (message, now) = (message.clone(), self.now());
        let trace = trace::context_for(&message.run);
        self.connections.write("send a message", move |db| db.send(&message, trace, now)).await?;
        self.wakeup.notify();
        Ok(())
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
        wait: Duration,
    ) -> Result<Vec<Delivery>, StoreError> {
        let deadline = Instant::now() + wait;
        loop {
            let listener = self.wakeup.listen();
            let received = self.try_receive(queue, max, visibility).await?;
            if !received.deliveries.is_empty() || Instant::now() >= deadline {
                return Ok(received.deliveries);
            }
            // A spurious wake-up only causes another read.
            let _ = tokio::time::timeout_at(self.next_check(received.next, deadline), listener.wait()).await;
        }
    }

    async fn receive_except(
        &self,
        queue: QueueName,
        except: &BTreeSet<TenantId>,
        max: usize,
        visibility: Millis,
    ) -> Result<Option<Vec<Delivery>>, StoreError> {
        let now = self.now();
        let is_visible = |db: &Db| db.is_visible(queue, except, now);
        if !self.connections.read("check for visible messages", is_visible).await? {
            return Ok(Some(Vec::new()));
        }
        Ok(Some(self.receive_now(queue, except.clone(), max, visibility).await?.deliveries))
    }

    async fn extend(&self, handle: &Handle, visibility: Millis) -> Result<bool, StoreError> {
        let (handle, at) = (handle.clone(), self.now() + visibility);
        let extended = self.connections.write("extend a message", move |db| db.extend(&handle, at)).await?;
        // The message may become visible earlier than a waiting receiver expects.
        self.wakeup.notify();
        Ok(extended)
    }

    async fn delete(&self, handle: &Handle) -> Result<bool, StoreError> {
        let handle = handle.clone();
        self.connections.write("delete a message", move |db| db.delete(&handle)).await
    }

    async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.connections.read("read dead letters", |db| db.dead_letters(limit)).await
    }

    async fn redrive(&self, limit: u32) -> Result<u32, StoreError> {
        let now = self.now();
        let moved = self.connections.write("redrive dead letters", move |db| db.redrive(limit, now)).await?;
        self.wakeup.notify();
        Ok(moved)
    }

    async fn depth(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.connections.read("count messages", |db| db.depth(queue)).await
    }

    async fn visible(&self, queue: QueueName) -> Result<u64, StoreError> {
        let now = self.now();
        self.connections.read("count visible messages", |db| db.visible(queue, now)).await
    }
}

impl Governance for SqliteStore {
    async fn tenant(&self, tenant: &TenantId) -> Result<Option<Tenant>, StoreError> {
        self.connections.read("read the settings of a tenant", |db| db.tenant(tenant)).await
    }

    async fn put_tenant(&self, tenant: Tenant) -> Result<Write, StoreError> {
        self.connections.write("write the settings of a tenant", move |db| db.put_tenant(&tenant)).await
    }

    async fn fleet(&self) -> Result<Option<Fleet>, StoreError> {
        self.connections.read("read the fleet settings", Db::fleet).await
    }

    async fn settings_eventual(
        &self,
        tenant: &TenantId,
    ) -> Result<(Option<Fleet>, Option<Tenant>), StoreError> {
        self.connections.read("read the dispatch switches", |db| Ok((db.fleet()?, db.tenant(tenant)?))).await
    }

    async fn tenant_eventual(&self, tenant: &TenantId) -> Result<Option<Tenant>, StoreError> {
        self.connections.read("read the dispatch switches", |db| db.tenant(tenant)).await
    }

    async fn put_fleet(&self, fleet: Fleet) -> Result<Write, StoreError> {
        self.connections.write("write the fleet settings", move |db| db.put_fleet(&fleet)).await
    }

    async fn put_policy(
        &self,
        tenant: &TenantId,
        hash: &Digest,
        files: PolicyFiles,
    ) -> Result<(), StoreError> {
        let (tenant, hash) = (tenant.clone(), *hash);
        self.connections.write("store a policy", move |db| db.put_policy(&tenant, &hash, &files)).await
    }

    async fn policy(&self, tenant: &TenantId, hash: &Digest) -> Result<Option<PolicyFiles>, StoreError> {
        self.connections.read("read a policy", |db| db.policy(tenant, hash)).await
    }

    async fn approval(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.connections.read("read an approval request", |db| db.approval(tenant, id)).await
    }

    async fn approvals(&self, run: &RunKey) -> Result<Vec<Approval>, StoreError> {
        self.connections.read("list the approval requests of a run", |db| db.approvals(run)).await
    }

    async fn open_approvals(&self, tenant: &TenantId, query: PageQuery) -> Result<ApprovalPage, StoreError> {
        let after = cursor_row(query.after.as_ref(), "list open approval requests")?;
        self.connections
            .read("list open approval requests", |db| db.open_approvals(tenant, after, query.limit))
            .await
    }

    async fn card(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Option<Card>, StoreError> {
        self.connections.read("read a card", |db| db.card(tenant, id)).await
    }

    async fn put_card(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
        card: Card,
        replaces: Option<Card>,
    ) -> Result<Write, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        let write = move |db: &Db| db.put_card((&tenant, &id), &card, replaces.as_ref());
        self.connections.write("write a card", write).await
    }

    async fn page(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Option<Page>, StoreError> {
        self.connections.read("read a page", |db| db.page(tenant, id)).await
    }

    async fn put_page(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
        page: Page,
        replaces: Option<Page>,
    ) -> Result<Write, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        let write = move |db: &Db| db.put_page((&tenant, &id), &page, replaces.as_ref());
        self.connections.write("write a page", write).await
    }
}

impl Access for SqliteStore {
    async fn key(&self, tenant: &TenantId, id: &KeyId) -> Result<Option<ApiKey>, StoreError> {
        self.connections.read("read an API key", |db| db.key(tenant, id)).await
    }

    async fn put_key(&self, key: ApiKey) -> Result<Write, StoreError> {
        self.connections.write("write an API key", move |db| db.put_key(&key)).await
    }

    async fn keys(&self, tenant: &TenantId, query: PageQuery) -> Result<KeyPage, StoreError> {
        self.connections.read("list the API keys of a tenant", |db| db.keys(tenant, &query)).await
    }
}

impl AuditLog for SqliteStore {
    async fn write_audited(&self, write: AuditedWrite, entry: AuditEntry) -> Result<Write, StoreError> {
        let now = self.now();
        let write = move |db: &Db| db.write_audited(&write, &entry, now);
        self.connections.write("write an administrative change", write).await
    }

    async fn audit(&self, tenant: Option<&TenantId>, query: PageQuery) -> Result<AuditPage, StoreError> {
        self.connections.read("read the audit log", |db| db.audit(tenant, &query)).await
    }

    async fn audit_record(
        &self,
        tenant: Option<&TenantId>,
        sequence: u64,
    ) -> Result<Option<AuditRecord>, StoreError> {
        self.connections.read("read an audit entry", |db| db.audit_record(tenant, sequence)).await
    }

    async fn audit_head(&self, tenant: Option<&TenantId>) -> Result<AuditHead, StoreError> {
        self.connections.read("read the head of the audit log", |db| db.audit_head(tenant)).await
    }
}

impl WorkerRegistry for SqliteStore {
    async fn worker(&self, worker: &WorkerId) -> Result<Option<WorkerRecord>, StoreError> {
        self.connections.read("read a worker record", |db| db.worker(worker)).await
    }

    async fn put_worker(&self, worker: WorkerRecord) -> Result<Write, StoreError> {
        let now = self.now();
        self.connections.write("write a worker record", move |db| db.put_worker(&worker, now)).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        self.connections.read("list the workers", Db::workers).await
    }
}

impl Archive for SqliteStore {
    /// The bundles are in the same file as the ledger, and are restored with it.
    fn bundle_name(&self, run: &RunId) -> String {
        run.to_string()
    }

    async fn append_log(&self, run: &RunKey, leaf: Digest) -> Result<LogPosition, StoreError> {
        let key = run.clone();
        let appended = self
            .connections
            .write("append to the transparency log", move |db| db.append_log(&key, leaf))
            .await?;
        appended.ok_or_else(|| {
            StoreError::broken("append to the transparency log", format!("run {run} does not exist"))
        })
    }

    async fn put_evidence(&self, run: &RunKey, evidence: Evidence) -> Result<Write, StoreError> {
        let run = run.clone();
        self.connections.write("record evidence", move |db| db.put_evidence(&run, &evidence)).await
    }

    async fn load_with_evidence(
        &self,
        run: &RunKey,
    ) -> Result<Option<(RunRecord, Option<Evidence>)>, StoreError> {
        let load = |db: &Db| match db.load(run)? {
            Some(record) => Ok(Some((record, db.evidence(run)?))),
            None => Ok(None),
        };
        self.connections.read("find the evidence of a run", load).await
    }

    async fn evidence(&self, run: &RunKey) -> Result<Option<Evidence>, StoreError> {
        self.connections.read("find the evidence of a run", |db| db.evidence(run)).await
    }
}

impl Blobs for SqliteStore {
    async fn put_blob(
        &self,
        kind: BlobKind,
        tenant: &TenantId,
        bytes: Vec<u8>,
    ) -> Result<BlobRef, StoreError> {
        let (blob, tenant) = (blobs::blob_ref(&bytes), tenant.clone());
        let write = move |db: &Db| db.put_blob((kind, &tenant), &blob, &bytes);
        self.connections.write("store a blob", write).await?;
        Ok(blob)
    }

    async fn blob(
        &self,
        kind: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let doing = "read a blob";
        let bytes = self.connections.read(doing, |db| db.blob((kind, tenant), blob)).await?;
        bytes.map(|bytes| blobs::verify_digest(bytes, blob, doing)).transpose()
    }

    async fn put_bundle(
        &self,
        tenant: &TenantId,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        let write = move |db: &Db| db.put_bundle(&tenant, &name, &bytes);
        self.connections.write("store a bundle", write).await
    }

    async fn bundle(&self, tenant: &TenantId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.connections.read("read a bundle", |db| db.bundle(tenant, name)).await
    }
}

impl Inbox for SqliteStore {
    async fn accept(&self, entry: InboxEntry) -> Result<StoredEntry, StoreError> {
        let now = self.now();
        self.connections.write("store an inbox entry", move |db| db.accept(&entry, now)).await
    }

    async fn entry(&self, run: &RunKey) -> Result<Option<InboxEntry>, StoreError> {
        self.connections.read("read an inbox entry", |db| db.entry(run)).await
    }

    async fn set_status(
        &self,
        run: &RunKey,
        status: InboxStatus,
        expires_at: Timestamp,
    ) -> Result<Write, StoreError> {
        let run = run.clone();
        self.connections
            .write("update an inbox entry", move |db| db.set_status(&run, status.clone(), expires_at))
            .await
    }

    async fn reopen(&self, run: &RunKey, reopen: Reopen) -> Result<Write, StoreError> {
        let run = run.clone();
        self.connections.write("reopen an inbox entry", move |db| db.reopen(&run, &reopen)).await
    }

    async fn postpone_entry(&self, run: &RunKey, due_at: Timestamp) -> Result<Write, StoreError> {
        let run = run.clone();
        self.connections.write("update an inbox entry", move |db| db.postpone_entry(&run, due_at)).await
    }

    async fn apply(&self, applied: AppliedWorkflow, due: Option<Timestamp>) -> Result<Write, StoreError> {
        self.connections.write("apply a workflow", move |db| db.apply(&applied, due)).await
    }

    async fn due_schedules(&self, now: Timestamp, limit: u32) -> Result<Vec<DueSchedule>, StoreError> {
        self.connections.read("find due schedules", |db| db.due_schedules(now, limit)).await
    }

    async fn reschedule(&self, due: &DueSchedule, to: Option<Timestamp>) -> Result<Write, StoreError> {
        let due = due.clone();
        self.connections.write("reschedule a workflow", move |db| db.reschedule(&due, to)).await
    }

    async fn applied(&self, tenant: &TenantId) -> Result<Vec<AppliedWorkflow>, StoreError> {
        self.connections.read("list the applied workflows", |db| db.applied(tenant)).await
    }

    async fn versions(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowName,
    ) -> Result<Vec<AppliedWorkflow>, StoreError> {
        self.connections.read("list the versions of a workflow", |db| db.versions(tenant, workflow)).await
    }
}
