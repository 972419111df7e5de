//! Items of the table: attributes, encoding and size limits.

use std::collections::HashMap;
use std::fmt::Display;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::dispatch::RECORD_FORMAT;
use domain::{BlobRef, Digest, TenantId};
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blobs::{BlobKind, Blobs};
use crate::error::{NewerFormat, StoreError};

use super::key::{Key, PK};

/// The attributes of an item, or some of them.
pub(super) type Item = HashMap<String, AttributeValue>;

/// The size limit of a DynamoDB item.
const ITEM_BYTES_MAX: usize = 400 * 1024;

/// A larger body goes to the blob store, and the item holds a reference. The limit is below the item limit because
/// an item holds more than its body, such as an event.
pub(super) const BODY_BYTES_MAX: usize = 256 * 1024;

/// The size that one write capacity unit covers. A write is billed in whole units.
const WRITE_UNIT_BYTES: usize = 1024;

/// The maximum size of the attributes that an update expression does not set: the index keys.
pub(super) const OTHER_ATTRIBUTES_BYTES: usize = 128;

/// Higher levels gain little on a page of JSON.
const DEFLATE_LEVEL: u8 = 6;

/// The body of an item: JSON, deflated JSON if the item exceeds a write unit, or a reference to a blob if it is
/// large.
pub(super) const BODY: &str = "body";
/// The revision, which the next conditional write of the item must name.
pub(super) const REVISION: &str = "rev";
/// The number of an event.
pub(super) const NUMBER: &str = "n";
/// The canonical bytes of an event.
pub(super) const EVENT: &str = "event";
/// The hash of an event.
pub(super) const DIGEST: &str = "digest";
/// Whether a signal waits for a step that has not started to wait yet.
pub(super) const BUFFERED: &str = "buffered";
/// The job of an outbox message.
pub(super) const JOB: &str = "job";
/// The queue of an outbox message.
pub(super) const QUEUE: &str = "queue";
/// The trace context of an outbox message.
pub(super) const TRACE: &str = "trace";

/// The run that a proof, a dedupe key or a concurrency key points at.
pub(super) const RUN: &str = "run";

/// When a waiter was woken because its concurrency key is free.
pub(super) const WOKEN_AT: &str = "woken_at";

/// When an inbox entry with this dedupe key was received.
pub(super) const RECEIVED_AT: &str = "received_at";

/// The format of the body of an item that is replaced in place. A program that does not support it neither reads nor
/// writes the item. The name is short, because it is in every run.
pub(super) const FORMAT: &str = "fmt";

/// The location of the evidence of a run.
pub(super) const EVIDENCE: &str = "evidence";
/// Set while a finished run has no evidence yet.
pub(super) const EVIDENCE_PENDING: &str = "evidence_pending";

/// The attributes of a blob reference.
const SHA256: &str = "sha256";
const BYTES: &str = "bytes";

