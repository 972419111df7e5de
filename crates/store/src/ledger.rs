//! The ledger: runs, plans, receipts and event chains.

use std::collections::BTreeSet;
use std::future::Future;

use domain::chain::StoredEvent;
use domain::record::Signal;
use domain::{
    ConcurrencyKey, Decision, Digest, IdempotencyKey, Millis, Payload, Plan, Receipt, RecordName, RunId,
    RunKey, RunRecord, RunStatus, SignalId, StepRecord, StepSeq, TenantId, Timestamp, WorkspaceId,
};

use crate::cursor::Cursor;
use crate::error::StoreError;

/// The result of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Everything is stored durably, and the messages of the write will be delivered.
    Committed,
    /// Nothing is stored: the state that the write was decided from has changed since.
    Superseded,
}

/// The first commit of a run, and the values that are stored with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// The decision that creates the run.
    pub decision: Decision,
    /// The input of the run.
    pub input: Payload,
    /// The concurrency key that the run acquires, if its workflow has one.
    pub hold: Option<KeyAcquisition>,
}

/// A run acquires a concurrency key in the commit that creates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAcquisition {
    /// The concurrency key.
    pub concurrency_key: ConcurrencyKey,
    /// The previous holder, which has finished; `None` if the key was never held.
    pub previous_holder: Option<RunId>,
}

/// The holder of a concurrency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHolder {
    /// The run that acquired the key last.
    pub run: RunId,
    /// The first waiter.
    pub next: Option<Waiter>,
}

/// A pending inbox entry in the wait queue of a concurrency key. Wait queues are ordered by `since`, then by `run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// The run that will be started when the key is free.
    pub run: RunId,
    /// The time at which it began to wait.
    pub since: Timestamp,
    /// The time at which it was woken because the key is free.
    pub woken: Option<Timestamp>,
}

/// An entry of the due index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A run that can advance.
    Run(RunKey),
    /// A pending inbox entry, under the run that it may start.
    Entry(RunKey),
}

impl Due {
    /// The run, or the run that the inbox entry may start.
    pub fn run(&self) -> &RunKey {
        match self {
            Self::Run(run) | Self::Entry(run) => run,
        }
    }
}

/// Lists are ordered by commit time, and queries filter by admission time. The two differ by the duration of a
/// commit and by clock skew, so a query by time extends its index range by this much.
pub(crate) const ORDER_SLACK: Millis = Millis::secs(10);

/// The empty set of tenants: [`Ledger::due`] excludes none.
pub(crate) static NO_TENANTS: BTreeSet<TenantId> = BTreeSet::new();

/// A query for runs, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunQuery {
    /// Only runs in this status.
    pub status: Option<RunStatus>,
    /// Only runs about this record of an external system.
    pub record: Option<RecordName>,
    /// Only runs of this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Only runs admitted at this time or later.
    pub since: Option<Timestamp>,
    /// Only runs admitted before this time.
    pub until: Option<Timestamp>,
    /// The `next` cursor of the previous page; `None` reads the first page.
    pub before: Option<Cursor>,
    /// The maximum number of runs of the page.
    pub limit: u32,
}

impl RunQuery {
    /// A query for the newest runs, without filters.
    pub fn newest(limit: u32) -> Self {
        Self { status: None, record: None, workspace: None, since: None, until: None, before: None, limit }
    }

    /// Whether `run` passes the filters.
    pub fn matches(&self, run: &RunRecord) -> bool {
        self.status.is_none_or(|status| run.status == status)
            && self.record.as_ref().is_none_or(|record| run.trigger.record.as_ref() == Some(record))
            && self.workspace.as_ref().is_none_or(|workspace| run.workspace == *workspace)
            && self.since.is_none_or(|since| run.created_at >= since)
            && self.until.is_none_or(|until| run.created_at < until)
    }
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage {
    /// The runs of this page.
    pub runs: Vec<RunRecord>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<Cursor>,
}

/// Runs, plans, receipts and event chains. Reads are strongly consistent: they see every write that was committed
/// before. Methods that read an index ([`Ledger::runs`], [`Ledger::due`], [`Ledger::tenants`]) may be late; their
/// results are candidates.
pub trait Ledger {
    /// How long after its commit a run may be missing from an index. A reader that must find every run waits this long.
    const INDEX_DELAY: Millis = Millis(0);

    /// Stores `plan` under its hash. Storing it again has no effect.
    fn put_plan(&self, tenant: &TenantId, plan: &Plan)
    -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Reads the plan with this hash.
    fn plan(
        &self,
        tenant: &TenantId,
        hash: &Digest,
    ) -> impl Future<Output = Result<Option<Plan>, StoreError>> + Send;

