//! Inbox entries, and the workflows that they may start.
//!
//! An entry is two items: the entry under the run that it may start, and a small item under its authentication proof.
//! If either exists, the entry is a duplicate. The proof is written first, with the run that it belongs to. A process
//! that dies in between has accepted nothing, and the next delivery of the same request writes the entry. An entry with
//! a dedupe key has a third item under that key, with the time of receipt; all three are one transaction.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::dispatch::RECORD_FORMAT;
use domain::{
    AppliedWorkflow, Digest, InboxEntry, InboxStatus, Millis, RunKey, TenantId, Timestamp, WorkflowName,
};

use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::inbox::{DueSchedule, Inbox, Reopen, StoredEntry};
use crate::ledger::Write;
use crate::queue::Queue;

use super::commit::{Guard, Transaction};
use super::error::Class;
use super::index::DueQuery;
use super::item::{BODY, FORMAT, Item, ItemError, RECEIVED_AT, RUN, number, read_number, read_text, text};
use super::key::{Key, RUN_PARTITION, index_partition};
use super::table::DUE;
use super::{AwsStore, Condition, TIME_TO_LIVE, build_item, expected, supported_format};

const ACCEPTING: &str = "store an inbox entry";
const APPLYING: &str = "apply a workflow";
const UPDATING: &str = "update an inbox entry";

/// How long a dedupe key is stored: longer than the duplicate window and any clock skew.
const DEDUPE_KEY_RETENTION: Millis = Millis::hours(1);

/// The partition of the due index for schedules. There are few schedules and they move rarely, so one partition is
/// enough, and every query of a partition is billed.
const SCHEDULES: &str = "schedule";

/// The plan hash of a workflow, next to its body.
const PLAN_HASH: &str = "plan_hash";

/// The status of an entry, next to its body, which never changes.
const INBOX_STATUS: &str = "inbox_status";
/// The number of attempts.
const TRIES: &str = "tries";

