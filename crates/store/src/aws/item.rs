//! Items: what stands in the table, and what it may weigh.

use std::collections::HashMap;
use std::fmt::Display;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::{BlobRef, Digest, TenantId};
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blobs::{BlobKind, Blobs};
use crate::error::StoreError;

use super::key::{Key, PK};

/// An item, or a part of one.
pub(super) type Item = HashMap<String, AttributeValue>;

/// What DynamoDB holds in one item.
const ITEM_BYTES_MAX: usize = 400 * 1024;

/// A body above this goes to the blob store and the item keeps a pointer: an item holds more than its body,
/// its event above all.
pub(super) const BODY_BYTES_MAX: usize = 256 * 1024;

/// What a unit of write capacity covers. Every further one that is begun is paid for in full.
const UNIT_BYTES: usize = 1024;

/// What an update does not name stands in the item all the same: the keys of the indexes, at most.
pub(super) const UNNAMED_BYTES: usize = 128;

/// How hard a body is squeezed. Beyond this there is little to win in a page of JSON.
const DEFLATE_LEVEL: u8 = 6;

/// What an item is about, as JSON; deflated, if the item is more than a write unit; a pointer, if it is large.
pub(super) const BODY: &str = "body";
/// What the next write of the item must name.
pub(super) const REVISION: &str = "rev";
/// An event's number.
pub(super) const NUMBER: &str = "n";
/// An event's canonical bytes.
pub(super) const ENTRY: &str = "entry";
/// An event's hash.
pub(super) const DIGEST: &str = "digest";
/// Whether a delivery is kept for a wait that is not open yet.
pub(super) const KEPT: &str = "kept";
/// What a message asks for.
pub(super) const JOB: &str = "job";
/// Which way a message goes.
pub(super) const QUEUE: &str = "queue";
/// The work that led to a message of the outbox.
pub(super) const TRACE: &str = "trace";

/// The run that something stands for: a proof, a ticket.
pub(super) const RUN: &str = "run";

/// Who is next to take a ticket.
pub(super) const IN_LINE: &str = "in_line";

/// When something came.
pub(super) const CAME_AT: &str = "came_at";

/// Where a run's evidence is.
pub(super) const EVIDENCE: &str = "evidence";
/// Set while a run that is over has no evidence yet.
pub(super) const UNSEALED: &str = "unsealed";

/// The names of a pointer's two parts.
const SHA256: &str = "sha256";
const BYTES: &str = "bytes";

/// An item that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("an item has no readable `{0}`")]
    Missing(&'static str),
    #[error("an item of {0} bytes is more than the {ITEM_BYTES_MAX} that the table holds")]
    TooLarge(usize),
    #[error("a commit of {0} items is more than the {1} of one transaction")]
    TooMany(usize, usize),
    #[error("the blob {0} of an item is not there")]
    NoBlob(Digest),
}

