//! A commit: one transaction, all or nothing.
//!
//! Its conditions are what the decision was made from: the run's version, the revision of each receipt it
//! replaces, the deliveries it records or uses. Events and ended steps are new items, and nothing is ever
//! written over them.

use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem, Update};
use domain::{
    Approval, Decision, Digest, Errand, Payload, Receipt, ReceiptChange, RunKey, RunRecord, SignalChange,
    Timestamp,
};

use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::ledger::Write;
use crate::queue::Queue;

use super::error::{Class, Fault};
use super::item::{self, BODY, DIGEST, ENTRY, Item, KEPT, NUMBER, REVISION, Unfit, bytes, number, text};
use super::key::Key;
use super::order::Order;
use super::table::{BY_STATUS, BY_TENANT, DUE, SHARDS};
use super::{AwsStore, Condition, STANDS, was, with};

const COMMITTING: &str = "commit a decision";

/// What DynamoDB takes in one transaction. A decision has a handful.
const ITEMS_MAX: usize = 100;

/// What a condition that fails means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    /// Somebody was faster.
    Version,
    /// An item stands where only this commit could have put one: the ledger is not what it should be.
    History,
}

/// Writes that are done together or not at all.
#[derive(Default)]
pub(super) struct Transaction {
    items: Vec<TransactWriteItem>,
    guards: Vec<Guard>,
}

impl Transaction {
    fn push(&mut self, guard: Guard, item: TransactWriteItem) {
        self.guards.push(guard);
        self.items.push(item);
    }
}

