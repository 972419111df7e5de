//! A commit: one `TransactWriteItems` call, all or nothing.
//!
//! Its conditions are the state that the decision was made from: the version of the run, the revision of each
//! receipt that it replaces, the signals that it records or uses, and the revision of each approval request. Events
//! and finished steps are new items, which are never overwritten.

use aws_sdk_dynamodb::config::Config;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem, Update};
use domain::record::ORPHANED_AFTER;
use domain::{
    Approval, Decision, Digest, Job, Payload, Receipt, ReceiptChange, ReceiptCheck, RecordName, RunKey,
    RunStatus, SignalChange, TenantId, Timestamp,
};

use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::ledger::{KeyAcquisition, Write};
use crate::queue::Queue;

use super::error::{AwsError, Class};
use super::item::{
    self, BODY, BUFFERED, DIGEST, EVENT, EVIDENCE_PENDING, Item, ItemError, NUMBER, OTHER_ATTRIBUTES_BYTES,
    RUN, bytes, number, text,
};
use super::key::{Key, PAUSED_PARTITION, RUN_PARTITION, index_partition};
use super::outbox::GRACE;
use super::sequence::TimeSortKey;
use super::table::{BY_RECORD, BY_STATUS, BY_TENANT, DUE, OPEN};
use super::{
    AwsStore, Condition, EXISTS, REPLACES_REVISION, attribute_names, build_item, expected, supported_format,
    versioned_item,
};

const COMMITTING: &str = "commit a decision";

/// The DynamoDB limit of one transaction. A decision has about ten items.
const ITEMS_MAX: usize = 100;

/// What a failed condition means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    /// Another write came first: the decision is superseded.
    Version,
    /// An item exists that only this commit could have written: the ledger is inconsistent.
    History,
}

/// The items of one transaction, and the meaning of each item's condition.
#[derive(Default)]
pub(super) struct Transaction {
    items: Vec<TransactWriteItem>,
    guards: Vec<Guard>,
}

impl Transaction {
    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn push(&mut self, guard: Guard, item: TransactWriteItem) {
        self.guards.push(guard);
        self.items.push(item);
    }
}

/// The time of a commit, as its items record it.
pub(super) struct CommitTime {
    pub(super) now: Timestamp,
    pub(super) sequence: TimeSortKey,
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    pub(super) async fn write_decision(
        &self,
        decision: Decision,
        input: Option<Payload>,
        hold: Option<KeyAcquisition>,
    ) -> Result<Write, StoreError> {
        let now = self.clock.now();
        let time = CommitTime { now, sequence: self.sequences.next(now) };
        let mut transaction = self.build_transaction(&decision, input.as_ref(), &time).await?;
        if let Some(hold) = &hold {
            self.write_concurrency_key(&mut transaction, &decision.record.key, hold)?;
        }
        let sent = self.send_before_commit(&decision).await;
        self.write_outbox(&mut transaction, &decision, &sent, &time)?;
        match self.transact(transaction, &token_seed(&decision, &time)).await {
            Ok(()) => {
                self.deliver(&decision, &sent).await;
                Ok(Write::Committed)
            }
            Err(error) if error.class == Class::Superseded => Ok(Write::Superseded),
            Err(error) => Err(error.into_write_error(COMMITTING)),
        }
    }

    async fn build_transaction(
        &self,
        decision: &Decision,
        input: Option<&Payload>,
        time: &CommitTime,
    ) -> Result<Transaction, StoreError> {
        let mut transaction = Transaction::default();
        self.write_record(&mut transaction, decision, time).await?;
        self.write_history(&mut transaction, decision, input).await?;
        self.write_receipts(&mut transaction, &decision.receipts).await?;
        self.check_receipts(&mut transaction, decision)?;
        self.write_signals(&mut transaction, &decision.record.key, &decision.signals).await?;
        for approval in &decision.approvals {
            self.write_approval(&mut transaction, approval, time).await?;
        }
        Ok(transaction)
    }

