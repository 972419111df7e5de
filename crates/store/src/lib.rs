//! Where runs are kept.
//!
//! Narrow traits at the level of the protocol — [`Ledger`], [`Queue`], [`Blobs`], [`Governance`], [`Archive`],
//! [`Inbox`], [`Access`], [`WorkerRegistry`] — and the embedded store on SQLite behind them. The traits speak of decisions and deliveries, not of rows: a store is free
//! in how it keeps a [`domain::Decision`], as long as it keeps all of it or nothing. What any store must
//! promise is written down once, as tests, in the conformance suite.

#[cfg(feature = "aws")]
pub mod aws;
pub mod clock;
pub mod intercept;
pub mod spread;
pub mod sqlite;
pub mod trace;

mod access;
mod archive;
mod blobs;
mod cursor;
mod error;
mod governance;
mod inbox;
mod ledger;
mod queue;
mod worker_registry;

pub use access::{Access, KeyPage};
pub use archive::Archive;
pub use blobs::{BlobKind, Blobs};
pub use clock::{Clock, SystemClock};
pub use cursor::{Cursor, PageQuery, UnknownCursor};
pub use error::{StoreError, told};
pub use governance::{ApprovalPage, Governance, PolicyFiles};
pub use inbox::{Accepted, Again, DueSchedule, Inbox};
pub use intercept::{Change, Intercept, Intercepted, Site};
pub use ledger::{Admission, Hold, Holder, InLine, Ledger, RunPage, RunQuery, Write};
pub use queue::{DeadLetter, Delivery, Handle, Queue, RECEIVES_MAX};
pub use sqlite::{SqliteOptions, SqliteStore};
pub use worker_registry::{WORKERS_MAX, WorkerRegistry};

/// A whole store.
pub trait Store:
    Ledger + Queue + Blobs + Governance + Archive + Inbox + Access + WorkerRegistry + Send + Sync + 'static
{
}

impl<
    S: Ledger + Queue + Blobs + Governance + Archive + Inbox + Access + WorkerRegistry + Send + Sync + 'static,
> Store for S
{
}
