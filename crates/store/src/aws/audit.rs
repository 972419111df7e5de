//! The audit log of administrative changes.

use domain::audit::AuditEntry;
use domain::{Digest, TenantId};

use crate::audit::{AuditLog, AuditPage, AuditedWrite};
use crate::blobs::Blobs;
use crate::cursor::{Cursor, PageQuery};
use crate::error::StoreError;
use crate::ledger::Write;
use crate::queue::Queue;

use super::AwsStore;
use super::commit::{Guard, Transaction};
use super::error::Class;
use super::item::{Item, text};
use super::key::Key;

const WRITING: &str = "write an administrative change";

impl<Q, B> AuditLog for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn write_audited(&self, write: AuditedWrite, entry: AuditEntry) -> Result<Write, StoreError> {
        let put = match write {
            AuditedWrite::Key(key) => Some(self.key_item(&key, WRITING).await?),
            AuditedWrite::Tenant(tenant) => Some(self.tenant_item(&tenant, WRITING).await?),
            AuditedWrite::Fleet(fleet) => Some(Self::fleet_item(&fleet, WRITING)?),
            AuditedWrite::Worker(worker) => Some(Self::worker_item(&worker, WRITING)?),
            AuditedWrite::EntryOnly => None,
            AuditedWrite::Workflow(applied, due) => {
                return self.apply_audited(&applied, due, Some(&entry)).await;
            }
        };
        let mut transaction = Transaction::default();
        if let Some((item, condition)) = put {
            self.add_put(&mut transaction, Guard::Version, item, condition)?;
        }
        self.add_audit_entry(&mut transaction, &entry, WRITING).await?;
        let sequence = self.sequences.next(self.clock.now());
        let seed = [entry.id(), self.salt.to_string(), sequence.as_str().to_owned()];
        match self.transact(transaction, &Digest::of_parts("countersign/audit-name/v1", &seed)).await {
            Ok(()) => Ok(Write::Committed),
            Err(error) if error.class == Class::Superseded => Ok(Write::Superseded),
            Err(error) => Err(error.into_write_error(WRITING)),
        }
    }

    async fn audit(&self, tenant: Option<&TenantId>, query: PageQuery) -> Result<AuditPage, StoreError> {
        let doing = "read the audit log";
        let PageQuery { after, limit } = &query;
        let first = Key::audit(tenant, after.as_ref().map_or("", Cursor::as_str));
        let ends = (&first, &Key::audit(tenant, "~"));
        let mut entries = Vec::new();
        // The range starts with the last entry of the previous page; one more entry shows whether there is a next page.
        for item in self.range(ends, limit.saturating_add(2), doing).await? {
            if Key::of(&item).as_ref() != Some(&first) {
                entries.push(self.decode_body(&item, doing).await?);
            }
        }
        Ok(AuditPage::of(entries, *limit))
    }
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// Appends `entry` to the log, in `transaction`.
    pub(super) async fn add_audit_entry(
        &self,
        transaction: &mut Transaction,
        entry: &AuditEntry,
        doing: &'static str,
    ) -> Result<(), StoreError> {
        let body = match &entry.tenant {
            Some(tenant) => self.encode_body(tenant, entry, doing).await?,
            // An entry for all tenants is short, and a blob would need a tenant.
            None => text(serde_json::to_string(entry).map_err(|error| StoreError::broken(doing, error))?),
        };
        // No condition: the id derives from the content, so a repeated write changes nothing.
        let key = Key::audit(entry.tenant.as_ref(), &entry.id());
        self.add_update(transaction, &key, "SET body = :body", None, Item::from([(":body".to_owned(), body)]))
    }
}
