//! What readers see: an index lags behind the table, and a transaction becomes visible item by item.
//!
//! Queries of an index read a second table, the replica. Each change reaches it with its own lag.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::Random;
use tokio::time::Instant;

use crate::partitions::{INDEXES, key_of, writes};

/// The most writes of one `BatchWriteItem`.
const BATCH_MAX: usize = 25;

/// The images of hidden items that are kept before old ones are removed.
const HIDDEN_MAX: usize = 4_096;

/// The earlier state of an item; none if it did not exist.
type HiddenImage = Option<Value>;

#[derive(Debug, Default)]
pub(crate) struct Visibility {
    /// The longest lag of an index.
    pub(crate) index_lag: Duration,
    /// Changes that have not reached the indexes, by the time at which they do.
    pending: BTreeMap<(Instant, u64), Change>,
    /// When the newest change of an item reaches the indexes.
    newest: HashMap<String, Instant>,
    /// Items of transactions whose result is not visible yet: until when, and what readers see until then.
    hidden: HashMap<String, (Instant, HiddenImage)>,
    changes: u64,
}

/// The state of an item after a write; no item after a deletion.
#[derive(Debug)]
struct Change {
    key: Value,
    item: Option<Value>,
}

impl Visibility {
    /// Records the state of written items.
    pub(crate) fn record_writes(
        &mut self,
        keys: &[Value],
        items: &HashMap<String, Value>,
        random: &mut Random,
    ) {
        for key in keys {
            let Some(name) = name_of(key) else { continue };
            let item = items.get(&name);
            let indexed =
                item.is_some_and(|item| INDEXES.iter().any(|(_, attribute)| item.get(attribute).is_some()));
            if !indexed && !self.newest.contains_key(&name) {
                continue;
            }
            let at = Instant::now() + random.up_to(self.index_lag);
            // The changes of one item arrive in order.
            let at = self.newest.get(&name).map_or(at, |newest| at.max(*newest));
            self.newest.insert(name, at);
            self.changes += 1;
            self.pending.insert((at, self.changes), Change { key: key.clone(), item: item.cloned() });
        }
    }

    /// Hides the items of a transaction from readers for at most `longest`, each for its own time.
    pub(crate) fn hide(
        &mut self,
        keys: &[Value],
        before: &HashMap<String, Value>,
        longest: Duration,
        random: &mut Random,
    ) {
        let now = Instant::now();
        if self.hidden.len() > HIDDEN_MAX {
            self.hidden.retain(|_, (until, _)| *until > now);
        }
        for name in keys.iter().filter_map(name_of) {
            let image = before.get(&name).cloned();
            self.hidden.insert(name, (now + random.up_to(longest), image));
        }
    }

    /// Whether a transaction on one of these items is still in progress.
    pub(crate) fn in_transaction(&self, keys: &[Value]) -> bool {
        let now = Instant::now();
        keys.iter()
            .filter_map(name_of)
            .any(|name| self.hidden.get(&name).is_some_and(|(until, _)| *until > now))
    }

    /// Replaces the items of unfinished transactions in a response by their earlier state.
    pub(crate) fn mask_response(&self, response: &mut Value) {
        match response.get("Item").and_then(|item| self.hidden_image(item)) {
            Some(Some(item)) => response["Item"] = item.clone(),
            Some(None) => drop(response.as_object_mut().and_then(|object| object.remove("Item"))),
            None => {}
        }
        if let Some(items) = response.get_mut("Items") {
            self.mask_items(items);
            let count = items.as_array().map_or(0, Vec::len);
            response["Count"] = json!(count);
        }
        let batches = response.get_mut("Responses").and_then(Value::as_object_mut);
        for items in batches.into_iter().flat_map(|tables| tables.values_mut()) {
            self.mask_items(items);
        }
    }

    fn mask_items(&self, items: &mut Value) {
        let Some(items) = items.as_array_mut() else { return };
        *items = std::mem::take(items)
            .into_iter()
            .filter_map(|item| match self.hidden_image(&item) {
                Some(image) => image.clone(),
                None => Some(item),
            })
            .collect();
    }

