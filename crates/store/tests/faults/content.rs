//! The content of a table, rendered for comparison.

use std::collections::{BTreeMap, BTreeSet};

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
fn comparable(item: &std::collections::HashMap<String, AttributeValue>) -> BTreeMap<&str, String> {
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

/// Flushes the outbox, and returns the `advance` messages that the sweep would send.
pub(crate) async fn sweep<L: Ledger>(store: &L) -> BTreeSet<String> {
    store.flush(FAR_AHEAD, 100).await.unwrap();
    let due = store.due(FAR_AHEAD, 100).await.unwrap();
    due.iter().map(|run| format!("steps {run} advance")).collect()
}
