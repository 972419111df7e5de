//! A commit: one transaction, all or nothing.
//!
//! Its conditions are what the decision was made from: the run's version, the revision of each receipt it
//! replaces, the deliveries it records or uses. Events and ended steps are new items, and nothing is ever
//! written over them.

use aws_sdk_dynamodb::config::Config;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem, Update};
use domain::record::ORPHANED_AFTER;
use domain::{
    Approval, Decision, Digest, Job, Payload, Receipt, ReceiptChange, RecordName, RunKey, RunStatus,
    SignalChange, TenantId, Timestamp,
};

use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::ledger::{Hold, Write};
use crate::queue::Queue;

use super::error::{Class, Fault};
use super::item::{
    self, BODY, DIGEST, ENTRY, Item, KEPT, NUMBER, REVISION, RUN, UNNAMED_BYTES, UNSEALED, Unfit, bytes,
    number, text,
};
use super::key::Key;
use super::order::Order;
use super::outbox::GRACE;
use super::table::{BY_RECORD, BY_STATUS, BY_TENANT, DUE, OPEN, SHARDS};
use super::{AwsStore, Condition, STANDS, names, was, with};

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
        hold: Option<Hold>,
    ) -> Result<Write, StoreError> {
        let now = self.clock.now();
        let moment = Moment { now, order: self.orders.next(now) };
        let mut transaction = self.transaction(&decision, input.as_ref(), &moment).await?;
        if let Some(hold) = &hold {
            self.write_ticket(&mut transaction, &decision.record.key, hold)?;
        }
        let under_way = self.send_early(&decision).await;
        self.write_outbox(&mut transaction, &decision, &under_way, &moment)?;
        match self.transact(transaction, &name(&decision, &moment)).await {
            Ok(()) => {
                self.deliver(&decision, &under_way).await;
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
        let key = Key::run(&record.key);
        let Some(version) = decision.replaces else {
            let mut item = with(
                &key,
                [
                    (REVISION, number(record.version)),
                    (BODY, body),
                    (BY_TENANT.hash, text(record.key.tenant.as_str())),
                    (BY_TENANT.range, text(moment.order.of(record.key.run.as_str()))),
                ],
            );
            item.extend(listed(decision, moment).into_iter().filter_map(Listed::item));
            return self.put_in(transaction, Guard::Version, item, Condition::is_new());
        };
        let mut values = Item::from([
            was(number(version)),
            (":rev".to_owned(), number(record.version)),
            (":body".to_owned(), body),
        ]);
        let expression = replacing(listed(decision, moment), &mut values);
        self.update_in(transaction, &key, &expression, Some("rev = :was"), values)
    }

    /// Gives the ticket to `run`.
    fn write_ticket(
        &self,
        transaction: &mut Transaction,
        run: &RunKey,
        hold: &Hold,
    ) -> Result<(), StoreError> {
        let item = with(&Key::ticket(&run.tenant, &hold.ticket), [(RUN, text(run.run.as_str()))]);
        let condition = hold.after.as_ref().map_or_else(Condition::is_new, Condition::run);
        self.put_in(transaction, Guard::Version, item, condition)
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
        for displaced in changes.iter().filter_map(|change| change.displaces.as_ref()) {
            let run = RunKey { tenant: displaced.tenant.clone(), run: displaced.run.clone() };
            let values = Item::from([(
                ":body".to_owned(),
                self.body(&displaced.tenant, displaced, COMMITTING).await?,
            )]);
            // The revision of the receipt that takes its place guards it.
            self.update_in(
                transaction,
                &Key::displaced(&run, &displaced.key),
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
            (":rev".to_owned(), number(approval.revision)),
        ]);
        let expression = if approval.is_open() {
            values.insert(":open_of".to_owned(), text(approval.run.tenant.as_str()));
            "SET body = :body, rev = :rev, asked = if_not_exists(asked, :asked), open_of = :open_of"
        } else {
            "SET body = :body, rev = :rev, asked = if_not_exists(asked, :asked) REMOVE open_of"
        };
        // The run's version is not enough: while another's transaction is being applied, whoever reads the run after it
        // may read the request before it, in its partition of the table.
        let newer = Some("attribute_not_exists(rev) OR rev < :rev");
        let key = Key::approval(&approval.run.tenant, &approval.id);
        self.update_in(transaction, &key, expression, newer, values)
    }

    /// Adds a new item, or one that replaces what `condition` speaks of.
    pub(super) fn put_in(
        &self,
        transaction: &mut Transaction,
        guard: Guard,
        item: Item,
        condition: Condition,
    ) -> Result<(), StoreError> {
        let item = item::squeezed(item, BODY, 0);
        item::weigh(&item, COMMITTING)?;
        let put = Put::builder()
            .table_name(&*self.table)
            .set_item(Some(item))
            .condition_expression(condition.expression)
            .set_expression_attribute_names(names(&[condition.expression]))
            .set_expression_attribute_values(condition.values)
            .build()
            .map_err(|error| StoreError::broken(COMMITTING, error))?;
        transaction.push(guard, TransactWriteItem::builder().put(put).build());
        Ok(())
    }

    pub(super) fn update_in(
        &self,
        transaction: &mut Transaction,
        key: &Key,
        expression: &str,
        condition: Option<&str>,
        values: Item,
    ) -> Result<(), StoreError> {
        let values = item::squeezed(values, ":body", key.bytes() + UNNAMED_BYTES);
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
        let Transaction { mut items, guards } = transaction;
        if items.len() == 1 && items.iter().all(|item| item.update.is_some()) {
            return self.alone(items.pop().and_then(|item| item.update)).await;
        }
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

    /// Changes one item, which needs no transaction and then costs half: a claim without an effect, a heartbeat.
    /// Like every write without a name it is sent once; a lost reply is for the caller to look into.
    async fn alone(&self, update: Option<Update>) -> Result<(), Fault> {
        let Some(update) = update else { return Ok(()) };
        let once = Config::builder().retry_config(RetryConfig::disabled());
        let write = self
            .client
            .update_item()
            .table_name(update.table_name)
            .set_key(Some(update.key))
            .update_expression(update.update_expression)
            .set_condition_expression(update.condition_expression)
            .set_expression_attribute_values(update.expression_attribute_values);
        write.customize().config_override(once).send().await.map(drop).map_err(Fault::of)
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

/// How many attributes put a run into the indexes, beside those that it is begun with.
const LISTED: usize = 7;

/// An attribute that puts a run into an index, or tells what it stands there for.
struct Listed(&'static str, Stands);

enum Stands {
    /// With this value.
    With(AttributeValue),
    /// As it stood, or else with this value.
    AsBefore(AttributeValue),
    /// Not at all.
    Not,
}

impl Listed {
    /// The attribute of a new item.
    fn item(self) -> Option<(String, AttributeValue)> {
        match self.1 {
            Stands::With(value) | Stands::AsBefore(value) => Some((self.0.to_owned(), value)),
            Stands::Not => None,
        }
    }
}

fn listed(decision: &Decision, moment: &Moment) -> [Listed; LISTED] {
    let record = &decision.record;
    let with = |value: Option<AttributeValue>| value.map_or(Stands::Not, Stands::With);
    let part = || text(shard("run", &record.key));
    let runs_in = with(in_status(&record.key.tenant, record.status).map(text));
    let about = record.trigger.record.as_ref();
    let by_record = with(about.map(|about| text(on_record(&record.key.tenant, about))));
    let unsealed = decision.outgoing.iter().any(|message| message.job == Job::BuildEvidence);
    // A run that ends stays in the due index until its evidence is there. Its time is as good as any other that is near,
    // and an entry that does not move is not paid for. A run that waited may not have been due for days.
    let [due_in, due_at] = if unsealed {
        let near = decision.was_due.is_some_and(|due| due <= moment.now + ORPHANED_AFTER);
        let soon = number((moment.now + GRACE).0);
        [Stands::AsBefore(part()), if near { Stands::AsBefore(soon) } else { Stands::With(soon) }]
    } else {
        [with(record.due_at.map(|_| part())), with(record.due_at.map(|at| number(at.0)))]
    };
    let unsealed = with(unsealed.then_some(AttributeValue::Bool(true)));
    // A run that is paused is not due. Whoever looks for everybody with runs that are not over finds it here.
    let held = record.status == RunStatus::Paused;
    let [held_in, held_as] =
        [shard(HELD, &record.key), record.key.run.to_string()].map(|value| with(held.then(|| text(value))));
    [
        Listed(BY_STATUS.hash, runs_in),
        Listed(BY_RECORD.hash, by_record),
        Listed(DUE.hash, due_in),
        Listed(DUE.range, due_at),
        Listed(UNSEALED, unsealed),
        Listed(OPEN.hash, held_in),
        Listed(OPEN.range, held_as),
    ]
}

/// Replaces a record, its revision and what puts it into the indexes. An index is written only where what stands
/// in it changes, so naming all of it costs nothing.
fn replacing(listed: [Listed; LISTED], values: &mut Item) -> String {
    let (mut set, mut remove) = ("SET rev = :rev, body = :body".to_owned(), Vec::new());
    for Listed(name, stands) in listed {
        let (value, words) = match stands {
            Stands::With(value) => (value, format!(", {name} = :{name}")),
            Stands::AsBefore(value) => (value, format!(", {name} = if_not_exists({name}, :{name})")),
            Stands::Not => {
                remove.push(name);
                continue;
            }
        };
        values.insert(format!(":{name}"), value);
        set.push_str(&words);
    }
    if remove.is_empty() { set } else { format!("{set} REMOVE {}", remove.join(", ")) }
}

/// The list of a tenant's runs in which those of one status stand; `None` for runs that succeeded, which are most
/// of all and are found among all. Those under way share one list: each entry that moves is two writes, and they
/// change their status with every question that is asked.
pub(super) fn in_status(tenant: &TenantId, status: RunStatus) -> Option<String> {
    use RunStatus::{
        Canceled, FailedRetryable, FailedTerminal, Paused, Queued, RollingBack, Running, Succeeded,
        WaitingApproval, WaitingEvent,
    };
    match status {
        Queued | Running | WaitingApproval | WaitingEvent | FailedRetryable => Some(format!("{tenant}#live")),
        Paused | RollingBack | FailedTerminal | Canceled => Some(format!("{tenant}#{}", status.as_str())),
        Succeeded => None,
    }
}

/// The list of a tenant's runs about one record. A name may hold what joins the parts of a key, so it comes last.
pub(super) fn on_record(tenant: &TenantId, record: &RecordName) -> String {
    format!("{tenant}#{record}")
}

/// What the parts of an index are called in which runs stand that nothing moves but a person.
pub(super) const HELD: &str = "held";

/// The part of an index that `run` and its jobs stand in, for each `kind` of them.
pub(super) fn shard(kind: &str, run: &RunKey) -> String {
    let digest = Digest::of_parts("countersign/due-shard/v1", &[run.tenant.as_str(), run.run.as_str()]);
    format!("{kind}#{}", digest.as_bytes()[0] % SHARDS)
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
    let job = decision.outgoing.iter().any(|message| message.job != Job::Advance);
    let tells = decision.replaces.is_none() || job || !decision.approvals.is_empty();
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
