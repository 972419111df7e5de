//! The capacity of partitions: 1,000 write units and 3,000 read units a second, for the table and for each index.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// What one partition of DynamoDB serves in a second.
const WRITE_UNITS: f64 = 1_000.0;
const READ_UNITS: f64 = 3_000.0;

/// The indexes and their hash attributes.
pub(crate) const INDEXES: [(&str, &str); 5] = [
    ("due", "due_pk"),
    ("runs_by_tenant", "tenant_pk"),
    ("runs_by_status", "status_pk"),
    ("runs_by_record", "record_pk"),
    ("open_approvals", "open_pk"),
];

/// The partition of the worker registry.
const WORKER_REGISTRY: &str = "#workers";

/// Whether all tenants use this partition.
pub(crate) fn is_shared(partition: &str) -> bool {
    ["due ", "open_approvals paused", "#"].iter().any(|prefix| partition.starts_with(prefix))
}

/// Whether units are read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    pub(crate) fn of(operation: &str) -> Self {
        if ["GetItem", "BatchGetItem", "Query"].contains(&operation) { Self::Read } else { Self::Write }
    }

    /// The units of one partition in a second.
    pub(crate) fn limit(self) -> f64 {
        match self {
            Self::Read => READ_UNITS,
            Self::Write => WRITE_UNITS,
        }
    }
}

/// The units that a partition consumed.
#[derive(Debug, Clone)]
pub(crate) struct Consumption {
    pub(crate) partition: String,
    pub(crate) access: Access,
    pub(crate) units: f64,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
    consumed: f64,
}

/// The partitions of a table and its indexes.
#[derive(Debug)]
pub(crate) struct Partitions {
    /// The part of the real limits that a partition has. A small load then meets the limits as a large one would.
    scale: f64,
    buckets: BTreeMap<(String, Access), Bucket>,
    /// The index partitions that each item is in.
    items: HashMap<String, HashMap<&'static str, String>>,
}

impl Default for Partitions {
    fn default() -> Self {
        Self { scale: 1.0, buckets: BTreeMap::new(), items: HashMap::new() }
    }
}

impl Partitions {
    /// All units that were consumed since the last reset, except those of the worker registry, which a fleet without
    /// runs uses too.
    pub(crate) fn consumed(&self, access: Access) -> f64 {
        let counts = |partition: &str, used: Access| used == access && partition != WORKER_REGISTRY;
        self.buckets
            .iter()
            .filter(|((partition, used), _)| counts(partition, *used))
            .map(|(_, bucket)| bucket.consumed)
            .sum()
    }

    /// A partition of this request that has no capacity left. A write needs capacity in its indexes too.
    pub(crate) fn exhausted_partition(&mut self, operation: &str, body: &Value) -> Option<String> {
        let access = Access::of(operation);
        let mut partitions = table_partitions(body);
        partitions.extend(queried_partition(body));
        if access == Access::Write {
            partitions.extend(INDEXES.iter().flat_map(|(index, _)| self.index_partitions(index, body)));
        }
        partitions.into_iter().find(|partition| self.bucket(partition.clone(), access).tokens <= 0.0)
    }

    /// Takes the units that DynamoDB reports for a request.
    pub(crate) fn consume(&mut self, operation: &str, body: &Value, response: &Value) {
        let access = Access::of(operation);
        for consumed in one_or_many(&response["ConsumedCapacity"]) {
            let mut index_units = 0.0;
            for (index, units) in consumed["GlobalSecondaryIndexes"].as_object().into_iter().flatten() {
                let units = units["CapacityUnits"].as_f64().unwrap_or_default();
                index_units += units;
                let partitions = self.index_partitions(index, body);
                self.consume_units(&partitions, access, units);
            }
            let table_units = consumed["CapacityUnits"].as_f64().unwrap_or_default() - index_units;
            self.consume_units(&table_partitions(body), access, table_units);
        }
        self.record_index_entries(body);
    }

