//! The keys that people and programs prove themselves with.

use domain::{ApiKey, KeyId, TenantId};

use crate::access::Access;
use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::ledger::Write;
use crate::queue::Queue;

use super::item::{BODY, REVISION, number};
use super::key::Key;
use super::{AwsStore, Condition, with};

impl<Q, B> Access for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn key(&self, tenant: &TenantId, id: &KeyId) -> Result<Option<ApiKey>, StoreError> {
        self.get_body(&Key::api_key(tenant, id.as_str()), "read a key").await
    }

    async fn put_key(&self, key: ApiKey) -> Result<Write, StoreError> {
        let doing = "write a key";
        let body = self.body(&key.tenant, &key, doing).await?;
        let item = with(
            &Key::api_key(&key.tenant, key.id.as_str()),
            [(REVISION, number(key.revision)), (BODY, body)],
        );
        let condition = key.revision.checked_sub(1).map_or_else(Condition::is_new, Condition::revision);
        self.put(item, condition, doing).await
    }

    async fn keys(&self, tenant: &TenantId) -> Result<Vec<ApiKey>, StoreError> {
        let doing = "read a tenant's keys";
        let ends = (Key::api_key(tenant, ""), Key::api_key(tenant, "~"));
        let mut keys = Vec::new();
        for item in self.range((&ends.0, &ends.1), doing).await? {
            keys.push(self.read(&item, doing).await?);
        }
        Ok(keys)
    }
}