    /// What readers see instead of an item of an unfinished transaction.
    fn hidden_image(&self, item: &Value) -> Option<&HiddenImage> {
        let (until, image) = self.hidden.get(&name_of(item)?)?;
        (*until > Instant::now()).then_some(image)
    }

    /// The requests that bring the replica up to date.
    pub(crate) fn replication_requests(&mut self, table: &str) -> Vec<Value> {
        let later = self.pending.split_off(&(Instant::now(), u64::MAX));
        let due = std::mem::replace(&mut self.pending, later);
        // A batch must not contain an item twice.
        let newest: BTreeMap<String, Change> =
            due.into_values().filter_map(|change| Some((name_of(&change.key)?, change))).collect();
        let puts: Vec<Value> = newest
            .into_values()
            .map(|change| match change.item {
                Some(item) => json!({ "PutRequest": { "Item": item } }),
                None => json!({ "DeleteRequest": { "Key": change.key } }),
            })
            .collect();
        puts.chunks(BATCH_MAX).map(|batch| json!({ "RequestItems": { table: batch } })).collect()
    }
}

/// The keys that a request writes.
pub(crate) fn written_keys(body: &Value) -> Vec<Value> {
    let mut keys: Vec<Value> = writes(body)
        .into_iter()
        .filter(|write| key_of(write).is_some())
        .map(|write| {
            let key = if write["Item"].is_object() { &write["Item"] } else { &write["Key"] };
            json!({ "pk": key["pk"], "sk": key["sk"] })
        })
        .collect();
    keys.sort_by_key(ToString::to_string);
    keys.dedup();
    keys
}

/// The name of an item, from its key or from the item itself.
pub(crate) fn name_of(item: &Value) -> Option<String> {
    Some(format!("{} {}", item["pk"]["S"].as_str()?, item["sk"]["S"].as_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(value: &str) -> Value {
        json!({ "pk": { "S": "a" }, "sk": { "S": "run" }, "due_pk": { "S": "run#1" }, "value": { "S": value } })
    }

    fn key() -> Value {
        json!({ "pk": { "S": "a" }, "sk": { "S": "run" } })
    }

    fn images(value: &str) -> HashMap<String, Value> {
        HashMap::from([("a run".to_owned(), item(value))])
    }

    #[tokio::test(start_paused = true)]
    async fn index_shows_change_after_its_lag() {
        let mut visibility = Visibility { index_lag: Duration::from_secs(2), ..Visibility::default() };
        let mut random = Random::new(3);
        visibility.record_writes(&[key()], &images("old"), &mut random);
        visibility.record_writes(&[key()], &images("new"), &mut random);
        assert!(visibility.replication_requests("t").is_empty());
        tokio::time::advance(Duration::from_secs(3)).await;
        let requests = visibility.replication_requests("t");
        assert_eq!(
            requests,
            [json!({ "RequestItems": { "t": [{ "PutRequest": { "Item": item("new") } }] } })]
        );
        assert!(visibility.replication_requests("t").is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn transaction_is_hidden_until_its_item_is_visible() {
        let mut visibility = Visibility::default();
        visibility.hide(&[key()], &images("old"), Duration::from_millis(50), &mut Random::new(5));
        let mut response = json!({ "Item": item("new") });
        visibility.mask_response(&mut response);
        assert_eq!(response, json!({ "Item": item("old") }));
        assert!(visibility.in_transaction(&[key()]));
        tokio::time::advance(Duration::from_millis(51)).await;
        let mut response = json!({ "Item": item("new") });
        visibility.mask_response(&mut response);
        assert_eq!(response, json!({ "Item": item("new") }));
        assert!(!visibility.in_transaction(&[key()]));
    }

    #[tokio::test(start_paused = true)]
    async fn new_item_of_transaction_is_absent_at_first() {
        let mut visibility = Visibility::default();
        visibility.hide(&[key()], &HashMap::new(), Duration::from_millis(50), &mut Random::new(5));
        let mut one = json!({ "Item": item("new") });
        visibility.mask_response(&mut one);
        assert_eq!(one, json!({}));
        let mut many = json!({ "Items": [item("new")], "Count": 1 });
        visibility.mask_response(&mut many);
        assert_eq!(many, json!({ "Items": [], "Count": 0 }));
    }
}
