//! The keys that people and programs prove themselves with.

use std::future::Future;

use domain::{ApiKey, KeyId, TenantId};

use crate::error::StoreError;
use crate::ledger::Write;

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

    /// All keys of a tenant, by id.
    fn keys(&self, tenant: &TenantId) -> impl Future<Output = Result<Vec<ApiKey>, StoreError>> + Send;
}
