//! The embedded store: one SQLite file, or memory.
//!
//! A file has one writer thread that gathers whatever is waiting into one transaction and syncs once for
//! all of it (group commit), and a few connections for reading. Memory has one connection, used in place,
//! which keeps a simulation single-threaded. Both run the same statements. Several processes may share a
//! file; SQLite's lock orders them, and a touched file beside the database wakes the others.

mod access;
mod archive;
mod db;
mod front;
mod governance;
mod inbox;
mod schema;
mod wake;
mod worker_registry;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::chain::StoredEvent;
use domain::merkle::Position;
use domain::record::Signal;
use domain::{
    ApiKey, Applied, Approval, ApprovalId, BlobRef, Card, Decision, Digest, Evidence, Fleet, IdempotencyKey,
    InboxEntry, InboxStatus, KeyId, Millis, Outgoing, Payload, Plan, QueueName, Receipt, RunKey, RunRecord,
    SignalId, StepRecord, StepSeq, Tenant, TenantId, Ticket, Timestamp, WorkerId, WorkerRecord, WorkflowName,
};
use tokio::time::Instant;

use crate::access::{Access, KeyPage};
use crate::archive::Archive;
use crate::blobs::{self, BlobKind, Blobs};
use crate::clock::{Clock, SystemClock};
use crate::cursor::{Cursor, PageQuery, UnknownCursor};
use crate::error::StoreError;
use crate::governance::{ApprovalPage, Governance, PolicyFiles};
use crate::inbox::{Accepted, Again, DueSchedule, Inbox};
use crate::ledger::{Admission, Holder, InLine, Ledger, RunPage, RunQuery, Write};
use crate::queue::{DeadLetter, Delivery, Handle, Queue, RECEIVES_MAX};
use crate::sqlite::wake::Bell;
use crate::trace;
use crate::worker_registry::WorkerRegistry;

use db::{Db, First};
use front::Front;
pub use front::Usage;

/// If no bell rings (another process on a system without file notices), look this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How the embedded store is opened.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The clock that visibility and delays go by.
    pub clock: Arc<dyn Clock>,
    /// After how many deliveries a message is put aside.
    pub receives_max: u32,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), receives_max: RECEIVES_MAX }
    }
}

/// The embedded store.
#[derive(Clone)]
pub struct SqliteStore {
    front: Arc<Front>,
    bell: Arc<Bell>,
    options: SqliteOptions,
}

impl SqliteStore {
    /// Opens or creates the store in the file at `path`, bringing its schema up to date.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        let path: PathBuf = path.as_ref().into();
        let bell = Bell::for_file(&path);
        let front = Front::file(&path)?;
        Ok(Self { front: Arc::new(front), bell: Arc::new(bell), options })
    }

    /// A store that is gone when it is dropped.
    pub fn memory(options: SqliteOptions) -> Result<Self, StoreError> {
        Ok(Self { front: Arc::new(Front::memory()?), bell: Arc::new(Bell::silent()), options })
    }

    /// A cursor that somebody typed.
    pub fn cursor(text: &str) -> Result<Cursor, UnknownCursor> {
        let cursor = Cursor::new(text);
        row(&cursor).map(|_| cursor)
    }

    /// What the store has done so far, counted.
    pub fn usage(&self) -> Usage {
        self.front.usage()
    }

    /// How many messages ask for something else than a walk, and come before `before` unless they are deleted.
    pub async fn jobs(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.front.read("count jobs", |db| db.jobs(before)).await
    }

    /// Moves what is in the write-ahead log into the database file.
    pub async fn checkpoint(&self) -> Result<(), StoreError> {
        self.front.checkpoint().await
    }

    fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    async fn write_decision(&self, decision: Decision, first: Option<First>) -> Result<Write, StoreError> {
        let now = self.now();
        let sends = !decision.outgoing.is_empty();
        let trace = trace::context_of(&decision.record);
        let write = self
            .front
            .write("commit a decision", move |db| db.commit(&decision, first.as_ref(), trace, now))
            .await?;
        if sends && write == Write::Committed {
            self.bell.ring();
        }
        Ok(write)
    }

    async fn try_receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
    ) -> Result<db::Received, StoreError> {
        // Looking first costs a read; only what is there costs a write.
        let now = self.now();
        let next = self.front.read("look into the queue", |db| db.next_visible(queue)).await?;
        match next {
            Some(at) if at <= now => {
                let limit = self.options.receives_max;
                let receive = move |db: &Db| db.receive(queue, max, now, visibility, limit);
                self.front.write("receive messages", receive).await
            }
            next => Ok(db::Received { deliveries: Vec::new(), next }),
        }
    }

    /// Until when there is nothing to receive, unless the bell rings.
    fn until(&self, next: Option<Timestamp>, deadline: Instant) -> Instant {
        let look = Instant::now() + self.bell.patience(LOOK_EVERY);
        let visible = next.map(|at| Instant::now() + (at - self.now()).std().max(Duration::from_millis(1)));
        visible.into_iter().chain([look, deadline]).min().unwrap_or(deadline)
    }
}

