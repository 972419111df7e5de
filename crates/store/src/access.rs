//! The keys that people and programs prove themselves with.

use std::future::Future;

use domain::{ApiKey, KeyId, TenantId};

use crate::cursor::{Cursor, PageQuery};
use crate::error::StoreError;
use crate::ledger::Write;

/// A page of keys, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPage {
    /// The keys.
    pub keys: Vec<ApiKey>,
    /// Where the next page starts, if there is one.
    pub next: Option<Cursor>,
}

impl KeyPage {
    /// A page of at most `limit` out of `found`, which holds one more if there are more.
    pub(crate) fn of(mut found: Vec<ApiKey>, limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|last| Cursor::new(last.id.as_str()));
        Self { keys: found, next }
    }
}

/// Keys of a tenant. None is ever taken away: one that was taken back says so.
pub trait Access {
    /// A key.
    fn key(
        &self,
        tenant: &TenantId,
        id: &KeyId,
    ) -> impl Future<Output = Result<Option<ApiKey>, StoreError>> + Send;

    /// Writes a key; superseded unless the one before it has the revision before.
    fn put_key(&self, key: ApiKey) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// A page of a tenant's keys.
    fn keys(
        &self,
        tenant: &TenantId,
        query: PageQuery,
    ) -> impl Future<Output = Result<KeyPage, StoreError>> + Send;
}
