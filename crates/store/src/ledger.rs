//! The ledger: runs, plans, receipts and the chain.

use std::collections::BTreeSet;
use std::future::Future;

use domain::chain::StoredEvent;
use domain::record::Signal;
use domain::{
    Decision, Digest, IdempotencyKey, Millis, Payload, Plan, Receipt, RecordName, RunId, RunKey, RunRecord,
    RunStatus, SignalId, StepRecord, StepSeq, TenantId, Ticket, Timestamp,
};

use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::error::StoreError;

/// What became of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// All of it is kept, durably, and its messages will be delivered.
    Committed,
    /// None of it is kept: what the decision was made from has changed since.
    Superseded,
}

/// The first commit of a run, with what came with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// The decision.
    pub decision: Decision,
    /// The run's input.
    pub input: Payload,
    /// The ticket that the run takes, if it is about one.
    pub hold: Option<Hold>,
}

/// A run takes a ticket in the commit that begins it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Which ticket.
    pub ticket: Ticket,
    /// The run that took it last, and is over; `None`, if nobody ever did.
    pub after: Option<RunId>,
}

/// Who has a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The run that took it last.
    pub run: RunId,
    /// Who is next.
    pub next: Option<InLine>,
}

/// Somebody who waits for a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InLine {
    /// The run that would take it.
    pub run: RunId,
    /// Since when it waits.
    pub since: Timestamp,
    /// When it last looked.
    pub seen: Timestamp,
}

/// Lists go by the order in which runs were committed, times by when they were admitted. The two differ by what a commit
/// may take and a clock be wrong; whoever looks for a time in a list looks this far around it.
pub(crate) const ORDER_SLACK: Millis = Millis::secs(10);

/// No tenant is passed over.
pub(crate) static NOBODY: BTreeSet<TenantId> = BTreeSet::new();

/// Which runs are wanted, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunQuery {
    /// In which status; any, if absent.
    pub status: Option<RunStatus>,
    /// About which record outside; any or none, if absent.
    pub record: Option<RecordName>,
    /// Admitted at this time or later.
    pub since: Option<Timestamp>,
    /// Admitted before this time.
    pub until: Option<Timestamp>,
    /// Where the last page ended.
    pub before: Option<Cursor>,
    /// At most how many.
    pub limit: u32,
}

impl RunQuery {
    /// The newest runs, whatever they are about and wherever they stand.
    pub fn newest(limit: u32) -> Self {
        Self { status: None, record: None, since: None, until: None, before: None, limit }
    }

    /// Whether a run of the tenant is among those wanted.
    pub fn wants(&self, run: &RunRecord) -> bool {
        self.status.is_none_or(|status| run.status == status)
            && self.record.as_ref().is_none_or(|record| run.trigger.record.as_ref() == Some(record))
            && self.since.is_none_or(|since| run.created_at >= since)
            && self.until.is_none_or(|until| run.created_at < until)
    }
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunRecord>,
    /// Where the next page starts, if there is one.
    pub next: Option<Cursor>,
}

/// Runs, plans, receipts and the chain. Reads that decide see every write that was committed before.
pub trait Ledger {
    /// Keeps `plan` under its hash. Keeping it twice changes nothing.
    fn put_plan(&self, tenant: &TenantId, plan: &Plan)
    -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The plan with this hash.
    fn plan(
        &self,
        tenant: &TenantId,
        hash: &Digest,
    ) -> impl Future<Output = Result<Option<Plan>, StoreError>> + Send;

    /// Begins a run. Superseded if there is one of this key already, or if its ticket was taken last by another
    /// run than the one that it names. A run that is not begun takes no ticket.
    fn admit(&self, admission: Admission) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Who took `ticket` last, and who is next.
    fn holder(
        &self,
        tenant: &TenantId,
        ticket: &Ticket,
    ) -> impl Future<Output = Result<Option<Holder>, StoreError>> + Send;

    /// Makes `next` the first of those that wait for `ticket`. Superseded unless it is held as `stands` says. Whoever
    /// takes the ticket finds nobody in line.
    fn enqueue_waiter(
        &self,
        tenant: &TenantId,
        ticket: &Ticket,
        stands: Holder,
        next: InLine,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Commits a decision about a run: the record if its version is the one decided from, its events and
    /// step records, its receipts if each replaces the revision it names, what they displace, its signals,
    /// and its messages. All or nothing.
    fn commit(&self, decision: Decision) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// The run's record.
    fn load(&self, run: &RunKey) -> impl Future<Output = Result<Option<RunRecord>, StoreError>> + Send;

    /// The run's input.
    fn input(&self, run: &RunKey) -> impl Future<Output = Result<Option<Payload>, StoreError>> + Send;

    /// The record of a step that ended, or of its undoing.
    fn step(
        &self,
        run: &RunKey,
        seq: StepSeq,
        undo: bool,
    ) -> impl Future<Output = Result<Option<StepRecord>, StoreError>> + Send;

    /// The records of all steps that ended, in the order they did.
    fn steps(&self, run: &RunKey) -> impl Future<Output = Result<Vec<StepRecord>, StoreError>> + Send;

    /// The chain from event `from` on, at most `limit` entries.
    fn events(
        &self,
        run: &RunKey,
        from: u32,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<StoredEvent>, StoreError>> + Send;

    /// The whole chain of a run, at most `limit` entries, and the records of all steps that ended, in one reading.
    fn history(
        &self,
        run: &RunKey,
        limit: u32,
    ) -> impl Future<Output = Result<(Vec<StoredEvent>, Vec<StepRecord>), StoreError>> + Send;

    /// The receipt under `key`.
    fn receipt(
        &self,
        tenant: &TenantId,
        key: &IdempotencyKey,
    ) -> impl Future<Output = Result<Option<Receipt>, StoreError>> + Send;

    /// The receipt that `run` left under `key` before another run's took its place.
    fn displaced(
        &self,
        run: &RunKey,
        key: &IdempotencyKey,
    ) -> impl Future<Output = Result<Option<Receipt>, StoreError>> + Send;

    /// An event that was delivered to the run.
    fn signal(
        &self,
        run: &RunKey,
        id: &SignalId,
    ) -> impl Future<Output = Result<Option<Signal>, StoreError>> + Send;

    /// Runs of a tenant, through an index.
    fn runs(
        &self,
        tenant: &TenantId,
        query: RunQuery,
    ) -> impl Future<Output = Result<RunPage, StoreError>> + Send;

    /// Runs whose due time has passed, longest overdue first, through an index. Candidates only: the
    /// record decides.
    fn due(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RunKey>, StoreError>> + Send {
        self.due_excluding(&NOBODY, now, limit)
    }

    /// The same but for the runs of these tenants, which are passed over in the index and do not count.
    fn due_excluding(
        &self,
        but: &BTreeSet<TenantId>,
        now: Timestamp,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RunKey>, StoreError>> + Send;

    /// The tenants that have runs which are not over, through an index; perhaps others that have runs.
    fn tenants(&self) -> impl Future<Output = Result<Vec<TenantId>, StoreError>> + Send;

    /// Sends messages of commits that were left behind by whoever committed, at most `limit` of them; says how
    /// many. A store whose commits send their messages themselves has none.
    fn flush(&self, now: Timestamp, limit: u32) -> impl Future<Output = Result<u32, StoreError>> + Send;
}