/// The row that a page ended with.
fn place(cursor: Option<&Cursor>, doing: &'static str) -> Result<Option<i64>, StoreError> {
    cursor.map(row).transpose().map_err(|error| StoreError::broken(doing, error))
}

fn row(cursor: &Cursor) -> Result<i64, UnknownCursor> {
    cursor.as_str().parse().map_err(|_| UnknownCursor(cursor.to_string()))
}

impl Ledger for SqliteStore {
    async fn put_plan(&self, tenant: &TenantId, plan: &Plan) -> Result<(), StoreError> {
        let (tenant, plan) = (tenant.clone(), plan.clone());
        self.front.write("keep a plan", move |db| db.put_plan(&tenant, &plan)).await
    }

    async fn plan(&self, tenant: &TenantId, hash: &Digest) -> Result<Option<Plan>, StoreError> {
        self.front.read("read a plan", |db| db.plan(tenant, hash)).await
    }

    async fn admit(&self, admission: Admission) -> Result<Write, StoreError> {
        let Admission { decision, input, hold } = admission;
        self.write_decision(decision, Some(First { input, hold })).await
    }

    async fn holder(&self, tenant: &TenantId, ticket: &Ticket) -> Result<Option<Holder>, StoreError> {
        self.front.read("find who has a ticket", |db| db.holder(tenant, ticket)).await
    }

    async fn enqueue_waiter(
        &self,
        tenant: &TenantId,
        ticket: &Ticket,
        stands: Holder,
        next: InLine,
    ) -> Result<Write, StoreError> {
        let (tenant, ticket) = (tenant.clone(), *ticket);
        let write = move |db: &Db| db.enqueue_waiter((&tenant, &ticket), &stands, &next);
        self.front.write("wait for a ticket", write).await
    }

    async fn commit(&self, decision: Decision) -> Result<Write, StoreError> {
        self.write_decision(decision, None).await
    }

    async fn load(&self, run: &RunKey) -> Result<Option<RunRecord>, StoreError> {
        self.front.read("load a run", |db| db.load(run)).await
    }

    async fn input(&self, run: &RunKey) -> Result<Option<Payload>, StoreError> {
        self.front.read("read a run's input", |db| db.input(run)).await
    }

    async fn step(&self, run: &RunKey, seq: StepSeq, undo: bool) -> Result<Option<StepRecord>, StoreError> {
        let steps = self.front.read("read a step", |db| db.steps(run, Some((seq, undo)))).await?;
        Ok(steps.into_iter().next())
    }

    async fn steps(&self, run: &RunKey) -> Result<Vec<StepRecord>, StoreError> {
        self.front.read("read a run's steps", |db| db.steps(run, None)).await
    }

    async fn events(&self, run: &RunKey, from: u32, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        self.front.read("read a run's events", |db| db.events(run, from, limit)).await
    }

    async fn history(
        &self,
        run: &RunKey,
        limit: u32,
    ) -> Result<(Vec<StoredEvent>, Vec<StepRecord>), StoreError> {
        let read = |db: &Db| Ok((db.events(run, 0, limit)?, db.steps(run, None)?));
        self.front.read("read a run's history", read).await
    }

    async fn receipt(&self, tenant: &TenantId, key: &IdempotencyKey) -> Result<Option<Receipt>, StoreError> {
        self.front.read("read a receipt", |db| db.receipt(tenant, key)).await
    }

    async fn displaced(&self, run: &RunKey, key: &IdempotencyKey) -> Result<Option<Receipt>, StoreError> {
        self.front.read("read a displaced receipt", |db| db.displaced(run, key)).await
    }

    async fn signal(&self, run: &RunKey, id: &SignalId) -> Result<Option<Signal>, StoreError> {
        self.front.read("read a signal", |db| db.signal(run, id)).await
    }

    async fn runs(&self, tenant: &TenantId, query: RunQuery) -> Result<RunPage, StoreError> {
        let before = place(query.before.as_ref(), "list runs")?;
        self.front.read("list runs", |db| db.runs(tenant, &query, before)).await
    }

