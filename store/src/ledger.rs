//! The ledger: runs, plans, receipts and the chain.

use std::future::Future;

use domain::chain::StoredEvent;
use domain::record::Signal;
use domain::{
    Decision, Digest, IdempotencyKey, Payload, Plan, Receipt, RunId, RunKey, RunRecord, RunStatus, SignalId,
    StepRecord, StepSeq, TenantId, Ticket, Timestamp,
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

/// Which runs are wanted, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunQuery {
    /// Whose.
    pub tenant: TenantId,
    /// In which status; any, if absent.
    pub status: Option<RunStatus>,
    /// Where the last page ended.
    pub before: Option<Cursor>,
    /// At most how many.
    pub limit: u32,
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
    fn line_up(
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
    fn runs(&self, query: RunQuery) -> impl Future<Output = Result<RunPage, StoreError>> + Send;

    /// Runs whose due time has passed, longest overdue first, through an index. Candidates only: the
    /// record decides.
    fn due(&self, now: Timestamp, limit: u32)
    -> impl Future<Output = Result<Vec<RunKey>, StoreError>> + Send;

    /// Sends messages of commits that were left behind by whoever committed, at most `limit` of them; says how
    /// many. A store whose commits send their messages themselves has none.
    fn flush(&self, now: Timestamp, limit: u32) -> impl Future<Output = Result<u32, StoreError>> + Send;
}
