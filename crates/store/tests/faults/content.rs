//! The content of a table, rendered for comparison.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use countersign_store::Ledger;

use super::fixture::FAR_AHEAD;

/// Every item of a table; empty if the table does not exist.
pub(crate) async fn items(client: &Client, table: &str) -> BTreeSet<String> {
    let Ok(found) = client.scan().table_name(table).send().await else { return BTreeSet::new() };
    let render = |item: &_| format!("{:?}", comparable(item));
    found.items().iter().map(render).collect()
}

/// Sequences differ between attempts, so only the id after them is compared.
fn comparable(item: &HashMap<String, AttributeValue>) -> BTreeMap<&str, String> {
    let id = |sort_key: &str| sort_key.split_once('.').map_or("", |(_, id)| id).to_owned();
    let render = |(name, value): (&'_ String, &'_ AttributeValue)| match value {
        AttributeValue::S(text) if name == "runs_sk" || name == "open_sk" => id(text),
        AttributeValue::M(parts) => {
            format!("{:?}", parts.iter().map(|(k, v)| (k, format!("{v:?}"))).collect::<BTreeMap<_, _>>())
        }
        value => format!("{value:?}"),
    };
    item.iter().map(|part| (part.0.as_str(), render(part))).collect()
}

/// Flushes the outbox if there is something to flush, and returns the `advance` messages that the sweep would send.
/// The scan replaces the queries of all partitions of the index, which would take most of the time of a cell.
pub(crate) async fn sweep<L: Ledger>(store: &L, client: &Client, table: &str) -> BTreeSet<String> {
    let Ok(found) = client.scan().table_name(table).send().await else { return BTreeSet::new() };
    let text = |item: &HashMap<String, AttributeValue>, name| item.get(name)?.as_s().ok().cloned();
    let unfinished = |item: &HashMap<_, _>| {
        let due = text(item, "due_pk")?.starts_with("run#") && !item.contains_key("evidence_pending");
        due.then(|| text(item, "pk")?.replacen("#run#", "/", 1).into()).flatten()
    };
    let unsent = |item: &HashMap<_, _>| {
        item.contains_key("due_pk") && unfinished(item).is_none() && !item.contains_key("evidence")
    };
    if found.items().iter().any(unsent) {
        store.flush(FAR_AHEAD, 100).await.unwrap();
    }
    let due = found.items().iter().filter_map(unfinished);
    due.map(|run: String| format!("steps {run} advance")).collect()
}