    /// The partitions that consumed most, relative to their limit.
    pub(crate) fn hottest(&self, count: usize) -> Vec<Consumption> {
        let mut all: Vec<Consumption> = self
            .buckets
            .iter()
            .map(|((partition, access), bucket)| Consumption {
                partition: partition.clone(),
                access: *access,
                units: bucket.consumed,
            })
            .collect();
        all.sort_by(|a, b| (b.units / b.access.limit()).total_cmp(&(a.units / a.access.limit())));
        all.truncate(count);
        all
    }

    /// Forgets what was consumed so far, and sets the part of the real limits that a partition has.
    pub(crate) fn reset(&mut self, scale: f64) {
        self.buckets.clear();
        self.scale = scale;
    }

    fn consume_units(&mut self, partitions: &[String], access: Access, units: f64) {
        let share = units / f64::from(u32::try_from(partitions.len().max(1)).unwrap_or(u32::MAX));
        for partition in partitions {
            let bucket = self.bucket(partition.clone(), access);
            bucket.tokens -= share;
            bucket.consumed += share;
        }
    }

    fn bucket(&mut self, partition: String, access: Access) -> &mut Bucket {
        let (now, limit) = (Instant::now(), access.limit() * self.scale);
        let new = || Bucket { tokens: limit, filled: now, consumed: 0.0 };
        let bucket = self.buckets.entry((partition, access)).or_insert_with(new);
        let elapsed: Duration = now.duration_since(bucket.filled);
        bucket.tokens = (bucket.tokens + elapsed.as_secs_f64() * limit).min(limit);
        bucket.filled = now;
        bucket
    }

    /// The partitions of an index that a request reads or changes: those that the items were in, and those that they
    /// are in now.
    fn index_partitions(&self, index: &str, body: &Value) -> Vec<String> {
        let Some((index, attribute)) = INDEXES.into_iter().find(|(name, _)| *name == index) else {
            return Vec::new();
        };
        let mut found: Vec<String> = queried_partition(body).into_iter().collect();
        for write in writes(body) {
            let before =
                key_of(write).and_then(|key| self.items.get(&key)).and_then(|entries| entries.get(attribute));
            let after =
                value_of(write, attribute).filter(|_| before.is_none() || !keeps_value(write, attribute));
            found.extend(before.into_iter().chain(&after).map(|value| format!("{index} {value}")));
        }
        found.sort();
        found.dedup();
        found
    }

    fn record_index_entries(&mut self, body: &Value) {
        for write in writes(body) {
            let Some(key) = key_of(write) else { continue };
            let item = self.items.entry(key).or_default();
            for (_, attribute) in INDEXES {
                match value_of(write, attribute) {
                    Some(_) if keeps_value(write, attribute) && item.contains_key(attribute) => {}
                    Some(value) => drop(item.insert(attribute, value)),
                    None => {}
                }
            }
        }
    }
}

/// The value itself, or the elements of a list.
fn one_or_many(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |values| values.iter().collect())
}

/// The writes of a request: its own, those of a transaction, or those of a batch.
pub(crate) fn writes(body: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    for item in body["TransactItems"].as_array().into_iter().flatten() {
        found.extend(item.as_object().into_iter().flatten().map(|(_, write)| write));
    }
    for puts in body["RequestItems"].as_object().into_iter().flat_map(|tables| tables.values()) {
        for put in puts.as_array().into_iter().flatten() {
            found.extend(put.as_object().into_iter().flatten().map(|(_, write)| write));
        }
    }
    if body["Item"].is_object() || body["Key"].is_object() {
        found.push(body);
    }
    found
}

pub(crate) fn key_of(write: &Value) -> Option<String> {
    let key = if write["Item"].is_object() { &write["Item"] } else { &write["Key"] };
    Some(format!("{} {}", key["pk"]["S"].as_str()?, key["sk"]["S"].as_str()?))
}

/// The value that a write gives to an attribute.
fn value_of(write: &Value, attribute: &str) -> Option<String> {
    let in_item = write["Item"][attribute]["S"].as_str();
    let in_values = write["ExpressionAttributeValues"][format!(":{attribute}")]["S"].as_str();
    in_item.or(in_values).map(str::to_owned)
}