/// When a commit is written, as its items tell it.
pub(super) struct Moment {
    pub(super) now: Timestamp,
    pub(super) order: Order,
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
    ) -> Result<Write, StoreError> {
        let now = self.clock.now();
        let moment = Moment { now, order: self.orders.next(now) };
        let transaction = self.transaction(&decision, input.as_ref(), &moment).await?;
        match self.transact(transaction, &name(&decision, &moment)).await {
            Ok(()) => {
                self.deliver(&decision).await;
                Ok(Write::Committed)
            }
            Err(fault) if fault.class == Class::Superseded => Ok(Write::Superseded),
            Err(fault) => Err(fault.write(COMMITTING)),
        }
    }

    async fn transaction(
        &self,
        decision: &Decision,
        input: Option<&Payload>,
        moment: &Moment,
    ) -> Result<Transaction, StoreError> {
        let mut transaction = Transaction::default();
        self.write_record(&mut transaction, decision, moment).await?;
        self.write_history(&mut transaction, decision, input).await?;
        self.write_receipts(&mut transaction, &decision.receipts).await?;
        self.write_signals(&mut transaction, &decision.record.key, &decision.signals).await?;
        for approval in &decision.approvals {
            self.write_approval(&mut transaction, approval, moment).await?;
        }
        self.write_outbox(&mut transaction, decision, moment)?;
        Ok(transaction)
    }

    async fn write_record(
        &self,
        transaction: &mut Transaction,
        decision: &Decision,
        moment: &Moment,
    ) -> Result<(), StoreError> {
        let record = &decision.record;
        let body = self.body(&record.key.tenant, record, COMMITTING).await?;
        let Some(version) = decision.replaces else {
            let mut item = with(
                &Key::run(&record.key),
                [
                    (REVISION, number(record.version)),
                    (BODY, body),
                    (BY_TENANT.hash, text(record.key.tenant.as_str())),
                    (BY_STATUS.hash, text(runs_in(record))),
                    (BY_TENANT.range, text(moment.order.of(record.key.run.as_str()))),
                ],
            );
            item.extend(due(record).into_iter().flatten());
            return self.put_in(transaction, Guard::Version, item, Condition::is_new());
        };
        // An index is written only where what stands in it changes, so naming all of it costs nothing.
        let mut values = Item::from([
            was(number(version)),
            (":rev".to_owned(), number(record.version)),
            (":body".to_owned(), body),
            (":runs_in".to_owned(), text(runs_in(record))),
        ]);
        let expression = match due(record) {
            Some([(_, part), (_, at)]) => {
                values.extend([(":due_in".to_owned(), part), (":due_at".to_owned(), at)]);
                "SET rev = :rev, body = :body, runs_in = :runs_in, due_in = :due_in, due_at = :due_at"
            }
            None => "SET rev = :rev, body = :body, runs_in = :runs_in REMOVE due_in, due_at",
        };
        self.update_in(transaction, &Key::run(&record.key), expression, Some("rev = :was"), values)
    }

    async fn write_history(
        &self,
        transaction: &mut Transaction,
        decision: &Decision,
        input: Option<&Payload>,
    ) -> Result<(), StoreError> {
        let run = &decision.record.key;
        for sealed in &decision.events {
            let n = sealed.event.n;
            let step = decision.steps.iter().find(|step| step.event == n);
            let key = step.map_or_else(|| Key::event(run, n), |step| Key::step(run, step.seq, step.undo));
            let entry = bytes(sealed.canonical.as_slice());
            let digest = bytes(sealed.hash.as_bytes().as_slice());
            let mut item = with(&key, [(NUMBER, number(n)), (ENTRY, entry), (DIGEST, digest)]);
            let beside = match (step, input) {
                (Some(step), _) => Some(self.body(&run.tenant, step, COMMITTING).await?),
                (None, Some(input)) if n == 0 => Some(self.body(&run.tenant, input, COMMITTING).await?),
                (None, _) => None,
            };
            item.extend(beside.map(|body| (BODY.to_owned(), body)));
            self.put_in(transaction, Guard::History, item, Condition::is_new())?;
        }
        Ok(())
    }

    async fn write_receipts(
        &self,
        transaction: &mut Transaction,
        changes: &[ReceiptChange],
    ) -> Result<(), StoreError> {
        for (receipt, replaces) in settled(changes) {
            let key = Key::receipt(&receipt.tenant, &receipt.key);
            let body = self.body(&receipt.tenant, receipt, COMMITTING).await?;
            let item = with(&key, [(REVISION, number(receipt.revision)), (BODY, body)]);
            let condition = replaces.map_or_else(Condition::is_new, Condition::revision);
            self.put_in(transaction, Guard::Version, item, condition)?;
        }
        for theirs in changes.iter().filter_map(|change| change.displaces.as_ref()) {
            let run = RunKey { tenant: theirs.tenant.clone(), run: theirs.run.clone() };
            let values =
                Item::from([(":body".to_owned(), self.body(&theirs.tenant, theirs, COMMITTING).await?)]);
            // The revision of the receipt that takes its place guards it.
            self.update_in(
                transaction,
                &Key::displaced(&run, &theirs.key),
                "SET body = :body",
                None,
                values,
            )?;
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
                    let body = self.body(&run.tenant, signal, COMMITTING).await?;
                    let kept = AttributeValue::Bool(signal.kept);
                    let item = with(&Key::signal(run, &signal.id), [(BODY, body), (KEPT, kept)]);
                    self.put_in(transaction, Guard::Version, item, Condition::is_new())?;
                }
                SignalChange::Use(id) => {
                    let used = Item::from([(":kept".to_owned(), AttributeValue::Bool(false))]);
                    let key = Key::signal(run, id);
                    self.update_in(transaction, &key, "SET kept = :kept", Some(STANDS), used)?;
                }
            }
        }
        Ok(())
    }

    async fn write_approval(
        &self,
        transaction: &mut Transaction,
        approval: &Approval,
        moment: &Moment,
    ) -> Result<(), StoreError> {
        let mut values = Item::from([
            (":body".to_owned(), self.body(&approval.run.tenant, approval, COMMITTING).await?),
            (":asked".to_owned(), text(moment.order.of(approval.id.as_str()))),
        ]);
        let expression = if approval.is_open() {
            values.insert(":open_of".to_owned(), text(approval.run.tenant.as_str()));
            "SET body = :body, asked = if_not_exists(asked, :asked), open_of = :open_of"
        } else {
            "SET body = :body, asked = if_not_exists(asked, :asked) REMOVE open_of"
        };
        // The run's version guards it.
        let key = Key::approval(&approval.run.tenant, &approval.id);
        self.update_in(transaction, &key, expression, None, values)
    }

    /// Adds a new item, or one that replaces what `condition` speaks of.
    pub(super) fn put_in(
        &self,
        transaction: &mut Transaction,
        guard: Guard,
        item: Item,
        condition: Condition,
    ) -> Result<(), StoreError> {
        item::weigh(&item, COMMITTING)?;
        let put = Put::builder()
            .table_name(&*self.table)
            .set_item(Some(item))
            .condition_expression(condition.expression)
            .set_expression_attribute_values(condition.values)
            .build()
            .map_err(|error| StoreError::broken(COMMITTING, error))?;
        transaction.push(guard, TransactWriteItem::builder().put(put).build());
        Ok(())
    }

    fn update_in(
        &self,
        transaction: &mut Transaction,
        key: &Key,
        expression: &str,
        condition: Option<&str>,
        values: Item,
    ) -> Result<(), StoreError> {
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

    /// Writes all of `transaction`, or nothing. `name` is its own, so that a repetition below us is the same
    /// write.
    pub(super) async fn transact(&self, transaction: Transaction, name: &Digest) -> Result<(), Fault> {
        let Transaction { items, guards } = transaction;
        if items.len() > ITEMS_MAX {
            return Err(Fault::broken(Unfit::TooMany(items.len(), ITEMS_MAX)));
        }
        let write = self.client.transact_write_items().set_transact_items(Some(items));
        let Err(error) = write.client_request_token(self.token(name)).send().await else { return Ok(()) };
        let reasons = match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(canceled)) => {
                let codes = canceled.cancellation_reasons().iter();
                Some(codes.map(|reason| reason.code().map(str::to_owned)).collect::<Vec<_>>())
            }
            _ => None,
        };
        let fault = Fault::of(error);
        Err(match reasons {
            Some(reasons) => fault.canceled(reasons.iter().map(Option::as_deref)).under(&reasons, &guards),
            None => fault,
        })
    }

    /// What a write is called among all writes of an account, those to other tables included; 32 of the 36
    /// characters allowed.
    fn token(&self, name: &Digest) -> String {
        let parts = [self.table.as_bytes(), name.as_bytes()];
        Digest::of_parts("countersign/client-token/v1", &parts).to_string()[..32].to_owned()
    }
}