    async fn write_record(
        &self,
        transaction: &mut Transaction,
        decision: &Decision,
        time: &CommitTime,
    ) -> Result<(), StoreError> {
        let record = &decision.record;
        let body = self.encode_body(&record.key.tenant, record, COMMITTING).await?;
        let key = Key::run(&record.key);
        let Some(version) = decision.replaces else {
            let mut item = versioned_item(&key, record.version, body);
            let by_tenant = [
                (BY_TENANT.hash, text(record.key.tenant.as_str())),
                (BY_TENANT.range, text(time.sequence.with_id(record.key.run.as_str()))),
            ];
            item.extend(by_tenant.map(|(name, value)| (name.to_owned(), value)));
            item.extend(
                index_attributes(decision, time).into_iter().filter_map(IndexAttribute::into_attribute),
            );
            return self.add_put(transaction, Guard::Version, item, Condition::is_new());
        };
        let mut values = Item::from([
            expected(number(version)),
            (":rev".to_owned(), number(record.version)),
            (":body".to_owned(), body),
            supported_format(),
        ]);
        let expression = update_expression(index_attributes(decision, time), &mut values);
        self.add_update(transaction, &key, &expression, Some(REPLACES_REVISION), values)
    }

    /// Makes `run` the holder of the concurrency key.
    fn write_concurrency_key(
        &self,
        transaction: &mut Transaction,
        run: &RunKey,
        hold: &KeyAcquisition,
    ) -> Result<(), StoreError> {
        let item = build_item(
            &Key::concurrency_key(&run.tenant, &hold.concurrency_key),
            [(RUN, text(run.run.as_str()))],
        );
        let condition = hold.previous_holder.as_ref().map_or_else(Condition::is_new, Condition::run);
        self.add_put(transaction, Guard::Version, item, condition)
    }

    async fn write_history(
        &self,
        transaction: &mut Transaction,
        decision: &Decision,
        input: Option<&Payload>,
    ) -> Result<(), StoreError> {
        let run = &decision.record.key;
        for chained in &decision.events {
            let n = chained.event.n;
            let step = decision.steps.iter().find(|step| step.event == n);
            let key = step.map_or_else(|| Key::event(run, n), |step| Key::step(run, step.seq, step.rollback));
            let event = bytes(chained.canonical.as_slice());
            let digest = bytes(chained.hash.as_bytes().as_slice());
            let mut item = build_item(&key, [(NUMBER, number(n)), (EVENT, event), (DIGEST, digest)]);
            let body = match (step, input) {
                (Some(step), _) => Some(self.encode_body(&run.tenant, step, COMMITTING).await?),
                (None, Some(input)) if n == 0 => {
                    Some(self.encode_body(&run.tenant, input, COMMITTING).await?)
                }
                (None, _) => None,
            };
            item.extend(body.map(|body| (BODY.to_owned(), body)));
            self.add_put(transaction, Guard::History, item, Condition::is_new())?;
        }
        Ok(())
    }

    async fn write_receipts(
        &self,
        transaction: &mut Transaction,
        changes: &[ReceiptChange],
    ) -> Result<(), StoreError> {
        for (receipt, replaces) in receipt_writes(changes) {
            let key = Key::receipt(&receipt.tenant, &receipt.key);
            let body = self.encode_body(&receipt.tenant, receipt, COMMITTING).await?;
            let item = versioned_item(&key, receipt.revision, body);
            let condition = replaces.map_or_else(Condition::is_new, Condition::revision);
            self.add_put(transaction, Guard::Version, item, condition)?;
        }
        for displaced in changes.iter().filter_map(|change| change.displaces.as_ref()) {
            let run = RunKey { tenant: displaced.tenant.clone(), run: displaced.run.clone() };
            let values = Item::from([(
                ":body".to_owned(),
                self.encode_body(&displaced.tenant, displaced, COMMITTING).await?,
            )]);
            // No condition: the revision of the receipt that replaces it is checked.
            self.add_update(
                transaction,
                &Key::displaced(&run, &displaced.key),
                "SET body = :body",
                None,
                values,
            )?;
        }
        Ok(())
    }

    /// An update that changes nothing checks a receipt: a condition check would need another permission.
    fn check_receipts(&self, transaction: &mut Transaction, decision: &Decision) -> Result<(), StoreError> {
        for ReceiptCheck { key, revision } in &decision.receipt_checks {
            let key = Key::receipt(&decision.record.key.tenant, key);
            let values = Item::from([expected(number(*revision))]);
            self.add_update(transaction, &key, "SET rev = :expected", Some("rev = :expected"), values)?;
        }
        Ok(())
    }

