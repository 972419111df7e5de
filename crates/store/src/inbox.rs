//! The inbox: what came in from outside, and the workflows it may start.

use std::future::Future;

use domain::{Applied, InboxEntry, InboxStatus, RunKey, TenantId, Timestamp, WorkflowName};

use crate::error::StoreError;
use crate::ledger::Write;

/// What became of an entry at the door.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepted {
    /// It is kept, durably.
    New,
    /// This one was here before, under the same key or with the same proof, or told the same just now.
    Known(Box<InboxEntry>),
}

/// An entry that is taken up once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    /// What became of it before.
    pub was: InboxStatus,
    /// How often it was refused.
    pub tries: u32,
    /// Until when it is kept now.
    pub keep_until: Timestamp,
}

/// A workflow in use whose time has come.
#[derive(Debug, Clone, PartialEq)]
pub struct DueSchedule {
    /// Which one.
    pub applied: Applied,
    /// When it was due.
    pub at: Timestamp,
}

/// Arrivals, and the workflows that a tenant has put to use.
pub trait Inbox {
    /// Keeps an entry, unless one with its key or its proof is there, or one that it
    /// [is_duplicate_of](InboxEntry::is_duplicate_of). It may be forgotten once
    /// [`InboxEntry::kept_until`] has passed.
    fn accept(&self, entry: InboxEntry) -> impl Future<Output = Result<Accepted, StoreError>> + Send;

    /// The entry that may start `run`.
    fn entry(&self, run: &RunKey) -> impl Future<Output = Result<Option<InboxEntry>, StoreError>> + Send;

    /// Records what became of an entry. Superseded unless it waits. It may be forgotten at `forget_at`.
    fn settle(
        &self,
        run: &RunKey,
        status: InboxStatus,
        forget_at: Timestamp,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Lets an entry wait again. Superseded unless `again.was` is what became of it.
    fn reopen(&self, run: &RunKey, again: Again) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Puts a workflow to use. Superseded unless it [follows](Applied::follows) the one that is in use. It is due at
    /// `due`; if it has the trigger of the one that was in use, when that was due.
    fn apply(
        &self,
        applied: Applied,
        due: Option<Timestamp>,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Workflows that were due at `now` or before, longest overdue first, through an index.
    fn due_schedules(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<DueSchedule>, StoreError>> + Send;

    /// Makes a workflow due at `to`, or never again. Superseded unless it is in use and due when `due` says.
    fn reschedule(
        &self,
        due: &DueSchedule,
        to: Option<Timestamp>,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// The workflows in use, by name; the newest version of each.
    fn applied(&self, tenant: &TenantId) -> impl Future<Output = Result<Vec<Applied>, StoreError>> + Send;

    /// Every version of a workflow that was put to use, the newest first.
    fn versions(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowName,
    ) -> impl Future<Output = Result<Vec<Applied>, StoreError>> + Send;
}