    async fn due_excluding(
        &self,
        but: &BTreeSet<TenantId>,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<RunKey>, StoreError> {
        self.front.read("find due runs", |db| db.due_excluding(but, now, limit)).await
    }

    async fn tenants(&self) -> Result<Vec<TenantId>, StoreError> {
        self.front.read("find tenants", Db::tenants).await
    }

    async fn flush(&self, _now: Timestamp, _limit: u32) -> Result<u32, StoreError> {
        // A commit and its messages are one transaction.
        Ok(0)
    }
}

impl Queue for SqliteStore {
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        let (message, now) = (message.clone(), self.now());
        let trace = trace::context_for(&message.run);
        self.front.write("send a message", move |db| db.send(&message, trace, now)).await?;
        self.bell.ring();
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
            let heard = self.bell.listen();
            let received = self.try_receive(queue, max, visibility).await?;
            if !received.deliveries.is_empty() || Instant::now() >= deadline {
                return Ok(received.deliveries);
            }
            // Whichever comes first; an early wake only means another look.
            let _ = tokio::time::timeout_at(self.until(received.next, deadline), heard.wait()).await;
        }
    }

    async fn extend(&self, handle: &Handle, visibility: Millis) -> Result<bool, StoreError> {
        let (handle, at) = (handle.clone(), self.now() + visibility);
        let extended = self.front.write("extend a message", move |db| db.extend(&handle, at)).await?;
        // It may be visible sooner than before, and whoever waits goes by what they saw.
        self.bell.ring();
        Ok(extended)
    }

    async fn delete(&self, handle: &Handle) -> Result<bool, StoreError> {
        let handle = handle.clone();
        self.front.write("delete a message", move |db| db.delete(&handle)).await
    }

    async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.front.read("read dead letters", |db| db.dead_letters(limit)).await
    }

    async fn redrive(&self, limit: u32) -> Result<u32, StoreError> {
        let now = self.now();
        let moved = self.front.write("redrive dead letters", move |db| db.redrive(limit, now)).await?;
        self.bell.ring();
        Ok(moved)
    }

    async fn depth(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.front.read("count messages", |db| db.depth(queue)).await
    }

    async fn waiting(&self, queue: QueueName) -> Result<u64, StoreError> {
        let now = self.now();
        self.front.read("count messages that wait", |db| db.waiting(queue, now)).await
    }
}

impl Governance for SqliteStore {
    async fn tenant(&self, tenant: &TenantId) -> Result<Option<Tenant>, StoreError> {
        self.front.read("read a tenant", |db| db.tenant(tenant)).await
    }

    async fn put_tenant(&self, tenant: Tenant) -> Result<Write, StoreError> {
        self.front.write("write a tenant", move |db| db.put_tenant(&tenant)).await
    }

    async fn fleet(&self) -> Result<Option<Fleet>, StoreError> {
        self.front.read("read the fleet's switch", Db::fleet).await
    }

    async fn eventual(&self, tenant: &TenantId) -> Result<(Option<Fleet>, Option<Tenant>), StoreError> {
        self.front.read("read the switches", |db| Ok((db.fleet()?, db.tenant(tenant)?))).await
    }

    async fn put_fleet(&self, fleet: Fleet) -> Result<Write, StoreError> {
        self.front.write("write the fleet's switch", move |db| db.put_fleet(&fleet)).await
    }

    async fn put_policy(
        &self,
        tenant: &TenantId,
        hash: &Digest,
        files: PolicyFiles,
    ) -> Result<(), StoreError> {
        let (tenant, hash) = (tenant.clone(), *hash);
        self.front.write("keep a policy", move |db| db.put_policy(&tenant, &hash, &files)).await
    }

    async fn policy(&self, tenant: &TenantId, hash: &Digest) -> Result<Option<PolicyFiles>, StoreError> {
        self.front.read("read a policy", |db| db.policy(tenant, hash)).await
    }

    async fn approval(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.front.read("read an approval", |db| db.approval(tenant, id)).await
    }

    async fn approvals(&self, run: &RunKey) -> Result<Vec<Approval>, StoreError> {
        self.front.read("read a run's approvals", |db| db.approvals(run)).await
    }

    async fn open_approvals(&self, tenant: &TenantId, query: PageQuery) -> Result<ApprovalPage, StoreError> {
        let after = place(query.after.as_ref(), "list open approvals")?;
        self.front.read("list open approvals", |db| db.open_approvals(tenant, after, query.limit)).await
    }

    async fn card(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Option<Card>, StoreError> {
        self.front.read("read a card", |db| db.card(tenant, id)).await
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
        self.front.write("write a card", write).await
    }
}

impl Access for SqliteStore {
    async fn key(&self, tenant: &TenantId, id: &KeyId) -> Result<Option<ApiKey>, StoreError> {
        self.front.read("read a key", |db| db.key(tenant, id)).await
    }

    async fn put_key(&self, key: ApiKey) -> Result<Write, StoreError> {
        self.front.write("write a key", move |db| db.put_key(&key)).await
    }

