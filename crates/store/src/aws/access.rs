//! API keys.

use domain::{ApiKey, KeyId, TenantId};

use crate::access::{Access, KeyPage};
use crate::blobs::Blobs;
use crate::cursor::{Cursor, PageQuery};
use crate::error::StoreError;
use crate::ledger::Write;
use crate::queue::Queue;

use super::item::Item;
use super::key::Key;
use super::{AwsStore, Condition, versioned_item};

impl<Q, B> Access for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn key(&self, tenant: &TenantId, id: &KeyId) -> Result<Option<ApiKey>, StoreError> {
        self.get_body(&Key::api_key(tenant, id.as_str()), "read an API key").await
    }

    async fn put_key(&self, key: ApiKey) -> Result<Write, StoreError> {
        let doing = "write an API key";
        let (item, condition) = self.key_item(&key, doing).await?;
        self.put(item, condition, doing).await
    }

    async fn keys(&self, tenant: &TenantId, query: PageQuery) -> Result<KeyPage, StoreError> {
        let doing = "list the API keys of a tenant";
        let PageQuery { after, limit } = &query;
        let first = Key::api_key(tenant, after.as_ref().map_or("", Cursor::as_str));
        let ends = (&first, &Key::api_key(tenant, "~"));
        let mut keys = Vec::new();
        // The range starts with the last key of the previous page; one more key shows whether there is a next page.
        for item in self.range(ends, limit.saturating_add(2), doing).await? {
            if Key::of(&item).as_ref() != Some(&first) {
                keys.push(self.decode_body(&item, doing).await?);
            }
        }
        Ok(KeyPage::of(keys, *limit))
    }
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    pub(super) async fn key_item(
        &self,
        key: &ApiKey,
        doing: &'static str,
    ) -> Result<(Item, Condition), StoreError> {
        let body = self.encode_body(&key.tenant, key, doing).await?;
        let item = versioned_item(&Key::api_key(&key.tenant, key.id.as_str()), key.revision, body);
        Ok((item, key.revision.checked_sub(1).map_or_else(Condition::is_new, Condition::revision)))
    }
}
