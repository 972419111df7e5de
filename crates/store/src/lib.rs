//! Storage of Countersign: the traits, the embedded SQLite store and the AWS store.
//!
//! The traits are narrow and follow the protocol: [`Ledger`], [`Queue`], [`Blobs`], [`Governance`], [`Archive`],
//! [`Inbox`], [`Access`], [`AuditLog`], [`WorkerRegistry`]. They take decisions and deliveries instead of rows: a store chooses
//! how it stores a [`domain::Decision`], as long as it stores all of it or nothing. The conformance suite
//! (`tests/conformance`) tests the guarantees that every store gives.

#[cfg(feature = "aws")]
pub mod aws;
pub mod clock;
mod delegate;
pub mod intercept;
pub mod jitter;
pub mod sqlite;
pub mod trace;

#[warn(missing_docs)]
mod access;
#[warn(missing_docs)]
mod archive;
#[warn(missing_docs)]
mod audit;
#[warn(missing_docs)]
mod blobs;
#[warn(missing_docs)]
mod cursor;
#[warn(missing_docs)]
mod error;
#[warn(missing_docs)]
mod governance;
#[warn(missing_docs)]
mod inbox;
#[warn(missing_docs)]
mod ledger;
#[warn(missing_docs)]
mod queue;
#[warn(missing_docs)]
mod worker_registry;

pub use access::{Access, KeyPage};
pub use archive::{Archive, LogPosition};
pub use audit::{AuditLog, AuditPage, AuditedWrite};
pub use blobs::{BlobKind, Blobs, blob_ref};
pub use clock::{Clock, SystemClock};
pub use cursor::{Cursor, PageQuery, UnknownCursor};
pub use error::{NewerFormat, StoreError, error_chain};
pub use governance::{ApprovalPage, Governance, PolicyFiles};
pub use inbox::{DueSchedule, Inbox, Reopen, StoredEntry};
pub use intercept::{Change, Intercept, Intercepted, StoreCall};
pub use ledger::{Admission, Due, KeyAcquisition, KeyHolder, Ledger, RunPage, RunQuery, Waiter, Write};
pub use queue::{DeadLetter, Delivery, Handle, Queue, RECEIVES_MAX};
pub use sqlite::{SqliteOptions, SqliteStore};
pub use worker_registry::{WORKERS_MAX, WorkerRegistry};

/// The types of the signatures that [`delegate!`] writes.
#[doc(hidden)]
pub use domain;

/// A complete store: all storage traits together.
pub trait Store:
    Ledger
    + Queue
    + Blobs
    + Governance
    + Archive
    + Inbox
    + Access
    + AuditLog
    + WorkerRegistry
    + Send
    + Sync
    + 'static
{
}

impl<
    S: Ledger
        + Queue
        + Blobs
        + Governance
        + Archive
        + Inbox
        + Access
        + AuditLog
        + WorkerRegistry
        + Send
        + Sync
        + 'static,
> Store for S
{
}