impl<Q, B> Inbox for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn accept(&self, entry: InboxEntry) -> Result<StoredEntry, StoreError> {
        let written = match &entry.dedupe_key {
            Some(dedupe_key) => self.accept_in_transaction(&entry, dedupe_key).await?,
            None => self.accept_in_order(&entry).await?,
        };
        if written == Write::Committed {
            return Ok(StoredEntry::New);
        }
        let duplicate = self.duplicate(&entry).await?;
        // If there is none, it has just expired, or a delivery with the same proof is about to write it: a retry
        // succeeds.
        let duplicate = duplicate.map(|duplicate| StoredEntry::Duplicate(Box::new(duplicate)));
        duplicate.ok_or(StoreError::Busy { doing: ACCEPTING })
    }

    async fn entry(&self, run: &RunKey) -> Result<Option<InboxEntry>, StoreError> {
        let doing = "read an inbox entry";
        let Some(item) = self.get(&Key::entry(run), doing).await? else { return Ok(None) };
        let status = read_text(&item, INBOX_STATUS).and_then(|status| serde_json::from_str(status).ok());
        let status = status.ok_or_else(|| StoreError::broken(doing, ItemError::Missing(INBOX_STATUS)))?;
        let tries = read_number(&item, TRIES).unwrap_or_default();
        Ok(Some(InboxEntry { status, tries, ..self.decode_body(&item, doing).await? }))
    }

    async fn set_status(
        &self,
        run: &RunKey,
        status: InboxStatus,
        expires_at: Timestamp,
    ) -> Result<Write, StoreError> {
        let values = Item::from([
            (":pending".to_owned(), status_attribute(&InboxStatus::Pending)?),
            (":status".to_owned(), status_attribute(&status)?),
            (":ttl".to_owned(), ttl_seconds(expires_at)),
        ]);
        let expression = "SET inbox_status = :status, #ttl = :ttl REMOVE due_pk, due_at";
        self.update(&Key::entry(run), expression, "inbox_status = :pending", values, UPDATING).await
    }

    async fn reopen(&self, run: &RunKey, reopen: Reopen) -> Result<Write, StoreError> {
        let values = Item::from([
            (":pending".to_owned(), status_attribute(&InboxStatus::Pending)?),
            (":tries".to_owned(), number(reopen.tries)),
            (":due_pk".to_owned(), text(index_partition(RUN_PARTITION, run))),
            (":due_at".to_owned(), number(reopen.due_at.0)),
            expected(status_attribute(&reopen.was)?),
        ]);
        let expression =
            "SET inbox_status = :pending, tries = :tries, due_pk = :due_pk, due_at = :due_at REMOVE #ttl";
        self.update(&Key::entry(run), expression, "inbox_status = :expected", values, "reopen an inbox entry")
            .await
    }

    async fn postpone_entry(&self, run: &RunKey, due_at: Timestamp) -> Result<Write, StoreError> {
        let pending = status_attribute(&InboxStatus::Pending)?;
        let values = Item::from([(":pending".to_owned(), pending), (":due_at".to_owned(), number(due_at.0))]);
        let expression = "SET due_at = :due_at";
        self.update(&Key::entry(run), expression, "inbox_status = :pending", values, UPDATING).await
    }

    async fn apply(&self, applied: AppliedWorkflow, due: Option<Timestamp>) -> Result<Write, StoreError> {
        let doing = APPLYING;
        let Some(transaction) = self.apply_transaction(&applied, due, doing).await? else {
            return Ok(Write::Superseded);
        };
        let sequence = self.sequences.next(self.clock.now());
        match self.transact(transaction, &apply_token_seed(&applied, self.salt, sequence.as_str())).await {
            Ok(()) => Ok(Write::Committed),
            // Another version was applied in between. A retry reads it first.
            Err(error) if error.class == Class::Superseded => Err(StoreError::Busy { doing }),
            Err(error) => Err(error.into_write_error(doing)),
        }
    }

    async fn due_schedules(&self, now: Timestamp, limit: u32) -> Result<Vec<DueSchedule>, StoreError> {
        let doing = "find due schedules";
        let found =
            self.due_in_partition(SCHEDULES.to_owned(), DueQuery::all_tenants(now, limit, doing)).await?;
        let keys: Vec<Key> = found.iter().filter_map(Key::of).collect();
        let mut due = Vec::new();
        for item in self.get_all(&keys, doing).await? {
            // The index may be late, so the item decides.
            let at = read_number(&item, DUE.range).map(Timestamp).filter(|at| *at <= now);
            let Some(at) = at else { continue };
            let applied = self.decode_or_skip(&item, doing).await?;
            due.extend(applied.map(|applied| DueSchedule { applied, at }));
        }
        due.sort_by_key(|due| due.at);
        Ok(due)
    }

    async fn reschedule(&self, due: &DueSchedule, to: Option<Timestamp>) -> Result<Write, StoreError> {
        let DueSchedule { applied, at } = due;
        let plan = (":plan".to_owned(), text(applied.plan.to_string()));
        let mut values = Item::from([expected(number(at.0)), plan, supported_format()]);
        let expression = match to {
            Some(to) => {
                values.insert(":to".to_owned(), number(to.0));
                "SET due_at = :to"
            }
            None => "REMOVE due_pk, due_at",
        };
        let key = Key::workflow(&applied.tenant, applied.workflow.as_str());
        let condition =
            "due_at = :expected AND plan_hash = :plan AND (attribute_not_exists(fmt) OR fmt <= :fmt)";
        self.update(&key, expression, condition, values, "reschedule a workflow").await
    }

    async fn applied(&self, tenant: &TenantId) -> Result<Vec<AppliedWorkflow>, StoreError> {
        let doing = "list the applied workflows";
        let ends = (Key::workflow(tenant, ""), Key::workflow(tenant, "~"));
        let mut applied: Vec<AppliedWorkflow> = Vec::new();
        for item in self.range((&ends.0, &ends.1), u32::MAX, doing).await? {
            applied.push(self.decode_body(&item, doing).await?);
        }
        Ok(applied)
    }

    async fn versions(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowName,
    ) -> Result<Vec<AppliedWorkflow>, StoreError> {
        let doing = "list the versions of a workflow";
        let end = |version| Key::version(tenant, workflow.as_str(), version);
        let mut versions: Vec<AppliedWorkflow> = Vec::new();
        for item in self.range((&end(0), &end(u32::MAX)), u32::MAX, doing).await? {
            versions.push(self.decode_body(&item, doing).await?);
        }
        versions.reverse();
        Ok(versions)
    }
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// The transaction that applies a workflow; `None` if the applied version may not be replaced.
    pub(super) async fn apply_transaction(
        &self,
        applied: &AppliedWorkflow,
        due: Option<Timestamp>,
        doing: &'static str,
    ) -> Result<Option<Transaction>, StoreError> {
        let key = Key::workflow(&applied.tenant, applied.workflow.as_str());
        let current = self.get(&key, doing).await?;
        let before: Option<AppliedWorkflow> = match &current {
            Some(item) => Some(self.decode_body(item, doing).await?),
            None => None,
        };
        if !applied.may_replace(before.as_ref()) {
            return Ok(None);
        }
        let same_trigger = before.is_some_and(|before| before.triggered_by == applied.triggered_by);
        let was_due = current.as_ref().filter(|_| same_trigger).and_then(|item| read_number(item, DUE.range));
        let due = was_due.map(Timestamp).or(due);
        let body = current.and_then(|mut current| current.remove(BODY));
        let condition = body.map_or_else(Condition::is_new, Condition::body);
        self.version_items(applied, due, condition).await.map(Some)
    }

    /// Writes the proof and then the entry: two write units, where a transaction takes four.
    async fn accept_in_order(&self, entry: &InboxEntry) -> Result<Write, StoreError> {
        let now = self.clock.now();
        let (item, proof) = (self.entry_item(entry).await?, proof_item(entry));
        let condition = Condition::absent_expired_or_owned_by(&entry.run.run, now);
        match self.put(proof, condition, ACCEPTING).await? {
            Write::Committed => self.put(item, Condition::absent_or_expired(now), ACCEPTING).await,
            Write::Superseded => Ok(Write::Superseded),
        }
    }

    async fn accept_in_transaction(
        &self,
        entry: &InboxEntry,
        dedupe_key: &Digest,
    ) -> Result<Write, StoreError> {
        let mut transaction = Transaction::default();
        let now = self.clock.now();
        for item in [self.entry_item(entry).await?, proof_item(entry)] {
            self.add_put(&mut transaction, Guard::Version, item, Condition::absent_or_expired(now))?;
        }
        let key = Key::dedupe_key(&entry.run.tenant, dedupe_key);
        let expires_at = ttl_seconds(entry.at + DEDUPE_KEY_RETENTION);
        let run = text(entry.run.run.as_str());
        let item =
            build_item(&key, [(RUN, run), (RECEIVED_AT, number(entry.at.0)), (TIME_TO_LIVE, expires_at)]);
        self.add_put(&mut transaction, Guard::Version, item, Condition::not_duplicate(entry.at))?;
        let sequence = self.sequences.next(now);
        match self.transact(transaction, &token_seed(entry, self.salt, sequence.as_str())).await {
            Ok(()) => Ok(Write::Committed),
            Err(error) if error.class == Class::Superseded => Ok(Write::Superseded),
            Err(error) => Err(error.into_write_error(ACCEPTING)),
        }
    }

    async fn entry_item(&self, entry: &InboxEntry) -> Result<Item, StoreError> {
        let body = self.encode_body(&entry.run.tenant, entry, ACCEPTING).await?;
        let attributes = [(BODY, body), (INBOX_STATUS, status_attribute(&entry.status)?)];
        let mut item = build_item(&Key::entry(&entry.run), attributes);
        let expires_at = entry.expires_at().map(|at| (TIME_TO_LIVE.to_owned(), ttl_seconds(at)));
        item.extend(expires_at);
        item.extend(
            entry
                .due_at()
                .into_iter()
                .flat_map(|at| due_attributes(index_partition(RUN_PARTITION, &entry.run), at)),
        );
        Ok(item)
    }

    /// The current version of a workflow with its due time, and its entry in the list of versions.
    async fn version_items(
        &self,
        applied: &AppliedWorkflow,
        due: Option<Timestamp>,
        condition: Condition,
    ) -> Result<Transaction, StoreError> {
        let (tenant, name) = (&applied.tenant, applied.workflow.as_str());
        let body = self.encode_body(tenant, applied, APPLYING).await?;
        let mut transaction = Transaction::default();
        let (plan, format) = (text(applied.plan.to_string()), number(RECORD_FORMAT));
        let attributes = [(BODY, body.clone()), (PLAN_HASH, plan), (FORMAT, format)];
        let mut current = build_item(&Key::workflow(tenant, name), attributes);
        if let Some(due) = due {
            current.extend(due_attributes(SCHEDULES.to_owned(), due));
        }
        self.add_put(&mut transaction, Guard::Version, current, condition)?;
        // No condition: the condition of the current version covers it.
        let version = Key::version(tenant, name, applied.version);
        let values = Item::from([(":body".to_owned(), body)]);
        self.add_update(&mut transaction, &version, "SET body = :body", None, values)?;
        Ok(transaction)
    }

    /// The entry with the same run id, or else with the same proof, or else with the same dedupe key.
    async fn duplicate(&self, entry: &InboxEntry) -> Result<Option<InboxEntry>, StoreError> {
        if let Some(existing) = self.entry(&entry.run).await? {
            return Ok(Some(existing));
        }
        let tenant = &entry.run.tenant;
        if let Some(existing) = self.referenced_entry(tenant, &Key::proof(tenant, &entry.proof)).await? {
            return Ok(Some(existing));
        }
        let Some(dedupe_key) = &entry.dedupe_key else { return Ok(None) };
        let existing = self.referenced_entry(tenant, &Key::dedupe_key(tenant, dedupe_key)).await?;
        Ok(existing.filter(|existing| entry.is_duplicate_of(existing)))
    }

    /// The entry that the item under `key` points at.
    async fn referenced_entry(&self, tenant: &TenantId, key: &Key) -> Result<Option<InboxEntry>, StoreError> {
        let item = self.get(key, ACCEPTING).await?;
        let run = item.as_ref().and_then(|item| read_text(item, RUN)).and_then(|run| run.parse().ok());
        let Some(run) = run else { return Ok(None) };
        self.entry(&RunKey { tenant: tenant.clone(), run }).await
    }
}

