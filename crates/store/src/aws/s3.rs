//! Blobs on S3: one bucket for payloads and bodies, one for evidence.
//!
//! A blob's key is its tenant and its content's digest, so IAM can fence a role to one tenant, and writing what
//! is there already is found out by the store and not paid for twice. S3 checks the digest when it takes the
//! bytes; we check it when we get them back. Payloads expire so many days after they were put, and what is put again
//! begins its days anew; bodies do not, and stand under a name that the bucket's lifecycle leaves alone. Evidence can
//! be locked against deletion for as long as it must be kept.

use std::sync::Arc;

use aws_sdk_s3::Client;
use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::primitives::{ByteStream, DateTime};
use aws_sdk_s3::types::ObjectLockMode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::{BlobRef, Millis, TenantId, Timestamp};

use crate::blobs::{self, BlobKind, Blobs};
use crate::clock::Clock;
use crate::error::StoreError;

use super::error::{Class, Fault};

/// A payload is canonical JSON, and so is the envelope that evidence comes in.
const CONTENT_TYPE: &str = "application/json";

/// A payload that is put again when it is older than this is written anew. So it is kept for all its days but one from
/// when anybody put it last, and a bucket that keeps versions gets one a day of it at most.
const RENEWED_AFTER: Millis = Millis::hours(24);

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
    /// What is too large for a record, and records that are too large for their place.
    pub payloads: String,
    /// What proves what a run did.
    pub evidence: String,
    /// For how long evidence is locked; its bucket must have Object Lock enabled.
    pub retain: Option<Retention>,
}

impl Buckets {
    fn of(&self, on: BlobKind) -> &str {
        match on {
            BlobKind::Payloads | BlobKind::Bodies => &self.payloads,
            BlobKind::Evidence => &self.evidence,
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

    /// Against whom, and until when, something that is kept on this kind is locked.
    fn lock(&self, on: BlobKind) -> Option<(ObjectLockMode, DateTime)> {
        let Retention { mode, days } = self.buckets.retain.filter(|_| on == BlobKind::Evidence)?;
        let mode = match mode {
            RetentionMode::Governance => ObjectLockMode::Governance,
            RetentionMode::Compliance => ObjectLockMode::Compliance,
        };
        let until = self.clock.now() + Millis::hours(24 * u64::from(days));
        Some((mode, DateTime::from_millis(until.0)))
    }

    /// Puts `bytes` where `blob` points, whatever is there.
    fn put(&self, on: BlobKind, tenant: &TenantId, blob: &BlobRef, bytes: Vec<u8>) -> PutObjectFluentBuilder {
        let (mode, until) = self.lock(on).unzip();
        self.client
            .put_object()
            .bucket(self.buckets.of(on))
            .key(key(on, tenant, blob))
            .checksum_sha256(STANDARD.encode(blob.sha256.as_bytes()))
            .content_type(CONTENT_TYPE)
            .set_object_lock_mode(mode)
            .set_object_lock_retain_until_date(until)
            .body(ByteStream::from(bytes))
    }

    /// Puts a payload that is there once more, unless it is young: whoever points at it today needs it for as long as
    /// whoever put it first did.
    async fn renew(&self, tenant: &TenantId, blob: BlobRef, bytes: Vec<u8>) -> Result<BlobRef, StoreError> {
        if self.is_young(tenant, &blob).await {
            return Ok(blob);
        }
        let put = self.put(BlobKind::Payloads, tenant, &blob, bytes).send().await;
        put.map(|_| blob).map_err(|error| Fault::of(error).write(KEEPING))
    }

    /// Whether a payload is known to have been put eventual. Whoever could not look, or may not, does not know it; then
    /// it is written once too often, and not lost.
    async fn is_young(&self, tenant: &TenantId, blob: &BlobRef) -> bool {
        let on = BlobKind::Payloads;
        let look = self.client.head_object().bucket(self.buckets.of(on)).key(key(on, tenant, blob));
        let put_at = look.send().await.ok().and_then(|found| found.last_modified?.to_millis().ok());
        put_at.is_some_and(|at| self.clock.now() < Timestamp(at) + RENEWED_AFTER)
    }
}

impl Blobs for S3Blobs {
    async fn put_blob(&self, on: BlobKind, tenant: &TenantId, bytes: Vec<u8>) -> Result<BlobRef, StoreError> {
        let blob = blobs::pointer(&bytes);
        let put = self.put(on, tenant, &blob, bytes.clone()).if_none_match("*");
        match put.send().await.map_err(Fault::of) {
            Ok(_) => Ok(blob),
            // It is there, for the digest is in the key; a payload may be about to expire.
            Err(fault) if fault.class == Class::Superseded => match on {
                BlobKind::Payloads => Box::pin(self.renew(tenant, blob, bytes)).await,
                BlobKind::Bodies | BlobKind::Evidence => Ok(blob),
            },
            Err(fault) => Err(fault.write(KEEPING)),
        }
    }

    async fn blob(
        &self,
        on: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let get = self.client.get_object().bucket(self.buckets.of(on)).key(key(on, tenant, blob));
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

/// What shares a bucket and not a lifetime is told apart by how its key begins.
fn key(on: BlobKind, tenant: &TenantId, blob: &BlobRef) -> String {
    match on {
        BlobKind::Payloads | BlobKind::Bodies => format!("{}/{tenant}/{}", on.as_str(), blob.sha256),
        BlobKind::Evidence => format!("{tenant}/{}", blob.sha256),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_expires_begins_with_its_own_name_and_nothing_else_does() {
        let (tenant, blob) = ("acme".parse().unwrap(), blobs::pointer(b"large"));
        let expires = |on: &BlobKind| key(*on, &tenant, &blob).starts_with("payloads/");
        assert_eq!(BlobKind::ALL.into_iter().filter(expires).collect::<Vec<_>>(), [BlobKind::Payloads]);
        assert_eq!(key(BlobKind::Bodies, &tenant, &blob), format!("bodies/acme/{}", blob.sha256));
    }
}
