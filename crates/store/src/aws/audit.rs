//! The audit log of administrative changes: a chain of entries, and a head item with the newest one.
//!
//! A change, its entry and the new head are one transaction, conditioned on the head that the entry follows. If another
//! change came first, the entry is chained again after that one. A mark under the digest of the entry recognizes a write
//! that is repeated after a lost reply.

use std::time::Duration;

use domain::audit::AuditEntry;
use domain::audit_chain::{AuditHead, AuditRecord};
use domain::{Digest, TenantId};
use serde::Serialize;

use crate::audit::{AuditLog, AuditPage, AuditedWrite, sequence_before};
use crate::blobs::Blobs;
use crate::cursor::PageQuery;
use crate::error::StoreError;
use crate::jitter;
use crate::ledger::Write;
use crate::queue::Queue;

use super::commit::{Guard, Transaction};
use super::error::Class;
use super::item::{BODY, text};
use super::key::Key;
use super::{AwsStore, Condition, Consistency, build_item, versioned_item};

const WRITING: &str = "write an administrative change";

/// How often an entry is chained again after other changes came first. Administrators make few changes at once; after
/// that, the write fails with `Busy`, and the caller repeats it.
const ROUNDS_MAX: u32 = 16;

/// The approximate delay after the first lost round: a few round trips. The delay grows linearly.
const ROUND_DELAY: Duration = Duration::from_millis(10);

/// What the log has before a write.
struct LogState {
    head: AuditHead,
    /// Whether the log has the entry already.
    has_entry: bool,
}

impl<Q, B> AuditLog for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn write_audited(&self, write: AuditedWrite, entry: AuditEntry) -> Result<Write, StoreError> {
        let tenant = entry.tenant.as_ref();
        for round in 1..=ROUNDS_MAX {
            let log = self.audit_state(&entry).await?;
            let Some(mut transaction) = self.change(&write).await? else { return Ok(Write::Superseded) };
            if !log.has_entry {
                self.add_audit_entry(&mut transaction, &entry, &log.head).await?;
            }
            if transaction.is_empty() {
                return Ok(Write::Committed);
            }
            match self.transact(transaction, &self.audit_token_seed(&entry)).await {
                Ok(()) => return Ok(Write::Committed),
                Err(error) if error.class == Class::Superseded => {}
                Err(error) => return Err(error.into_write_error(WRITING)),
            }
            if self.read_audit_head(tenant, WRITING).await? == log.head {
                return superseded(&write);
            }
            let caller = format!("{} {}", self.salt, entry.digest());
            tokio::time::sleep(jitter::around(ROUND_DELAY * round, &caller, round)).await;
        }
        Err(StoreError::Busy { doing: WRITING })
    }

    async fn audit(&self, tenant: Option<&TenantId>, query: PageQuery) -> Result<AuditPage, StoreError> {
        let doing = "read the audit log";
        // The number is below that of the last entry of the previous page. One more entry shows whether there is a next page.
        let newest = sequence_before(&query).saturating_sub(1);
        let ends = (&Key::audit(tenant, newest), &Key::audit_end(tenant));
        let mut entries = Vec::new();
        for item in self.range(ends, query.limit.saturating_add(1), doing).await? {
            entries.push(self.decode_body(&item, doing).await?);
        }
        Ok(AuditPage::of(entries, query.limit))
    }

    async fn audit_record(
        &self,
        tenant: Option<&TenantId>,
        sequence: u64,
    ) -> Result<Option<AuditRecord>, StoreError> {
        self.get_body(&Key::audit(tenant, sequence), "read an audit entry").await
    }

    async fn audit_head(&self, tenant: Option<&TenantId>) -> Result<AuditHead, StoreError> {
        self.read_audit_head(tenant, "read the head of the audit log").await
    }
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// The transaction of the change alone; `None` if a newer workflow is applied already.
    async fn change(&self, write: &AuditedWrite) -> Result<Option<Transaction>, StoreError> {
        let (item, condition) = match write {
            AuditedWrite::Key(key) => self.key_item(key, WRITING).await?,
            AuditedWrite::Tenant(tenant) => self.tenant_item(tenant, WRITING).await?,
            AuditedWrite::Fleet(fleet) => Self::fleet_item(fleet, WRITING)?,
            AuditedWrite::Worker(worker) => Self::worker_item(worker, WRITING)?,
            AuditedWrite::EntryOnly => return Ok(Some(Transaction::default())),
            AuditedWrite::Workflow(applied, due) => {
                return self.apply_transaction(applied, *due, WRITING).await;
            }
        };
        let mut transaction = Transaction::default();
        self.add_put(&mut transaction, Guard::Version, item, condition)?;
        Ok(Some(transaction))
    }

    /// Appends `entry` to the log with this head, in `transaction`.
    async fn add_audit_entry(
        &self,
        transaction: &mut Transaction,
        entry: &AuditEntry,
        head: &AuditHead,
    ) -> Result<(), StoreError> {
        let tenant = entry.tenant.as_ref();
        let record = head.append(entry);
        let body = match tenant {
            Some(tenant) => self.encode_body(tenant, &record, WRITING).await?,
            // An entry for all tenants is short, and a blob would need a tenant.
            None => text(to_json(&record)?),
        };
        let entry_item = build_item(&Key::audit(tenant, record.sequence), [(BODY, body)]);
        let mark = build_item(&Key::audit_mark(tenant, &entry.digest()), []);
        for item in [entry_item, mark] {
            self.add_put(transaction, Guard::History, item, Condition::is_new())?;
        }
        let newest = record.head();
        let body = text(to_json(&newest)?);
        let head_item = versioned_item(&Key::audit_head(tenant), newest.sequence, body);
        let condition = match head.sequence {
            0 => Condition::is_new(),
            sequence => Condition::revision(sequence),
        };
        self.add_put(transaction, Guard::Version, head_item, condition)
    }

    async fn audit_state(&self, entry: &AuditEntry) -> Result<LogState, StoreError> {
        let tenant = entry.tenant.as_ref();
        let (head, mark) = (Key::audit_head(tenant), Key::audit_mark(tenant, &entry.digest()));
        let mut state = LogState { head: AuditHead::default(), has_entry: false };
        let mut found = Vec::with_capacity(2);
        self.get_batch(&[head.clone(), mark], Consistency::Strong, &mut found, WRITING).await?;
        for item in found {
            if Key::of(&item).as_ref() == Some(&head) {
                state.head = self.decode_body(&item, WRITING).await?;
            } else {
                state.has_entry = true;
            }
        }
        Ok(state)
    }

    async fn read_audit_head(
        &self,
        tenant: Option<&TenantId>,
        doing: &'static str,
    ) -> Result<AuditHead, StoreError> {
        Ok(self.get_body(&Key::audit_head(tenant), doing).await?.unwrap_or_default())
    }

    /// The seed of the client request token, unique for every write.
    fn audit_token_seed(&self, entry: &AuditEntry) -> Digest {
        let sequence = self.sequences.next(self.clock.now());
        let seed = [entry.digest().to_string(), self.salt.to_string(), sequence.as_str().to_owned()];
        Digest::of_parts("countersign/audit-name/v1", &seed)
    }
}

/// The answer if the condition of the change itself failed.
fn superseded(write: &AuditedWrite) -> Result<Write, StoreError> {
    match write {
        // Another version was applied in between. A retry reads it first.
        AuditedWrite::Workflow(..) => Err(StoreError::Busy { doing: WRITING }),
        _ => Ok(Write::Superseded),
    }
}

fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::broken(WRITING, error))
}