    async fn keys(&self, tenant: &TenantId, query: PageQuery) -> Result<KeyPage, StoreError> {
        self.front.read("read a tenant's keys", |db| db.keys(tenant, &query)).await
    }
}

impl WorkerRegistry for SqliteStore {
    async fn registered_worker(&self, worker: &WorkerId) -> Result<Option<WorkerRecord>, StoreError> {
        self.front.read("find a worker", |db| db.registered_worker(worker)).await
    }

    async fn put_worker(&self, worker: WorkerRecord) -> Result<Write, StoreError> {
        let now = self.now();
        self.front.write("sign the roll", move |db| db.put_worker(&worker, now)).await
    }

    async fn roll(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        self.front.read("read the roll", Db::roll).await
    }
}

impl Archive for SqliteStore {
    const LOG_FOR_EACH_TENANT: bool = false;

    async fn append_log(&self, run: &RunKey, leaf: Digest) -> Result<Position, StoreError> {
        let key = run.clone();
        let appended = self.front.write("append to the log", move |db| db.append_log(&key, leaf)).await?;
        appended.ok_or_else(|| StoreError::broken("append to the log", format!("there is no run {run}")))
    }

    async fn put_evidence(&self, run: &RunKey, evidence: Evidence) -> Result<Write, StoreError> {
        let run = run.clone();
        self.front.write("record evidence", move |db| db.put_evidence(&run, &evidence)).await
    }

    async fn filed(&self, run: &RunKey) -> Result<Option<(RunRecord, Option<Evidence>)>, StoreError> {
        let filed = |db: &Db| match db.load(run)? {
            Some(record) => Ok(Some((record, db.evidence(run)?))),
            None => Ok(None),
        };
        self.front.read("find evidence", filed).await
    }

    async fn evidence(&self, run: &RunKey) -> Result<Option<Evidence>, StoreError> {
        self.front.read("find evidence", |db| db.evidence(run)).await
    }
}

impl Blobs for SqliteStore {
    async fn put_blob(&self, on: BlobKind, tenant: &TenantId, bytes: Vec<u8>) -> Result<BlobRef, StoreError> {
        let (blob, tenant) = (blobs::pointer(&bytes), tenant.clone());
        let write = move |db: &Db| db.put_blob((on, &tenant), &blob, &bytes);
        self.front.write("keep a blob", write).await?;
        Ok(blob)
    }

    async fn blob(
        &self,
        on: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let doing = "read a blob";
        let bytes = self.front.read(doing, |db| db.blob((on, tenant), blob)).await?;
        bytes.map(|bytes| blobs::unaltered(bytes, blob, doing)).transpose()
    }
}

impl Inbox for SqliteStore {
    async fn accept(&self, entry: InboxEntry) -> Result<Accepted, StoreError> {
        let now = self.now();
        self.front.write("keep an entry", move |db| db.accept(&entry, now)).await
    }

    async fn entry(&self, run: &RunKey) -> Result<Option<InboxEntry>, StoreError> {
        self.front.read("read an entry", |db| db.entry(run)).await
    }

    async fn settle(
        &self,
        run: &RunKey,
        status: InboxStatus,
        forget_at: Timestamp,
    ) -> Result<Write, StoreError> {
        let run = run.clone();
        self.front.write("settle an entry", move |db| db.settle(&run, status.clone(), forget_at)).await
    }

    async fn reopen(&self, run: &RunKey, again: Again) -> Result<Write, StoreError> {
        let run = run.clone();
        self.front.write("reopen an entry", move |db| db.reopen(&run, &again)).await
    }

    async fn apply(&self, applied: Applied, due: Option<Timestamp>) -> Result<Write, StoreError> {
        self.front.write("put a workflow to use", move |db| db.apply(&applied, due)).await
    }

    async fn due_schedules(&self, now: Timestamp, limit: u32) -> Result<Vec<DueSchedule>, StoreError> {
        self.front.read("find due schedules", |db| db.due_schedules(now, limit)).await
    }

    async fn reschedule(&self, due: &DueSchedule, to: Option<Timestamp>) -> Result<Write, StoreError> {
        let due = due.clone();
        self.front.write("reschedule a workflow", move |db| db.reschedule(&due, to)).await
    }

    async fn applied(&self, tenant: &TenantId) -> Result<Vec<Applied>, StoreError> {
        self.front.read("read the workflows in use", |db| db.applied(tenant)).await
    }

    async fn versions(&self, tenant: &TenantId, workflow: &WorkflowName) -> Result<Vec<Applied>, StoreError> {
        self.front.read("read a workflow's versions", |db| db.versions(tenant, workflow)).await
    }
}