    async fn write_signals(
        &self,
        transaction: &mut Transaction,
        run: &RunKey,
        changes: &[SignalChange],
    ) -> Result<(), StoreError> {
        for change in changes {
            match change {
                SignalChange::Record(signal) => {
                    let body = self.encode_body(&run.tenant, signal, COMMITTING).await?;
                    let buffered = AttributeValue::Bool(signal.buffered);
                    let item =
                        build_item(&Key::signal(run, &signal.id), [(BODY, body), (BUFFERED, buffered)]);
                    self.add_put(transaction, Guard::Version, item, Condition::is_new())?;
                }
                SignalChange::Use(id) => {
                    let used = Item::from([(":buffered".to_owned(), AttributeValue::Bool(false))]);
                    let key = Key::signal(run, id);
                    self.add_update(transaction, &key, "SET buffered = :buffered", Some(EXISTS), used)?;
                }
            }
        }
        Ok(())
    }

    async fn write_approval(
        &self,
        transaction: &mut Transaction,
        approval: &Approval,
        time: &CommitTime,
    ) -> Result<(), StoreError> {
        let mut values = Item::from([
            (":body".to_owned(), self.encode_body(&approval.run.tenant, approval, COMMITTING).await?),
            (":open_sk".to_owned(), text(time.sequence.with_id(approval.id.as_str()))),
            (":rev".to_owned(), number(approval.revision)),
            supported_format(),
        ]);
        let mut expression =
            "SET body = :body, rev = :rev, fmt = :fmt, open_sk = if_not_exists(open_sk, :open_sk)".to_owned();
        if approval.is_open() {
            values.insert(":open_pk".to_owned(), text(approval.run.tenant.as_str()));
            expression.push_str(", open_pk = :open_pk");
        } else {
            expression.push_str(" REMOVE open_pk");
        }
        // The version of the run is not enough: while another transaction is being applied, a reader may see the
        // new run and the old approval request, because they are in different partitions.
        let newer =
            Some("attribute_not_exists(rev) OR rev < :rev AND (attribute_not_exists(fmt) OR fmt <= :fmt)");
        let key = Key::approval(&approval.run.tenant, &approval.id);
        self.add_update(transaction, &key, &expression, newer, values)
    }

    /// Adds a conditional put to the transaction.
    pub(super) fn add_put(
        &self,
        transaction: &mut Transaction,
        guard: Guard,
        item: Item,
        condition: Condition,
    ) -> Result<(), StoreError> {
        let item = item::compress(item, BODY, 0);
        item::check_size(&item, COMMITTING)?;
        let put = Put::builder()
            .table_name(&*self.table)
            .set_item(Some(item))
            .condition_expression(condition.expression)
            .set_expression_attribute_names(attribute_names(&[condition.expression]))
            .set_expression_attribute_values(condition.values)
            .build()
            .map_err(|error| StoreError::broken(COMMITTING, error))?;
        transaction.push(guard, TransactWriteItem::builder().put(put).build());
        Ok(())
    }

    pub(super) fn add_update(
        &self,
        transaction: &mut Transaction,
        key: &Key,
        expression: &str,
        condition: Option<&str>,
        values: Item,
    ) -> Result<(), StoreError> {
        let values = item::compress(values, ":body", key.bytes() + OTHER_ATTRIBUTES_BYTES);
        let update = Update::builder()
            .table_name(&*self.table)
            .set_key(Some(key.item()))
            .update_expression(expression)
            .set_condition_expression(condition.map(str::to_owned))
            .set_expression_attribute_values(Some(values))
            .build()
            .map_err(|error| StoreError::broken(COMMITTING, error))?;
        transaction.push(Guard::Version, TransactWriteItem::builder().update(update).build());
        Ok(())
    }

