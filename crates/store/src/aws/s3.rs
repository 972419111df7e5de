//! Blobs on S3: one bucket for payloads and bodies, one for evidence.
//!
//! The object key is the tenant and the SHA-256 of the content. An IAM policy can therefore limit a role to one
//! tenant, and a conditional put (`If-None-Match: *`) detects content that is already stored. S3 verifies the
//! digest on upload; the store verifies it on download. Payloads expire a number of days after their last put, by a
//! lifecycle rule on the prefix `payloads/`; bodies have another prefix and do not expire.
//!
//! The object key of an evidence bundle is the tenant and the name of the bundle, which contains the run. The same
//! conditional put makes sure that a run gets one bundle, even if every item of the run in the table is replaced.
//! Bundles can be protected by S3 Object Lock.

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

use super::error::{AwsError, Class};

/// Payloads are canonical JSON, and so is the envelope of evidence.
const CONTENT_TYPE: &str = "application/json";

/// An existing payload older than this is written again, which restarts its expiry. It therefore lives for its
/// retention minus at most one day after its last put, and a versioned bucket gets at most one version a day.
const RENEWED_AFTER: Millis = Millis::hours(24);

const STORING: &str = "store a blob";
const READING: &str = "read a blob";

/// The S3 Object Lock mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionMode {
    /// Users with `s3:BypassGovernanceRetention` can shorten the retention.
    Governance,
    /// No user can shorten the retention, not even the account root.
    Compliance,
}

/// The Object Lock retention of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub mode: RetentionMode,
    /// Days from the upload of the evidence.
    pub days: u32,
}

/// The buckets of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buckets {
    /// The bucket of payloads and bodies.
    pub payloads: String,
    /// The bucket of evidence.
    pub evidence: String,
    /// The retention of evidence. Its bucket must have Object Lock enabled.
    pub retain: Option<Retention>,
}

#[derive(Clone)]
pub struct S3Blobs {
    client: Client,
    buckets: Arc<Buckets>,
    clock: Arc<dyn Clock>,
}

impl S3Blobs {
    pub fn new(client: Client, buckets: Buckets, clock: Arc<dyn Clock>) -> Self {
        Self { client, buckets: Arc::new(buckets), clock }
    }

    /// The Object Lock mode and retain-until date of a bundle that is stored now.
    fn object_lock(&self) -> Option<(ObjectLockMode, DateTime)> {
        let Retention { mode, days } = self.buckets.retain?;
        let mode = match mode {
            RetentionMode::Governance => ObjectLockMode::Governance,
            RetentionMode::Compliance => ObjectLockMode::Compliance,
        };
        let until = self.clock.now() + Millis::hours(24 * u64::from(days));
        Some((mode, DateTime::from_millis(until.0)))
    }

    /// A put that overwrites the object.
    fn put(&self, bucket: &str, key: String, blob: &BlobRef, bytes: Vec<u8>) -> PutObjectFluentBuilder {
        self.client
            .put_object()
            .bucket(bucket)
            .key(key)
            .checksum_sha256(STANDARD.encode(blob.sha256.as_bytes()))
            .content_type(CONTENT_TYPE)
            .body(ByteStream::from(bytes))
    }

    fn put_payload(
        &self,
        kind: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
        bytes: Vec<u8>,
    ) -> PutObjectFluentBuilder {
        self.put(&self.buckets.payloads, key(kind, tenant, blob), blob, bytes)
    }

    /// The content of an object. `None` if there is none.
    async fn get(&self, bucket: &str, key: String) -> Result<Option<Vec<u8>>, StoreError> {
        let found = match self.client.get_object().bucket(bucket).key(key).send().await {
            Ok(found) => found,
            Err(error) => {
                let error = AwsError::from_sdk(error);
                return if error.is("NoSuchKey") { Ok(None) } else { Err(error.into_read_error(READING)) };
            }
        };
        // The connection failed during the download.
        let bytes = found.body.collect().await.map_err(|_| StoreError::Busy { doing: READING })?;
        Ok(Some(bytes.to_vec()))
    }