impl Fault {
    /// The same fault, unless all that failed is a condition that cannot fail in a ledger that is well.
    fn under(self, reasons: &[Option<String>], guards: &[Guard]) -> Self {
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

/// In whose list of which status a run stands.
fn runs_in(record: &RunRecord) -> String {
    in_status(&record.key.tenant, record.status)
}

/// The list of a tenant's runs in one status.
pub(super) fn in_status(tenant: &domain::TenantId, status: domain::RunStatus) -> String {
    format!("{tenant}#{}", status.as_str())
}

/// The part of the due index that `run` and its errands stand in, for each `kind` of them.
pub(super) fn shard(kind: &str, run: &RunKey) -> String {
    let digest = Digest::of_parts("countersign/due-shard/v1", &[run.tenant.as_str(), run.run.as_str()]);
    format!("{kind}#{}", digest.as_bytes()[0] % SHARDS)
}

fn due(record: &RunRecord) -> Option<[(String, AttributeValue); 2]> {
    let at = record.due_at?;
    Some([(DUE.hash.to_owned(), text(shard("run", &record.key))), (DUE.range.to_owned(), number(at.0))])
}

/// What is to be written of each receipt, and over which revision: the last change to a key is the one that
/// counts, the first names what must stand there.
fn settled(changes: &[ReceiptChange]) -> Vec<(&Receipt, Option<u32>)> {
    let mut settled: Vec<(&Receipt, Option<u32>)> = Vec::new();
    for change in changes {
        match settled.iter_mut().find(|(receipt, _)| receipt.key == change.receipt.key) {
            Some((receipt, _)) => *receipt = &change.receipt,
            None => settled.push((&change.receipt, change.replaces)),
        }
    }
    settled
}

/// Names the write. The same name must mean the same items, so the
/// moment is part of it wherever an item tells the moment.
fn name(decision: &Decision, moment: &Moment) -> Digest {
    let record = &decision.record;
    let errand = decision.outgoing.iter().any(|message| message.errand != Errand::Walk);
    let tells = decision.replaces.is_none() || errand || !decision.approvals.is_empty();
    let version = record.version.to_string();
    let parts = [
        record.key.tenant.as_str(),
        record.key.run.as_str(),
        record.op.as_str(),
        &version,
        if tells { moment.order.as_str() } else { "" },
    ];
    Digest::of_parts("countersign/commit-name/v1", &parts)
}
