//! The store on AWS.
//!
//! The ledger is one DynamoDB table; a commit is one transaction whose conditions are the versions it was
//! decided from. Messages go by SQS, a queue for each queue; bodies too large for an item and evidence go to S3.
//! Both are given to the ledger, so that a test can put others in their place. Reads that decide are strongly
//! consistent; an index only finds candidates; nothing is ever scanned.

mod access;
mod archive;
mod commit;
mod connect;
mod dead;
mod error;
mod governance;
mod inbox;
mod index;
mod item;
mod key;
mod ledger;
mod local;
mod message;
mod order;
mod outbox;
mod s3;
mod sqs;
mod table;
mod worker_registry;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt::Display;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Config;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use domain::inbox::DUPLICATE_WITHIN;
use domain::{BlobRef, Millis, Outgoing, QueueName, RunId, TenantId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blobs::{BlobKind, Blobs};
use crate::clock::Clock;
use crate::error::{StoreError, told};
use crate::ledger::Write;
use crate::queue::{DeadLetter, Delivery, Handle, Queue};
use crate::spread;

use error::{Class, Fault};
use item::Item;
use key::Key;
use order::Orders;

pub use connect::{AwsSettings, configure, dynamodb, open, open_stand_in, retries, s3, sqs, timeouts};
pub use local::{create_buckets, create_queues};
pub use s3::{Buckets, Retention, RetentionMode, S3Blobs};
pub use sqs::{QueueUrls, SqsQueue};
pub use table::{TIME_TO_LIVE, create as create_table};

/// How many items DynamoDB gives for one request.
const BATCH_MAX: usize = 100;

/// How often the rest of a batch is asked for before the table counts as busy.
const BATCH_TRIES_MAX: u32 = 8;

/// How long about the first of these waits is; each further one is longer by as much.
const BATCH_AFTER: Duration = Duration::from_millis(20);

/// What only a new item may be written under.
const IS_NEW: &str = "attribute_not_exists(pk)";
/// What an item that stands there is written under.
const STANDS: &str = "attribute_exists(pk)";

/// The store on AWS: a DynamoDB table, a queue and a blob store.
#[derive(Clone)]
pub struct AwsStore<Q, B> {
    client: Client,
    table: Arc<str>,
    queue: Q,
    blobs: B,
    clock: Arc<dyn Clock>,
    orders: Arc<Orders>,
    /// Tells this process from all others where nothing else does.
    salt: u64,
}

/// What a store on AWS is made of.
pub struct AwsParts<Q, B> {
    /// Speaks to DynamoDB.
    pub client: Client,
    /// The table's name.
    pub table: String,
    /// Where messages go.
    pub queue: Q,
    /// Where large bodies go.
    pub blobs: B,
    /// By which lists are ordered and jobs become due.
    pub clock: Arc<dyn Clock>,
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// A store of these parts. The table must be there.
    pub fn new(parts: AwsParts<Q, B>) -> Self {
        let AwsParts { client, table, queue, blobs, clock } = parts;
        Self {
            client,
            table: table.into(),
            queue,
            blobs,
            clock,
            orders: Arc::default(),
            salt: RandomState::new().hash_one(()),
        }
    }

    /// The item under `key`, as of every write that was answered before.
    async fn get(&self, key: &Key, doing: &'static str) -> Result<Option<Item>, StoreError> {
        let get = self.client.get_item().table_name(&*self.table).set_key(Some(key.item()));
        let found = get.consistent_read(true).send().await;
        Ok(found.map_err(|error| Fault::of(error).read(doing))?.item)
    }

    /// What the item under `key` is about.
    async fn get_body<T: DeserializeOwned>(
        &self,
        key: &Key,
        doing: &'static str,
    ) -> Result<Option<T>, StoreError> {
        match self.get(key, doing).await? {
            Some(item) => Ok(Some(self.read(&item, doing).await?)),
            None => Ok(None),
        }
    }

    /// What `item` is about.
    async fn read<T: DeserializeOwned>(&self, item: &Item, doing: &'static str) -> Result<T, StoreError> {
        item::read(&self.blobs, item, doing).await
    }

    /// What `item` is about, for whoever looks after many: one that cannot be read is logged and passed over, or it
    /// would keep all others from being looked after.
    async fn read_or_pass_over<T: DeserializeOwned>(
        &self,
        item: &Item,
        doing: &'static str,
    ) -> Result<Option<T>, StoreError> {
        match self.read(item, doing).await {
            Err(error @ StoreError::Broken { .. }) => {
                let key = Key::of(item);
                tracing::warn!(?key, error = told(&error), "an item cannot be read, and is passed over");
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// `value` as a body of one of `tenant`'s items.
    async fn body(
        &self,
        tenant: &TenantId,
        value: &(impl Serialize + Sync),
        doing: &'static str,
    ) -> Result<AttributeValue, StoreError> {
        item::body(&self.blobs, tenant, value, doing).await
    }

    /// The items under `keys` that are there, as of every write that was answered before, in no order.
    async fn get_all(&self, keys: &[Key], doing: &'static str) -> Result<Vec<Item>, StoreError> {
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunks(BATCH_MAX) {
            self.get_batch(keys, Seen::Now, &mut found, doing).await?;
        }
        Ok(found)
    }

    async fn get_batch(
        &self,
        keys: &[Key],
        seen: Seen,
        found: &mut Vec<Item>,
        doing: &'static str,
    ) -> Result<(), StoreError> {
        let (first, mut wanted) = (keys.first(), keys.iter().map(Key::item).collect::<Vec<Item>>());
        for round in 1..=BATCH_TRIES_MAX {
            let keys = KeysAndAttributes::builder().set_keys(Some(wanted));
            let keys = keys.consistent_read(seen == Seen::Now).build();
            let keys = keys.map_err(|error| StoreError::broken(doing, error))?;
            let batch = self.client.batch_get_item().request_items(&*self.table, keys).send().await;
            let batch = batch.map_err(|error| Fault::of(error).read(doing))?;
            found
                .extend(batch.responses.into_iter().filter_map(|mut got| got.remove(&*self.table)).flatten());
            let rest = batch.unprocessed_keys.and_then(|mut rest| rest.remove(&*self.table));
            wanted = rest.map(|rest| rest.keys).unwrap_or_default();
            if wanted.is_empty() {
                return Ok(());
            }
            // A batch stops at 16 MB, or where the table is short of breath.
            tokio::time::sleep(rest_after(self.salt, first, round)).await;
        }
        Err(StoreError::Busy { doing })
    }

    /// Changes the item under `key`, if `condition` holds of it.
    async fn update(
        &self,
        key: &Key,
        expression: &str,
        condition: &str,
        values: Item,
        doing: &'static str,
    ) -> Result<Write, StoreError> {
        let update = self.client.update_item().table_name(&*self.table).set_key(Some(key.item()));
        let update = update.update_expression(expression).condition_expression(condition);
        let update = update.set_expression_attribute_names(names(&[expression, condition]));
        let update = update.set_expression_attribute_values(Some(values));
        // Sent once, for the same reason as a put.
        let once = Config::builder().retry_config(RetryConfig::disabled());
        match update.customize().config_override(once).send().await.map_err(Fault::of) {
            Ok(_) => Ok(Write::Committed),
            Err(fault) if fault.class == Class::Superseded => Ok(Write::Superseded),
            Err(fault) => Err(fault.write(doing)),
        }
    }

    /// Writes `item`, if `condition` holds of what stands in its place.
    async fn put(&self, item: Item, condition: Condition, doing: &'static str) -> Result<Write, StoreError> {
        let item = item::squeezed(item, item::BODY, 0);
        item::weigh(&item, doing)?;
        let put = self.client.put_item().table_name(&*self.table).set_item(Some(item));
        let put =
            put.condition_expression(condition.expression).set_expression_attribute_values(condition.values);
        // A write without a name of its own is sent once: sent again after a lost reply, it would take itself
        // for a stranger.
        let once = Config::builder().retry_config(RetryConfig::disabled());
        match put.customize().config_override(once).send().await.map_err(Fault::of) {
            Ok(_) => Ok(Write::Committed),
            Err(fault) if fault.class == Class::Superseded => Ok(Write::Superseded),
            Err(fault) => Err(fault.write(doing)),
        }
    }
}

/// How long a process waits before it asks for the rest of a batch that began with `first`; others wait for another
/// while.
fn rest_after(salt: u64, first: Option<&Key>, round: u32) -> Duration {
    spread::around(BATCH_AFTER * round, &format!("{salt} {first:?}"), round)
}

/// What an expression calls the time to live, whose own name is a word of the language.
fn names(expressions: &[&str]) -> Option<HashMap<String, String>> {
    let named = expressions.iter().any(|expression| expression.contains("#ttl"));
    named.then(|| HashMap::from([("#ttl".to_owned(), TIME_TO_LIVE.to_owned())]))
}

/// As of when something is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// With every write that was answered before.
    Now,
    /// A moment ago, at half the price.
    Lately,
}

/// What must hold of the item in whose place another is put.
struct Condition {
    expression: &'static str,
    values: Option<Item>,
}

impl Condition {
    /// Nothing stands there.
    fn is_new() -> Self {
        Self { expression: IS_NEW, values: None }
    }

    /// Nothing stands there, or what the table only has not got round to forgetting.
    fn is_forgotten(now: Timestamp) -> Self {
        let values = Item::from([(":now".to_owned(), item::number(now.0 / 1_000))]);
        Self { expression: "attribute_not_exists(pk) OR #ttl <= :now", values: Some(values) }
    }

    /// Nothing stands there, or what came long before `at`, or long after.
    fn is_no_echo(at: Timestamp) -> Self {
        let apart = DUPLICATE_WITHIN.0.cast_signed();
        let values = [(":before", at.0.saturating_sub(apart)), (":after", at.0.saturating_add(apart))];
        let values = values.map(|(name, at)| (name.to_owned(), item::number(at)));
        Self {
            expression: "attribute_not_exists(pk) OR came_at <= :before OR came_at >= :after",
            values: Some(values.into()),
        }
    }

    /// The one that stands there has this revision.
    fn revision(revision: impl Display + Copy) -> Self {
        Self { expression: "rev = :was", values: Some(Item::from([was(item::number(revision))])) }
    }

    /// The one that stands there is this run's.
    fn run(run: &RunId) -> Self {
        Self { expression: "run = :was", values: Some(Item::from([was(item::text(run.as_str()))])) }
    }

    /// The one that stands there is about this.
    fn body(body: AttributeValue) -> Self {
        Self { expression: "body = :was", values: Some(Item::from([was(body)])) }
    }
}

/// What stood there.
fn was(value: AttributeValue) -> (String, AttributeValue) {
    (":was".to_owned(), value)
}

/// The item under `key` with these attributes.
fn with<const N: usize>(key: &Key, attributes: [(&str, AttributeValue); N]) -> Item {
    let mut item = key.item();
    item.extend(attributes.map(|(name, value)| (name.to_owned(), value)));
    item
}

impl<Q, B> Queue for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        self.queue.send(message).await
    }

    async fn send_all(&self, messages: &[Outgoing]) -> Vec<Result<(), StoreError>> {
        self.queue.send_all(messages).await
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
        wait: Duration,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.queue.receive(queue, max, visibility, wait).await
    }

    async fn extend(&self, handle: &Handle, visibility: Millis) -> Result<bool, StoreError> {
        self.queue.extend(handle, visibility).await
    }

    async fn delete(&self, handle: &Handle) -> Result<bool, StoreError> {
        self.queue.delete(handle).await
    }

    async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.queue.dead_letters(limit).await
    }

    async fn redrive(&self, limit: u32) -> Result<u32, StoreError> {
        self.queue.redrive(limit).await
    }

    async fn depth(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.queue.depth(queue).await
    }

    async fn waiting(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.queue.waiting(queue).await
    }
}

impl<Q, B> Blobs for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn put_blob(&self, on: BlobKind, tenant: &TenantId, bytes: Vec<u8>) -> Result<BlobRef, StoreError> {
        self.blobs.put_blob(on, tenant, bytes).await
    }

    async fn blob(
        &self,
        on: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.blobs.blob(on, tenant, blob).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_that_are_short_of_the_same_items_do_not_ask_at_the_same_time() {
        let key = &Key { pk: "acme#run#1".to_owned(), sk: "run".to_owned() };
        let waits = |salt| (1..=BATCH_TRIES_MAX).map(move |round| rest_after(salt, Some(key), round));
        assert!(waits(1).ne(waits(2)));
        assert!(waits(1).eq(waits(1)));
    }
}
