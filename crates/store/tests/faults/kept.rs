//! What a table holds, in words that can be compared.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use countersign_store::{Clock, Ledger};
use domain::Timestamp;

use super::story::{FAR_AHEAD, NOON};

/// A clock that stands still, so that what is written twice is the same twice.
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        NOON
    }
}

/// Every item of a table; none, if there is no such table.
pub(crate) async fn items(client: &Client, table: &str) -> BTreeSet<String> {
    let Ok(found) = client.scan().table_name(table).send().await else { return BTreeSet::new() };
    let words = |item: &_| format!("{:?}", plain(item));
    found.items().iter().map(words).collect()
}

/// Places in a list tell who came first, and whoever asks again comes later.
fn plain(item: &std::collections::HashMap<String, AttributeValue>) -> BTreeMap<&str, String> {
    let place = |place: &str| place.split_once('.').map_or("", |(_, of)| of).to_owned();
    let words = |(name, value): (&'_ String, &'_ AttributeValue)| match value {
        AttributeValue::S(text) if name == "begun" || name == "asked" => place(text),
        AttributeValue::M(parts) => {
            format!("{:?}", parts.iter().map(|(k, v)| (k, format!("{v:?}"))).collect::<BTreeMap<_, _>>())
        }
        value => format!("{value:?}"),
    };
    item.iter().map(|part| (part.0.as_str(), words(part))).collect()
}

/// Sends what whoever committed has left behind; the walks that the sweep would ask for.
pub(crate) async fn sweep<L: Ledger>(store: &L) -> BTreeSet<String> {
    store.flush(FAR_AHEAD, 100).await.unwrap();
    let due = store.due(FAR_AHEAD, 100).await.unwrap();
    due.iter().map(|run| format!("steps {run} advance")).collect()
}