/// Whether a write keeps the value that an attribute has.
fn keeps_value(write: &Value, attribute: &str) -> bool {
    let expression = write["UpdateExpression"].as_str().unwrap_or_default();
    expression.contains(&format!("if_not_exists({attribute}"))
}

/// The index partition of a query.
fn queried_partition(body: &Value) -> Option<String> {
    let index = body["IndexName"].as_str()?;
    let partition = body["ExpressionAttributeValues"][":partition"]["S"].as_str()?;
    Some(format!("{index} {partition}"))
}

/// The partitions of the table that a request reads or changes.
fn table_partitions(body: &Value) -> Vec<String> {
    let batch_keys = |batch: &Value| batch["Keys"].as_array().cloned().unwrap_or_default();
    let batches = body["RequestItems"].as_object().into_iter().flat_map(|tables| tables.values());
    let keys = batches.flat_map(batch_keys).filter_map(|key| Some(key["pk"]["S"].as_str()?.to_owned()));
    let written = writes(body).into_iter().filter_map(|write| {
        let key = if write["Item"].is_object() { &write["Item"] } else { &write["Key"] };
        Some(key["pk"]["S"].as_str()?.to_owned())
    });
    let range = body["ExpressionAttributeValues"][":pk"]["S"].as_str().map(str::to_owned);
    keys.chain(written).chain(range).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn partition_is_exhausted_for_the_rest_of_its_second() {
        let mut partitions = Partitions::default();
        let body = json!({ "Item": { "pk": { "S": "a" }, "sk": { "S": "x" } } });
        let used = |units: f64| json!({ "ConsumedCapacity": { "CapacityUnits": units } });
        assert_eq!(partitions.exhausted_partition("PutItem", &body), None);
        partitions.consume("PutItem", &body, &used(1_000.0));
        assert_eq!(partitions.exhausted_partition("PutItem", &body).as_deref(), Some("a"));
        assert_eq!(partitions.exhausted_partition("GetItem", &body), None, "reads have their own limit");
        let other = json!({ "Item": { "pk": { "S": "b" }, "sk": { "S": "x" } } });
        assert_eq!(partitions.exhausted_partition("PutItem", &other), None);
        tokio::time::advance(Duration::from_millis(10)).await;
        assert_eq!(partitions.exhausted_partition("PutItem", &body), None);
    }

    #[tokio::test(start_paused = true)]
    async fn full_index_partition_stops_writes() {
        let mut partitions = Partitions::default();
        let item = |name: &str| json!({ "Item": { "pk": { "S": name }, "sk": { "S": "x" }, "due_pk": { "S": "run#1" } } });
        let used = json!({ "ConsumedCapacity": {
            "CapacityUnits": 1_001.0, "GlobalSecondaryIndexes": { "due": { "CapacityUnits": 1_000.0 } }
        } });
        partitions.consume("PutItem", &item("a"), &used);
        assert_eq!(partitions.exhausted_partition("PutItem", &item("b")).as_deref(), Some("due run#1"));
        assert!(is_shared("due run#1") && is_shared("#fleet") && !is_shared("acme#log"));
    }

    #[tokio::test(start_paused = true)]
    async fn moved_index_entry_counts_in_both_partitions() {
        let mut partitions = Partitions::default();
        let key = json!({ "pk": { "S": "a" }, "sk": { "S": "run" } });
        let used = json!({ "ConsumedCapacity": {
            "CapacityUnits": 3.0, "GlobalSecondaryIndexes": { "due": { "CapacityUnits": 2.0 } }
        } });
        let to = |partition: &str| json!({ "Key": key, "ExpressionAttributeValues": { ":due_pk": { "S": partition } } });
        partitions.consume("UpdateItem", &to("run#1"), &used);
        partitions.reset(1.0);
        partitions.consume("UpdateItem", &to("evidence#1"), &used);
        let units: Vec<(String, f64)> =
            partitions.hottest(9).into_iter().map(|used| (used.partition, used.units)).collect();
        assert!(units.contains(&("due run#1".to_owned(), 1.0)), "{units:?}");
        assert!(units.contains(&("due evidence#1".to_owned(), 1.0)), "{units:?}");
    }
}