/// Why an item cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum ItemError {
    #[error("the attribute `{0}` of an item is missing or malformed")]
    Missing(&'static str),
    #[error("the item has {0} bytes, more than the limit of {ITEM_BYTES_MAX}")]
    TooLarge(usize),
    #[error("the commit has {0} items, more than the limit of {1} of one transaction")]
    TooMany(usize, usize),
    #[error("the blob {0} of an item does not exist")]
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

/// Encodes `value` as the body of an item of `tenant`: inline, or as a reference to a blob.
pub(super) async fn encode_body<B: Blobs>(
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
    let reference = [(SHA256, text(blob.sha256.to_string())), (BYTES, number(blob.bytes))];
    Ok(AttributeValue::M(reference.map(|(name, value)| (name.to_owned(), value)).into()))
}

/// Decodes the body of an item.
pub(super) async fn decode_body<T: DeserializeOwned, B: Blobs>(
    blobs: &B,
    item: &Item,
    doing: &'static str,
) -> Result<T, StoreError> {
    match read_number(item, FORMAT) {
        Some(format) if format > RECORD_FORMAT => Err(StoreError::broken(doing, NewerFormat { format })),
        _ => decode_attribute(blobs, item, BODY, doing).await,
    }
}

/// Decodes the attribute `name` of an item.
pub(super) async fn decode_attribute<T: DeserializeOwned, B: Blobs>(
    blobs: &B,
    item: &Item,
    name: &'static str,
    doing: &'static str,
) -> Result<T, StoreError> {
    match item.get(name) {
        Some(AttributeValue::S(json)) => parse(json.as_bytes(), doing),
        Some(AttributeValue::B(deflated)) => parse(&inflate(deflated.as_ref(), doing)?, doing),
        Some(AttributeValue::M(reference)) => {
            let tenant = Key::of(item).and_then(|key| key.tenant_id());
            let tenant = tenant.ok_or_else(|| StoreError::broken(doing, ItemError::Missing(PK)))?;
            parse(&read_blob(blobs, &tenant, reference, doing).await?, doing)
        }
        _ => Err(StoreError::broken(doing, ItemError::Missing(name))),
    }
}

async fn read_blob<B: Blobs>(
    blobs: &B,
    tenant: &TenantId,
    reference: &Item,
    doing: &'static str,
) -> Result<Vec<u8>, StoreError> {
    let unreadable = || StoreError::broken(doing, ItemError::Missing(BODY));
    let sha256 = reference.get(SHA256).and_then(|sha256| sha256.as_s().ok()?.parse().ok());
    let blob = BlobRef {
        sha256: sha256.ok_or_else(unreadable)?,
        bytes: read_number(reference, BYTES).ok_or_else(unreadable)?,
    };
    let found = blobs.blob(BlobKind::Bodies, tenant, &blob).await?;
    found.ok_or_else(|| StoreError::broken(doing, ItemError::NoBlob(blob.sha256)))
}

fn parse<T: DeserializeOwned>(json: &[u8], doing: &'static str) -> Result<T, StoreError> {
    serde_json::from_slice(json).map_err(|error| StoreError::broken(doing, error))
}

/// The number attribute `name`.
pub(super) fn read_number<N: std::str::FromStr>(item: &Item, name: &str) -> Option<N> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// The string attribute `name`.
pub(super) fn read_text<'i>(item: &'i Item, name: &str) -> Option<&'i str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

/// Deflates the attribute `name` if the item plus `other_bytes` exceeds a write unit. A smaller body stays readable
/// JSON.
pub(super) fn compress(mut item: Item, name: &str, other_bytes: usize) -> Item {
    if size(&item) + other_bytes <= WRITE_UNIT_BYTES {
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
    // Larger bodies are stored as blobs, so this store did not write one that inflates beyond the limit.
    decompress_to_vec_with_limit(deflated, BODY_BYTES_MAX)
        .map_err(|_| StoreError::broken(doing, ItemError::Missing(BODY)))
}

/// Returns an error for an item beyond the DynamoDB size limit.
pub(super) fn check_size(item: &Item, doing: &'static str) -> Result<(), StoreError> {
    match size(item) {
        fits if fits <= ITEM_BYTES_MAX => Ok(()),
        bytes => Err(StoreError::broken(doing, ItemError::TooLarge(bytes))),
    }
}

/// The size of an item as DynamoDB counts it: names and values in bytes. Numbers take about half of this; the
/// difference does not matter here.
fn size(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value_size(value)).sum()
}

fn value_size(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) | AttributeValue::N(text) => text.len(),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::M(parts) => 3 + size(parts),
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
    fn only_bodies_beyond_a_write_unit_are_deflated() {
        let short = item(r#"{"a":1}"#);
        assert_eq!(compress(short.clone(), BODY, 0), short);
        let long = "repeated text ".repeat(200);
        let Some(AttributeValue::B(deflated)) = compress(item(&long), BODY, 0).remove(BODY) else {
            panic!("not deflated")
        };
        assert!(deflated.as_ref().len() < WRITE_UNIT_BYTES);
        assert_eq!(inflate(deflated.as_ref(), "read").unwrap(), long.as_bytes());
    }

    #[test]
    fn oversized_deflated_body_is_rejected() {
        let bomb = compress_to_vec(&vec![b'x'; BODY_BYTES_MAX + 1], DEFLATE_LEVEL);
        assert!(inflate(&bomb, "read").is_err());
    }
}