    /// Writes an existing payload again unless it is recent, so that the new reference has the full retention too.
    async fn renew(&self, tenant: &TenantId, blob: BlobRef, bytes: Vec<u8>) -> Result<BlobRef, StoreError> {
        if self.is_recent(tenant, &blob).await {
            return Ok(blob);
        }
        let put = self.put_payload(BlobKind::Payloads, tenant, &blob, bytes).send().await;
        put.map(|_| blob).map_err(|error| AwsError::from_sdk(error).into_write_error(STORING))
    }

    /// Whether the payload was written recently. `false` if the request fails or is denied: an unnecessary write is
    /// better than a lost payload.
    async fn is_recent(&self, tenant: &TenantId, blob: &BlobRef) -> bool {
        let kind = BlobKind::Payloads;
        let head = self.client.head_object().bucket(&self.buckets.payloads).key(key(kind, tenant, blob));
        let last_modified = head.send().await.ok().and_then(|found| found.last_modified?.to_millis().ok());
        last_modified.is_some_and(|at| self.clock.now() < Timestamp(at) + RENEWED_AFTER)
    }
}

impl Blobs for S3Blobs {
    async fn put_blob(
        &self,
        kind: BlobKind,
        tenant: &TenantId,
        bytes: Vec<u8>,
    ) -> Result<BlobRef, StoreError> {
        let blob = blobs::blob_ref(&bytes);
        let put = self.put_payload(kind, tenant, &blob, bytes.clone()).if_none_match("*");
        match put.send().await.map_err(AwsError::from_sdk) {
            Ok(_) => Ok(blob),
            // The object exists, and the digest in its key proves its content. A payload may be about to expire.
            Err(error) if error.class == Class::Superseded => match kind {
                BlobKind::Payloads => Box::pin(self.renew(tenant, blob, bytes)).await,
                BlobKind::Bodies => Ok(blob),
            },
            Err(error) => Err(error.into_write_error(STORING)),
        }
    }

    async fn blob(
        &self,
        kind: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let bytes = self.get(&self.buckets.payloads, key(kind, tenant, blob)).await?;
        bytes.map(|bytes| blobs::verify_digest(bytes, blob, READING)).transpose()
    }

    async fn put_bundle(
        &self,
        tenant: &TenantId,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let (mode, until) = self.object_lock().unzip();
        let put = self
            .put(&self.buckets.evidence, bundle_key(tenant, name), &blobs::blob_ref(&bytes), bytes)
            .set_object_lock_mode(mode)
            .set_object_lock_retain_until_date(until)
            .if_none_match("*");
        match put.send().await.map_err(AwsError::from_sdk) {
            Ok(_) => Ok(None),
            Err(error) if error.class == Class::Superseded => {
                // The object was deleted meanwhile, if there is none.
                self.bundle(tenant, name).await?.map(Some).ok_or(StoreError::Busy { doing: STORING })
            }
            Err(error) => Err(error.into_write_error(STORING)),
        }
    }

    async fn bundle(&self, tenant: &TenantId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(&self.buckets.evidence, bundle_key(tenant, name)).await
    }
}

/// Kinds have different key prefixes, because their lifecycle rules differ.
fn key(kind: BlobKind, tenant: &TenantId, blob: &BlobRef) -> String {
    format!("{}/{tenant}/{}", kind.as_str(), blob.sha256)
}

fn bundle_key(tenant: &TenantId, name: &str) -> String {
    format!("{tenant}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_payloads_have_the_expiring_prefix() {
        let (tenant, blob) = ("acme".parse().unwrap(), blobs::blob_ref(b"large"));
        let expires = |kind: &BlobKind| key(*kind, &tenant, &blob).starts_with("payloads/");
        assert_eq!(BlobKind::ALL.into_iter().filter(expires).collect::<Vec<_>>(), [BlobKind::Payloads]);
        assert_eq!(key(BlobKind::Bodies, &tenant, &blob), format!("bodies/acme/{}", blob.sha256));
    }
}