pub(super) fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(super) fn number(number: impl Display + Copy) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(super) fn bytes(bytes: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

/// `value` as a body of one of `tenant`'s items, in place or by pointer.
pub(super) async fn body<B: Blobs>(
    blobs: &B,
    tenant: &TenantId,
    value: &(impl Serialize + Sync),
    doing: &'static str,
) -> Result<AttributeValue, StoreError> {
    let json = serde_json::to_string(value).map_err(|error| StoreError::broken(doing, error))?;
    if json.len() <= BODY_BYTES_MAX {
        return Ok(text(json));
    }
    let blob = blobs.put_blob(BlobKind::Bodies, tenant, json.into_bytes()).await?;
    let pointer = [(SHA256, text(blob.sha256.to_string())), (BYTES, number(blob.bytes))];
    Ok(AttributeValue::M(pointer.map(|(name, value)| (name.to_owned(), value)).into()))
}

/// The body of an item.
pub(super) async fn read<T: DeserializeOwned, B: Blobs>(
    blobs: &B,
    item: &Item,
    doing: &'static str,
) -> Result<T, StoreError> {
    read_from(blobs, item, BODY, doing).await
}

/// What stands in an item under `name`.
pub(super) async fn read_from<T: DeserializeOwned, B: Blobs>(
    blobs: &B,
    item: &Item,
    name: &'static str,
    doing: &'static str,
) -> Result<T, StoreError> {
    match item.get(name) {
        Some(AttributeValue::S(json)) => parse(json.as_bytes(), doing),
        Some(AttributeValue::B(deflated)) => parse(&inflate(deflated.as_ref(), doing)?, doing),
        Some(AttributeValue::M(pointer)) => {
            let tenant = Key::of(item).and_then(|key| key.tenant_id());
            let tenant = tenant.ok_or_else(|| StoreError::broken(doing, Unfit::Missing(PK)))?;
            parse(&fetch(blobs, &tenant, pointer, doing).await?, doing)
        }
        _ => Err(StoreError::broken(doing, Unfit::Missing(name))),
    }
}

async fn fetch<B: Blobs>(
    blobs: &B,
    tenant: &TenantId,
    pointer: &Item,
    doing: &'static str,
) -> Result<Vec<u8>, StoreError> {
    let unreadable = || StoreError::broken(doing, Unfit::Missing(BODY));
    let sha256 = pointer.get(SHA256).and_then(|sha256| sha256.as_s().ok()?.parse().ok());
    let blob = BlobRef {
        sha256: sha256.ok_or_else(unreadable)?,
        bytes: read_number(pointer, BYTES).ok_or_else(unreadable)?,
    };
    let found = blobs.blob(BlobKind::Bodies, tenant, &blob).await?;
    found.ok_or_else(|| StoreError::broken(doing, Unfit::NoBlob(blob.sha256)))
}

fn parse<T: DeserializeOwned>(json: &[u8], doing: &'static str) -> Result<T, StoreError> {
    serde_json::from_slice(json).map_err(|error| StoreError::broken(doing, error))
}

/// The number under `name`.
pub(super) fn read_number<N: std::str::FromStr>(item: &Item, name: &str) -> Option<N> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// The text under `name`.
pub(super) fn read_text<'i>(item: &'i Item, name: &str) -> Option<&'i str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

/// The item with its body, which stands under `name`, deflated if all of it, with so many bytes `beside`, is more
/// than a unit pays for. What fits a unit stays as it is, for people who look at the table.
pub(super) fn squeezed(mut item: Item, name: &str, beside: usize) -> Item {
    if weight(&item) + beside <= UNIT_BYTES {
        return item;
    }
    let Some(AttributeValue::S(json)) = item.get(name) else { return item };
    let deflated = compress_to_vec(json.as_bytes(), DEFLATE_LEVEL);
    if deflated.len() < json.len() {
        item.insert(name.to_owned(), bytes(deflated));
    }
    item
}

fn inflate(deflated: &[u8], doing: &'static str) -> Result<Vec<u8>, StoreError> {
    // Larger bodies go by pointer, so one that grows beyond this is not ours.
    decompress_to_vec_with_limit(deflated, BODY_BYTES_MAX)
        .map_err(|_| StoreError::broken(doing, Unfit::Missing(BODY)))
}

/// Refuses an item that the table would not hold, with its weight.
pub(super) fn weigh(item: &Item, doing: &'static str) -> Result<(), StoreError> {
    match weight(item) {
        fits if fits <= ITEM_BYTES_MAX => Ok(()),
        bytes => Err(StoreError::broken(doing, Unfit::TooLarge(bytes))),
    }
}

/// As DynamoDB counts: names and values, in bytes; a number of n digits takes about half as many, which is
/// not worth being exact about.
fn weight(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value_weight(value)).sum()
}

fn value_weight(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) | AttributeValue::N(text) => text.len(),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::M(parts) => 3 + weight(parts),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(json: &str) -> Item {
        Item::from([("pk".to_owned(), text("acme#run#1")), (BODY.to_owned(), text(json))])
    }

    #[test]
    fn a_body_is_deflated_only_where_the_item_is_more_than_a_unit_and_reads_as_before() {
        let short = item(r#"{"a":1}"#);
        assert_eq!(squeezed(short.clone(), BODY, 0), short);
        let long = "say it again ".repeat(200);
        let Some(AttributeValue::B(deflated)) = squeezed(item(&long), BODY, 0).remove(BODY) else {
            panic!("left as it was")
        };
        assert!(deflated.as_ref().len() < UNIT_BYTES);
        assert_eq!(inflate(deflated.as_ref(), "read").unwrap(), long.as_bytes());
    }

    #[test]
    fn a_body_that_inflates_to_more_than_any_of_ours_is_refused() {
        let bomb = compress_to_vec(&vec![b'x'; BODY_BYTES_MAX + 1], DEFLATE_LEVEL);
        assert!(inflate(&bomb, "read").is_err());
    }
}
