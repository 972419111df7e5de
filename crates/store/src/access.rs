//! API keys.

use std::future::Future;

use domain::{ApiKey, KeyId, TenantId};

use crate::cursor::{Cursor, PageQuery};
use crate::error::StoreError;
use crate::ledger::Write;

/// A page of API keys, ordered by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPage {
    /// The keys of this page.
    pub keys: Vec<ApiKey>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<Cursor>,
}

impl KeyPage {
    /// Builds a page from `found`, which holds `limit + 1` keys if there is another page.
    pub(crate) fn of(mut found: Vec<ApiKey>, limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|last| Cursor::new(last.id.as_str()));
        Self { keys: found, next }
    }
}

/// The API keys of a tenant. A key is never deleted; a revoked key stays stored and is marked as revoked.
pub trait Access {
    /// Reads a key, strongly consistent. `None` if the tenant has no key with this id.
    fn key(
        &self,
        tenant: &TenantId,
        id: &KeyId,
    ) -> impl Future<Output = Result<Option<ApiKey>, StoreError>> + Send;

    /// Writes a key. Revision 0 creates it; a later revision replaces the revision before it. `Superseded` if the
    /// stored revision is not `key.revision - 1`.
    fn put_key(&self, key: ApiKey) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Reads a page of a tenant's keys, revoked keys included.
    fn keys(
        &self,
        tenant: &TenantId,
        query: PageQuery,
    ) -> impl Future<Output = Result<KeyPage, StoreError>> + Send;
}