    /// Writes all items of `transaction`, or none. `seed` identifies the write: the client request token is derived
    /// from it, so that a retry by the SDK is the same write for DynamoDB.
    pub(super) async fn transact(&self, transaction: Transaction, seed: &Digest) -> Result<(), AwsError> {
        let Transaction { mut items, guards } = transaction;
        if items.len() == 1 && items.iter().all(|item| item.update.is_some()) {
            return self.update_one(items.pop().and_then(|item| item.update)).await;
        }
        if items.len() > ITEMS_MAX {
            return Err(AwsError::broken(ItemError::TooMany(items.len(), ITEMS_MAX)));
        }
        let write = self.client.transact_write_items().set_transact_items(Some(items));
        let Err(error) = write.client_request_token(self.token(seed)).send().await else { return Ok(()) };
        let reasons = match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(canceled)) => {
                let codes = canceled.cancellation_reasons().iter();
                Some(codes.map(|reason| reason.code().map(str::to_owned)).collect::<Vec<_>>())
            }
            _ => None,
        };
        let error = AwsError::from_sdk(error);
        Err(match reasons {
            Some(reasons) => error
                .with_cancellation_reasons(reasons.iter().map(Option::as_deref))
                .check_guards(&reasons, &guards),
            None => error,
        })
    }

    /// Updates a single item without a transaction, which costs half as much: a claim without an effect, or a
    /// heartbeat. It has no client request token, so it is sent once; after a lost reply the caller reads to find
    /// out.
    async fn update_one(&self, update: Option<Update>) -> Result<(), AwsError> {
        let Some(update) = update else { return Ok(()) };
        let no_retries = Config::builder().retry_config(RetryConfig::disabled());
        let write = self
            .client
            .update_item()
            .table_name(update.table_name)
            .set_key(Some(update.key))
            .update_expression(update.update_expression)
            .set_condition_expression(update.condition_expression)
            .set_expression_attribute_values(update.expression_attribute_values);
        write.customize().config_override(no_retries).send().await.map(drop).map_err(AwsError::from_sdk)
    }

    /// The client request token. It is unique within the account, so it includes the table name. 32 of the 36
    /// characters allowed.
    fn token(&self, seed: &Digest) -> String {
        let parts = [self.table.as_bytes(), seed.as_bytes()];
        Digest::of_parts("countersign/client-token/v1", &parts).to_string()[..32].to_owned()
    }
}

impl AwsError {
    /// Turns `Superseded` into `Broken` if every failed condition is one that cannot fail in a consistent ledger.
    fn check_guards(self, reasons: &[Option<String>], guards: &[Guard]) -> Self {
        let failed = |reason: &Option<String>| reason.as_deref() == Some("ConditionalCheckFailed");
        let mut failed = reasons.iter().zip(guards).filter(|(reason, _)| failed(reason));
        match self.class {
            Class::Superseded if failed.all(|(_, guard)| *guard == Guard::History) => {
                Self { class: Class::Broken, ..self }
            }
            Class::Superseded | Class::Busy | Class::Unknown | Class::Broken => self,
        }
    }
}

/// The number of attributes that [`index_attributes`] returns.
const INDEX_ATTRIBUTES: usize = 7;