/// The attributes that put an item into a partition of the due index.
fn due_attributes(partition: String, at: Timestamp) -> Item {
    [(DUE.hash, text(partition)), (DUE.range, number(at.0))]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

fn proof_item(entry: &InboxEntry) -> Item {
    build_item(
        &Key::proof(&entry.run.tenant, &entry.proof),
        [(RUN, text(entry.run.run.as_str())), (TIME_TO_LIVE, ttl_seconds(entry.proof_expires_at()))],
    )
}

/// DynamoDB TTL is in seconds.
fn ttl_seconds(at: Timestamp) -> AttributeValue {
    number(at.0 / 1_000)
}

fn status_attribute(status: &InboxStatus) -> Result<AttributeValue, StoreError> {
    serde_json::to_string(status).map(text).map_err(|error| StoreError::broken(UPDATING, error))
}

/// The seed of the client request token, unique for every write.
fn apply_token_seed(applied: &AppliedWorkflow, salt: u64, sequence: &str) -> Digest {
    let salt = salt.to_string();
    let parts = [applied.tenant.as_str(), applied.workflow.as_str(), &salt, sequence];
    Digest::of_parts("countersign/applied-name/v1", &parts)
}

/// The seed of the client request token, unique for every write: with equal tokens, two simultaneous deliveries of
/// one event would both count as new.
fn token_seed(entry: &InboxEntry, salt: u64, sequence: &str) -> Digest {
    let salt = salt.to_string();
    let parts = [entry.run.tenant.as_str(), entry.run.run.as_str(), &salt, sequence];
    Digest::of_parts("countersign/entry-name/v1", &parts)
}
