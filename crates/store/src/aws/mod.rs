//! The store on AWS: DynamoDB, SQS and S3.
//!
//! The ledger is one DynamoDB table. A commit is one `TransactWriteItems` call, conditioned on the versions that
//! the decision was made from. Each queue is an SQS queue with a dead-letter queue. S3 holds evidence, and bodies
//! that are too large for an item. The SQS and S3 parts are type parameters, so that a test can replace them. Reads
//! of items are strongly consistent; a GSI only finds candidates; the store never scans the table.

mod access;
mod archive;
mod audit;
mod commit;
mod connect;
mod dead_letters;
mod error;
mod governance;
mod inbox;
mod index;
mod item;
mod key;
mod ledger;
mod local;
mod log;
mod message;
mod outbox;
mod s3;
mod sequence;
mod sqs;
mod table;
mod worker_registry;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt::Display;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Config;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use domain::dispatch::RECORD_FORMAT;
use domain::inbox::DUPLICATE_WITHIN;
use domain::{RunId, TenantId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blobs::Blobs;
use crate::clock::Clock;
use crate::error::{StoreError, error_chain};
use crate::jitter;
use crate::ledger::Write;
use crate::queue::Queue;

use error::{AwsError, Class};
use item::{BODY, FORMAT, Item, REVISION};
use key::Key;
use log::LogWriters;
use outbox::LateEvidence;
use sequence::Sequences;

pub use connect::{AwsSettings, configure, dynamodb, open, open_local, retries, s3, sqs, timeouts};
pub use local::{create_buckets, create_queues};
pub use s3::{Buckets, Retention, RetentionMode, S3Blobs};
pub use sqs::{QueueUrls, SqsQueue};
pub use table::{TIME_TO_LIVE, create as create_table};

/// The maximum number of items of one `BatchGetItem`.
const BATCH_MAX: usize = 100;

/// How often the unprocessed keys of a batch are requested before the table counts as busy.
const BATCH_ATTEMPTS_MAX: u32 = 8;

/// The approximate delay before the first retry. The delay grows linearly.
const BATCH_RETRY_DELAY: Duration = Duration::from_millis(20);

/// The condition for an item that must not exist yet.
const IS_NEW: &str = "attribute_not_exists(pk)";
/// The condition for an item that must exist.
const EXISTS: &str = "attribute_exists(pk)";

/// The condition for replacing an item with this revision. No newer program may have written it in a format that this one
/// does not support.
const REPLACES_REVISION: &str = "rev = :expected AND (attribute_not_exists(fmt) OR fmt <= :fmt)";
/// The same for an item without a revision.
const REPLACES_BODY: &str = "body = :expected AND (attribute_not_exists(fmt) OR fmt <= :fmt)";

/// The store on AWS: a DynamoDB table, a queue and a blob store.
#[derive(Clone)]
pub struct AwsStore<Q, B> {
    client: Client,
    table: Arc<str>,
    queue: Q,
    blobs: B,
    clock: Arc<dyn Clock>,
    sequences: Arc<Sequences>,
    log_writers: Arc<LogWriters>,
    /// Whether the due index may have finished runs among the unfinished ones.
    finished_runs_seen: Arc<AtomicBool>,
    late_evidence: Arc<LateEvidence>,
    /// A random number of this process, for jitter and for client request tokens.
    salt: u64,
}

/// The parts of an [`AwsStore`].
pub struct AwsParts<Q, B> {
    /// The DynamoDB client.
    pub client: Client,
    /// The name of the table.
    pub table: String,
    /// The queue that messages are sent to.
    pub queue: Q,
    /// The blob store for bodies that are too large for an item.
    pub blobs: B,
    /// The clock that orders lists and due times.
    pub clock: Arc<dyn Clock>,
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// A store of these parts. The table must exist.
    pub fn new(parts: AwsParts<Q, B>) -> Self {
        let AwsParts { client, table, queue, blobs, clock } = parts;
        Self {
            client,
            table: table.into(),
            queue,
            blobs,
            clock,
            sequences: Arc::default(),
            log_writers: Arc::default(),
            finished_runs_seen: Arc::new(AtomicBool::new(true)),
            late_evidence: Arc::default(),
            salt: RandomState::new().hash_one(()),
        }
    }

    /// Replaces the random number of this process, so that a simulation can be repeated. Two processes must not have the
    /// same number.
    #[must_use]
    pub fn with_salt(self, salt: u64) -> Self {
        Self { salt, ..self }
    }

    /// Reads the item under `key`, strongly consistent.
    async fn get(&self, key: &Key, doing: &'static str) -> Result<Option<Item>, StoreError> {
        let get = self.client.get_item().table_name(&*self.table).set_key(Some(key.item()));
        let found = get.consistent_read(true).send().await;
        Ok(found.map_err(|error| AwsError::from_sdk(error).into_read_error(doing))?.item)
    }

    /// Reads the body of the item under `key`.
    async fn get_body<T: DeserializeOwned>(
        &self,
        key: &Key,
        doing: &'static str,
    ) -> Result<Option<T>, StoreError> {
        match self.get(key, doing).await? {
            Some(item) => Ok(Some(self.decode_body(&item, doing).await?)),
            None => Ok(None),
        }
    }

    /// Decodes the body of `item`.
    async fn decode_body<T: DeserializeOwned>(
        &self,
        item: &Item,
        doing: &'static str,
    ) -> Result<T, StoreError> {
        item::decode_body(&self.blobs, item, doing).await
    }

    /// Decodes the body of `item`. Returns `None` and logs a warning if that fails: one broken item must not block
    /// a sweep.
    async fn decode_or_skip<T: DeserializeOwned>(
        &self,
        item: &Item,
        doing: &'static str,
    ) -> Result<Option<T>, StoreError> {
        match self.decode_body(item, doing).await {
            Err(error @ StoreError::Broken { .. }) => {
                let key = Key::of(item);
                tracing::warn!(
                    event = "item_undecodable",
                    ?key,
                    error = error_chain(&error),
                    "skipped an undecodable item"
                );
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Encodes `value` as the body of an item of `tenant`.
    async fn encode_body(
        &self,
        tenant: &TenantId,
        value: &(impl Serialize + Sync),
        doing: &'static str,
    ) -> Result<AttributeValue, StoreError> {
        item::encode_body(&self.blobs, tenant, value, doing).await
    }

    /// Reads the items under `keys`, strongly consistent, in no order. Missing items are left out.
    async fn get_all(&self, keys: &[Key], doing: &'static str) -> Result<Vec<Item>, StoreError> {
        let batches: Vec<Vec<Key>> = keys.chunks(BATCH_MAX).map(<[Key]>::to_vec).collect();
        index::run_concurrently(batches.into_iter().map(|keys| self.get_chunk(keys, doing))).await
    }

    async fn get_chunk(&self, keys: Vec<Key>, doing: &'static str) -> Result<Vec<Item>, StoreError> {
        let mut found = Vec::with_capacity(keys.len());
        self.get_batch(&keys, Consistency::Strong, &mut found, doing).await.map(|()| found)
    }

    async fn get_batch(
        &self,
        keys: &[Key],
        consistency: Consistency,
        found: &mut Vec<Item>,
        doing: &'static str,
    ) -> Result<(), StoreError> {
        let (first, mut pending) = (keys.first(), keys.iter().map(Key::item).collect::<Vec<Item>>());
        for round in 1..=BATCH_ATTEMPTS_MAX {
            let keys = KeysAndAttributes::builder().set_keys(Some(pending));
            let keys = keys.consistent_read(consistency == Consistency::Strong).build();
            let keys = keys.map_err(|error| StoreError::broken(doing, error))?;
            let batch = self.client.batch_get_item().request_items(&*self.table, keys).send().await;
            let batch = batch.map_err(|error| AwsError::from_sdk(error).into_read_error(doing))?;
            found.extend(
                batch.responses.into_iter().filter_map(|mut tables| tables.remove(&*self.table)).flatten(),
            );
            let rest = batch.unprocessed_keys.and_then(|mut rest| rest.remove(&*self.table));
            pending = rest.map(|rest| rest.keys).unwrap_or_default();
            if pending.is_empty() {
                return Ok(());
            }
            // DynamoDB returns unprocessed keys beyond 16 MB, or when it throttles.
            tokio::time::sleep(batch_retry_delay(self.salt, first, round)).await;
        }
        Err(StoreError::Busy { doing })
    }

    /// Updates the item under `key` if `condition` holds.
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
        let update = update.set_expression_attribute_names(attribute_names(&[expression, condition]));
        let update = update.set_expression_attribute_values(Some(values));
        // Sent once, for the same reason as in `put`.
        let no_retries = Config::builder().retry_config(RetryConfig::disabled());
        match update.customize().config_override(no_retries).send().await.map_err(AwsError::from_sdk) {
            Ok(_) => Ok(Write::Committed),
            Err(error) if error.class == Class::Superseded => Ok(Write::Superseded),
            Err(error) => Err(error.into_write_error(doing)),
        }
    }

    /// Writes `item` if `condition` holds for the stored item.
    async fn put(&self, item: Item, condition: Condition, doing: &'static str) -> Result<Write, StoreError> {
        let item = item::compress(item, BODY, 0);
        item::check_size(&item, doing)?;
        let put = self.client.put_item().table_name(&*self.table).set_item(Some(item));
        let put = put.set_expression_attribute_names(attribute_names(&[condition.expression]));
        let put =
            put.condition_expression(condition.expression).set_expression_attribute_values(condition.values);
        // A write without a client request token is sent once: a retry after a lost reply would find its own write
        // and report `Superseded`.
        let no_retries = Config::builder().retry_config(RetryConfig::disabled());
        match put.customize().config_override(no_retries).send().await.map_err(AwsError::from_sdk) {
            Ok(_) => Ok(Write::Committed),
            Err(error) if error.class == Class::Superseded => Ok(Write::Superseded),
            Err(error) => Err(error.into_write_error(doing)),
        }
    }
}

/// The delay before the retry of a batch that starts with `first`. Differs between processes.
fn batch_retry_delay(salt: u64, first: Option<&Key>, round: u32) -> Duration {
    jitter::around(BATCH_RETRY_DELAY * round, &format!("{salt} {first:?}"), round)
}

/// The attribute names that the expressions use. `ttl` is a reserved word in DynamoDB, so expressions use `#ttl`.
fn attribute_names(expressions: &[&str]) -> Option<HashMap<String, String>> {
    let uses_ttl = expressions.iter().any(|expression| expression.contains("#ttl"));
    uses_ttl.then(|| HashMap::from([("#ttl".to_owned(), TIME_TO_LIVE.to_owned())]))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consistency {
    /// Sees every write that was acknowledged before.
    Strong,
    /// May miss recent writes; costs half as much.
    Eventual,
}

/// The condition of a conditional write.
struct Condition {
    expression: &'static str,
    values: Option<Item>,
}

impl Condition {
    /// The item does not exist.
    fn is_new() -> Self {
        Self { expression: IS_NEW, values: None }
    }

    /// The item does not exist, or has expired and DynamoDB has not deleted it yet.
    fn absent_or_expired(now: Timestamp) -> Self {
        let values = Item::from([(":now".to_owned(), item::number(now.0 / 1_000))]);
        Self { expression: "attribute_not_exists(pk) OR #ttl <= :now", values: Some(values) }
    }

    /// The same, or the item belongs to `run`.
    fn absent_expired_or_owned_by(run: &RunId, now: Timestamp) -> Self {
        let Self { values, .. } = Self::absent_or_expired(now);
        let of_run = expected(item::text(run.as_str()));
        Self {
            expression: "attribute_not_exists(pk) OR #ttl <= :now OR run = :expected",
            values: Some(values.into_iter().flatten().chain([of_run]).collect()),
        }
    }

    /// There is no entry with this dedupe key within [`DUPLICATE_WITHIN`] of `at`.
    fn not_duplicate(at: Timestamp) -> Self {
        let window = DUPLICATE_WITHIN.0.cast_signed();
        let values = [(":before", at.0.saturating_sub(window)), (":after", at.0.saturating_add(window))];
        let values = values.map(|(name, at)| (name.to_owned(), item::number(at)));
        Self {
            expression: "attribute_not_exists(pk) OR received_at <= :before OR received_at >= :after",
            values: Some(values.into()),
        }
    }

    /// The stored item has this revision, and a format that this program supports.
    fn revision(revision: impl Display + Copy) -> Self {
        let values = [expected(item::number(revision)), supported_format()];
        Self { expression: REPLACES_REVISION, values: Some(Item::from(values)) }
    }

    /// The stored item belongs to this run.
    fn run(run: &RunId) -> Self {
        Self { expression: "run = :expected", values: Some(Item::from([expected(item::text(run.as_str()))])) }
    }

    /// The stored item has this body, in a format that this program supports.
    fn body(body: AttributeValue) -> Self {
        let values = [expected(body), supported_format()];
        Self { expression: REPLACES_BODY, values: Some(Item::from(values)) }
    }
}

/// The `:expected` value of a condition.
fn expected(value: AttributeValue) -> (String, AttributeValue) {
    (":expected".to_owned(), value)
}

/// The `:fmt` value of an item or a condition.
fn supported_format() -> (String, AttributeValue) {
    (":fmt".to_owned(), item::number(RECORD_FORMAT))
}

/// An item whose body is replaced by later writes, with its revision and the format of the body. A program that does not
/// support the format does not read the item, and the conditions above keep it from replacing one that it read before:
/// it would drop the fields that it does not know. Worker records have no format: only their own worker replaces them.
fn versioned_item(key: &Key, revision: impl Display + Copy, body: AttributeValue) -> Item {
    let revision = (REVISION, item::number(revision));
    build_item(key, [revision, (BODY, body), (FORMAT, item::number(RECORD_FORMAT))])
}

/// The item with this key and these attributes.
fn build_item<const N: usize>(key: &Key, attributes: [(&str, AttributeValue); N]) -> Item {
    let mut item = key.item();
    item.extend(attributes.map(|(name, value)| (name.to_owned(), value)));
    item
}

impl<Q, B> Queue for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    crate::delegate!(queue: send, send_all, receive, extend, delete, dead_letters, redrive, depth, visible);
}

impl<Q, B> Blobs for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    crate::delegate!(blobs: put_blob, blob, put_bundle, bundle);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_retry_a_batch_at_different_times() {
        let key = &Key { pk: "acme#run#1".to_owned(), sk: "run".to_owned() };
        let delays =
            |salt| (1..=BATCH_ATTEMPTS_MAX).map(move |round| batch_retry_delay(salt, Some(key), round));
        assert!(delays(1).ne(delays(2)));
        assert!(delays(1).eq(delays(1)));
    }
}
