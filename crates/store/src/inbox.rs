//! The inbox: inbound events, and the workflows that they may start.

use std::future::Future;

use domain::{AppliedWorkflow, InboxEntry, InboxStatus, RunKey, TenantId, Timestamp, WorkflowName};

use crate::error::StoreError;
use crate::ledger::Write;

/// The result of [`Inbox::accept`].
#[derive(Debug, Clone, PartialEq)]
pub enum StoredEntry {
    /// The entry is stored durably.
    New,
    /// An entry with the same idempotency key, the same authentication proof, or the same dedupe key within
    /// [`domain::inbox::DUPLICATE_WITHIN`] is already stored. Nothing was written.
    Duplicate(Box<InboxEntry>),
}

/// Returns a processed entry to `pending`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reopen {
    /// The expected status of the entry.
    pub was: InboxStatus,
    /// The number of attempts so far.
    pub tries: u32,
    /// When the sweep sends the message of the entry again.
    pub due_at: Timestamp,
}

/// A scheduled workflow that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct DueSchedule {
    /// The applied version of the workflow.
    pub applied: AppliedWorkflow,
    /// The time at which it was due.
    pub at: Timestamp,
}

/// Inbox entries, and the workflows that a tenant has applied.
pub trait Inbox {
    /// Stores an entry, unless there is one with its idempotency key (which determines the run id), with its proof,
    /// or one that it [is a duplicate of](InboxEntry::is_duplicate_of). Every stored entry has its proof and its dedupe
    /// key; a store that fails in between leaves at most a proof, under which the same request is accepted later. A
    /// pending entry is in the due index, and never expires. Others expire after [`InboxEntry::expires_at`].
    fn accept(&self, entry: InboxEntry) -> impl Future<Output = Result<StoredEntry, StoreError>> + Send;

    /// Reads the entry that may start `run`, strongly consistent.
    fn entry(&self, run: &RunKey) -> impl Future<Output = Result<Option<InboxEntry>, StoreError>> + Send;

    /// Sets the status of a pending entry and its expiry, and removes it from the due index. `Superseded` if the entry
    /// is missing or not pending.
    fn set_status(
        &self,
        run: &RunKey,
        status: InboxStatus,
        expires_at: Timestamp,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Returns an entry to `pending`. `Superseded` if its status is not `reopen.was`.
    fn reopen(&self, run: &RunKey, reopen: Reopen) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Sets the due time of a pending entry. `Superseded` if the entry is missing or not pending.
    fn postpone_entry(
        &self,
        run: &RunKey,
        due_at: Timestamp,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Applies a version of a workflow and stores it in the list of versions, atomically. `Superseded` if it does
    /// not [replace](AppliedWorkflow::may_replace) the current version. The schedule is due at `due`; if the trigger is
    /// unchanged, the current due time stays.
    fn apply(
        &self,
        applied: AppliedWorkflow,
        due: Option<Timestamp>,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Workflows that are due at `now`, longest overdue first, from the due index. An entry that cannot be decoded
    /// is logged and skipped.
    fn due_schedules(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<DueSchedule>, StoreError>> + Send;

    /// Moves the due time of a workflow to `to`; `None` removes it from the due index. `Superseded` if another plan
    /// is applied, or if the workflow is not due at `due.at`.
    fn reschedule(
        &self,
        due: &DueSchedule,
        to: Option<Timestamp>,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// The current version of every workflow of the tenant, ordered by name.
    fn applied(
        &self,
        tenant: &TenantId,
    ) -> impl Future<Output = Result<Vec<AppliedWorkflow>, StoreError>> + Send;

    /// Every applied version of a workflow, newest first.
    fn versions(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowName,
    ) -> impl Future<Output = Result<Vec<AppliedWorkflow>, StoreError>> + Send;
}