    /// Creates a run with its input and, if `admission.hold` is set, makes it the holder of the concurrency key.
    /// Atomic. `Superseded` if a run with this key exists, or if the last holder of the concurrency key is not
    /// `hold.previous_holder`.
    fn admit(&self, admission: Admission) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Reads the holder of a concurrency key and the first waiter. `None` if the key was never held.
    fn holder(
        &self,
        tenant: &TenantId,
        concurrency_key: &ConcurrencyKey,
    ) -> impl Future<Output = Result<Option<KeyHolder>, StoreError>> + Send;

    /// Adds a waiter to the wait queue of a concurrency key, or replaces the one with the same run and `since`.
    fn enqueue_waiter(
        &self,
        tenant: &TenantId,
        concurrency_key: &ConcurrencyKey,
        waiter: Waiter,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Removes a waiter from the wait queue of a concurrency key, if it is there.
    fn remove_waiter(
        &self,
        tenant: &TenantId,
        concurrency_key: &ConcurrencyKey,
        waiter: Waiter,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Commits a decision about a run. Atomic: the record, the events, the step records, the receipts, the receipts
    /// that they displace, the signals and the approval requests are all stored, or none is. After a commit, its
    /// messages are delivered at least once. A store may also deliver a message of a commit that failed; its receiver
    /// finds nothing to do.
    ///
    /// `Superseded` if the stored version of the run is not `decision.replaces`, if a receipt does not replace the
    /// revision that it names, if a signal to record exists or a signal to use does not, or if an approval request
    /// is not newer than the stored one.
    fn commit(&self, decision: Decision) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Reads the record of a run.
    fn load(&self, run: &RunKey) -> impl Future<Output = Result<Option<RunRecord>, StoreError>> + Send;

    /// Reads the input of a run.
    fn input(&self, run: &RunKey) -> impl Future<Output = Result<Option<Payload>, StoreError>> + Send;

    /// Reads the record of a finished step, or of its rollback.
    fn step(
        &self,
        run: &RunKey,
        seq: StepSeq,
        rollback: bool,
    ) -> impl Future<Output = Result<Option<StepRecord>, StoreError>> + Send;

    /// Reads the records of all finished steps and undos, in the order in which they finished.
    fn steps(&self, run: &RunKey) -> impl Future<Output = Result<Vec<StepRecord>, StoreError>> + Send;

    /// Reads at most `limit` events of the chain, starting with event `from`.
    fn events(
        &self,
        run: &RunKey,
        from: u32,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<StoredEvent>, StoreError>> + Send;

    /// Reads at most `limit` events of the chain and the records of all finished steps, in one read.
    fn history(
        &self,
        run: &RunKey,
        limit: u32,
    ) -> impl Future<Output = Result<(Vec<StoredEvent>, Vec<StepRecord>), StoreError>> + Send;

    /// Reads the receipt under an idempotency key.
    fn receipt(
        &self,
        tenant: &TenantId,
        key: &IdempotencyKey,
    ) -> impl Future<Output = Result<Option<Receipt>, StoreError>> + Send;

    /// Reads the receipt that `run` wrote under `key` and that a receipt of another run replaced.
    fn displaced(
        &self,
        run: &RunKey,
        key: &IdempotencyKey,
    ) -> impl Future<Output = Result<Option<Receipt>, StoreError>> + Send;

    /// Reads a signal that was delivered to the run.
    fn signal(
        &self,
        run: &RunKey,
        id: &SignalId,
    ) -> impl Future<Output = Result<Option<Signal>, StoreError>> + Send;

    /// A page of a tenant's runs, from an index.
    fn runs(
        &self,
        tenant: &TenantId,
        query: RunQuery,
    ) -> impl Future<Output = Result<RunPage, StoreError>> + Send;

    /// Runs and pending inbox entries whose due time has passed, longest overdue first, from the due index. The result
    /// is a list of candidates: read each run or entry before acting on it.
    fn due(&self, now: Timestamp, limit: u32) -> impl Future<Output = Result<Vec<Due>, StoreError>> + Send {
        self.due_excluding(&NO_TENANTS, now, limit)
    }

    /// The same without `excluded` tenants, which do not count towards `limit`.
    fn due_excluding(
        &self,
        excluded: &BTreeSet<TenantId>,
        now: Timestamp,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Due>, StoreError>> + Send;

    /// The first `limit` tenants after `after` that have unfinished runs, in order, from an index. May include tenants
    /// whose runs have all finished.
    fn tenants(
        &self,
        after: Option<&TenantId>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<TenantId>, StoreError>> + Send;

    /// Sends messages that a process committed but did not send, because it died or the queue was unavailable: at
    /// most `limit`. Returns the number sent. Returns 0 if the store sends messages as part of its commits.
    fn flush(&self, now: Timestamp, limit: u32) -> impl Future<Output = Result<u32, StoreError>> + Send;
}