/// An attribute that controls in which indexes a run is, and how a commit changes it.
struct IndexAttribute(&'static str, AttributeChange);

enum AttributeChange {
    Set(AttributeValue),
    /// Keeps the current value, if there is one.
    SetIfMissing(AttributeValue),
    Remove,
}

impl IndexAttribute {
    /// The attribute in a new item.
    fn into_attribute(self) -> Option<(String, AttributeValue)> {
        match self.1 {
            AttributeChange::Set(value) | AttributeChange::SetIfMissing(value) => {
                Some((self.0.to_owned(), value))
            }
            AttributeChange::Remove => None,
        }
    }
}

fn index_attributes(decision: &Decision, time: &CommitTime) -> [IndexAttribute; INDEX_ATTRIBUTES] {
    let record = &decision.record;
    let set_or_remove =
        |value: Option<AttributeValue>| value.map_or(AttributeChange::Remove, AttributeChange::Set);
    let run_partition = || text(index_partition(RUN_PARTITION, &record.key));
    let by_status = set_or_remove(status_partition(&record.key.tenant, record.status).map(text));
    let name = record.trigger.record.as_ref();
    let by_record = set_or_remove(name.map(|name| text(record_partition(&record.key.tenant, name))));
    let evidence_pending = decision.outgoing.iter().any(|message| message.job == Job::BuildEvidence);
    // A finished run stays in the due index until it has evidence. If its due time is near anyway, the index entry
    // stays unchanged, because a changed entry is a billed write; the sweep moves it if the evidence is late. A run
    // that waited may have a due time days ahead; it gets a new one.
    let [due_partition, due_at] = if evidence_pending {
        let near = decision.was_due.is_some_and(|due| due <= time.now + ORPHANED_AFTER);
        let set = if near { AttributeChange::SetIfMissing } else { AttributeChange::Set };
        [AttributeChange::SetIfMissing(run_partition()), set(number((time.now + GRACE).0))]
    } else {
        [
            set_or_remove(record.due_at.map(|_| run_partition())),
            set_or_remove(record.due_at.map(|at| number(at.0))),
        ]
    };
    let evidence_pending = set_or_remove(evidence_pending.then_some(AttributeValue::Bool(true)));
    // A paused run is not due. This index lets the sweep find every tenant with unfinished runs.
    let paused = record.status == RunStatus::Paused;
    let [paused_partition, paused_sort_key] =
        [index_partition(PAUSED_PARTITION, &record.key), record.key.run.to_string()]
            .map(|value| set_or_remove(paused.then(|| text(value))));
    [
        IndexAttribute(BY_STATUS.hash, by_status),
        IndexAttribute(BY_RECORD.hash, by_record),
        IndexAttribute(DUE.hash, due_partition),
        IndexAttribute(DUE.range, due_at),
        IndexAttribute(EVIDENCE_PENDING, evidence_pending),
        IndexAttribute(OPEN.hash, paused_partition),
        IndexAttribute(OPEN.range, paused_sort_key),
    ]
}

/// The update expression for a record, its revision and its index attributes. DynamoDB writes an index entry only
/// if it changes, so setting an unchanged attribute costs nothing.
fn update_expression(attributes: [IndexAttribute; INDEX_ATTRIBUTES], values: &mut Item) -> String {
    let (mut set, mut remove) = ("SET rev = :rev, body = :body, fmt = :fmt".to_owned(), Vec::new());
    for IndexAttribute(name, change) in attributes {
        let (value, assignment) = match change {
            AttributeChange::Set(value) => (value, format!(", {name} = :{name}")),
            AttributeChange::SetIfMissing(value) => {
                (value, format!(", {name} = if_not_exists({name}, :{name})"))
            }
            AttributeChange::Remove => {
                remove.push(name);
                continue;
            }
        };
        values.insert(format!(":{name}"), value);
        set.push_str(&assignment);
    }
    if remove.is_empty() { set } else { format!("{set} REMOVE {}", remove.join(", ")) }
}

/// The partition of the status index for runs in `status`. `None` for succeeded runs: they are the majority, so a
/// query reads the list of all runs instead. Active runs share one partition, because their status changes with
/// every approval request, and each move of an index entry is two billed writes.
pub(super) fn status_partition(tenant: &TenantId, status: RunStatus) -> Option<String> {
    use RunStatus::{
        Canceled, FailedRetryable, FailedTerminal, Paused, Queued, RollingBack, Running, Succeeded,
        WaitingApproval, WaitingEvent,
    };
    match status {
        Queued | Running | WaitingApproval | WaitingEvent | FailedRetryable => {
            Some(format!("{tenant}#active"))
        }
        Paused | RollingBack | FailedTerminal | Canceled => Some(format!("{tenant}#{}", status.as_str())),
        Succeeded => None,
    }
}

/// The partition of the record index. A record name may contain the separator, so it comes last.
pub(super) fn record_partition(tenant: &TenantId, record: &RecordName) -> String {
    format!("{tenant}#{record}")
}

/// The receipts to write and the revision that each replaces. With several changes to one key, the first names the
/// revision and the last is stored.
fn receipt_writes(changes: &[ReceiptChange]) -> Vec<(&Receipt, Option<u32>)> {
    let mut writes: Vec<(&Receipt, Option<u32>)> = Vec::new();
    for change in changes {
        match writes.iter_mut().find(|(receipt, _)| receipt.key == change.receipt.key) {
            Some((receipt, _)) => *receipt = &change.receipt,
            None => writes.push((&change.receipt, change.replaces)),
        }
    }
    writes
}

/// The seed of the client request token. One token must always mean the same items, so the seed includes the time
/// if an item contains it.
fn token_seed(decision: &Decision, time: &CommitTime) -> Digest {
    let record = &decision.record;
    let job = decision.outgoing.iter().any(|message| message.job != Job::Advance);
    let includes_time = decision.replaces.is_none() || job || !decision.approvals.is_empty();
    let version = record.version.to_string();
    let parts = [
        record.key.tenant.as_str(),
        record.key.run.as_str(),
        record.op.as_str(),
        &version,
        if includes_time { time.sequence.as_str() } else { "" },
    ];
    Digest::of_parts("countersign/commit-name/v1", &parts)
}
