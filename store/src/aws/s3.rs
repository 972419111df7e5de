//! Blobs on S3: one bucket for payloads, one for evidence.
//!
//! A blob's key is its tenant and its content's digest, so IAM can fence a role to one tenant, and writing what
//! is there already is found out by the store and not paid for twice. S3 checks the digest when it takes the
//! bytes; we check it when we get them back. Evidence can be locked against deletion for as long as it must be
//! kept.

use std::sync::Arc;

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::{ByteStream, DateTime};
use aws_sdk_s3::types::ObjectLockMode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::{BlobRef, Millis, TenantId};

use crate::blobs::{self, Blobs, Shelf};
use crate::clock::Clock;
use crate::error::StoreError;

use super::error::{Class, Fault};

/// A payload is canonical JSON, and so is the envelope that evidence comes in.
const CONTENT_TYPE: &str = "application/json";

const KEEPING: &str = "keep a blob";
const READING: &str = "read a blob";

/// Whether anybody can shorten the time for which evidence is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionMode {
    /// Those whom the account allows to.
    Governance,
    /// Nobody, the account's owner included.
    Compliance,
}

/// For how long evidence is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Against whom.
    pub mode: RetentionMode,
    /// For how many days from when it is put together.
    pub days: u32,
}

/// Which buckets hold the blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buckets {
    /// What is too large for a record.
    pub payloads: String,
    /// What proves what a run did.
    pub evidence: String,
    /// For how long evidence is locked; its bucket must have Object Lock enabled.
    pub retain: Option<Retention>,
}

impl Buckets {
    fn of(&self, on: Shelf) -> &str {
        match on {
            Shelf::Payloads => &self.payloads,
            Shelf::Evidence => &self.evidence,
        }
    }
}

/// Blobs on S3.
#[derive(Clone)]
pub struct S3Blobs {
    client: Client,
    buckets: Arc<Buckets>,
    clock: Arc<dyn Clock>,
}

impl S3Blobs {
    /// The blobs in these buckets.
    pub fn new(client: Client, buckets: Buckets, clock: Arc<dyn Clock>) -> Self {
        Self { client, buckets: Arc::new(buckets), clock }
    }

    /// Against whom, and until when, something that is kept on this shelf is locked.
    fn lock(&self, on: Shelf) -> Option<(ObjectLockMode, DateTime)> {
        let Retention { mode, days } = self.buckets.retain.filter(|_| on == Shelf::Evidence)?;
        let mode = match mode {
            RetentionMode::Governance => ObjectLockMode::Governance,
            RetentionMode::Compliance => ObjectLockMode::Compliance,
        };
        let until = self.clock.now() + Millis::hours(24 * u64::from(days));
        Some((mode, DateTime::from_millis(until.0)))
    }
}

impl Blobs for S3Blobs {
    async fn put_blob(&self, on: Shelf, tenant: &TenantId, bytes: Vec<u8>) -> Result<BlobRef, StoreError> {
        let blob = blobs::pointer(&bytes);
        let (mode, until) = self.lock(on).unzip();
        let put = self
            .client
            .put_object()
            .bucket(self.buckets.of(on))
            .key(key(tenant, &blob))
            .if_none_match("*")
            .checksum_sha256(STANDARD.encode(blob.sha256.as_bytes()))
            .content_type(CONTENT_TYPE)
            .set_object_lock_mode(mode)
            .set_object_lock_retain_until_date(until)
            .body(ByteStream::from(bytes));
        match put.send().await.map_err(Fault::of) {
            Ok(_) => Ok(blob),
            // It is there: the digest is in the key.
            Err(fault) if fault.class == Class::Superseded => Ok(blob),
            Err(fault) => Err(fault.write(KEEPING)),
        }
    }

    async fn blob(
        &self,
        on: Shelf,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let get = self.client.get_object().bucket(self.buckets.of(on)).key(key(tenant, blob));
        let found = match get.send().await.map_err(Fault::of) {
            Ok(found) => found,
            Err(fault) if fault.is("NoSuchKey") => return Ok(None),
            Err(fault) => return Err(fault.read(READING)),
        };
        // The line broke while the bytes came.
        let bytes = found.body.collect().await.map_err(|_| StoreError::Busy { doing: READING })?;
        blobs::unaltered(bytes.to_vec(), blob, READING).map(Some)
    }
}

fn key(tenant: &TenantId, blob: &BlobRef) -> String {
    format!("{tenant}/{}", blob.sha256)
}
