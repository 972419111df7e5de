//! SQL statements for API keys.

use domain::{ApiKey, KeyId, TenantId};
use rusqlite::params;

use crate::access::KeyPage;
use crate::cursor::{Cursor, PageQuery};
use crate::ledger::Write;

use super::db::{Db, Sql, body, to_json};

impl Db {
    pub(super) fn key(&self, tenant: &TenantId, id: &KeyId) -> Sql<Option<ApiKey>> {
        self.get(
            "SELECT body FROM api_keys WHERE tenant = ?1 AND id = ?2",
            (tenant.as_str(), id.as_str()),
            body,
        )
    }

    pub(super) fn put_key(&self, key: &ApiKey) -> Sql<Write> {
        let current = self.key(&key.tenant, &key.id)?.map(|key| key.revision);
        if current != key.revision.checked_sub(1) {
            return Ok(Write::Superseded);
        }
        self.run(
            "INSERT OR REPLACE INTO api_keys (tenant, id, revision, body) VALUES (?1, ?2, ?3, ?4)",
            params![key.tenant.as_str(), key.id.as_str(), key.revision, to_json(key)?],
        )?;
        Ok(Write::Committed)
    }

    pub(super) fn keys(&self, tenant: &TenantId, query: &PageQuery) -> Sql<KeyPage> {
        let after = query.after.as_ref().map_or("", Cursor::as_str);
        let found = self.all(
            "SELECT body FROM api_keys WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
            params![tenant.as_str(), after, query.limit.saturating_add(1)],
            body,
        )?;
        Ok(KeyPage::of(found, query.limit))
    }
}
