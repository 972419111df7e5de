//! Blobs: large payloads, addressed by the SHA-256 of their content, and evidence bundles, each under a name.

use std::future::Future;

use domain::{BlobRef, TenantId};

use crate::error::StoreError;

/// The kind of a blob. Each kind has its own retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlobKind {
    /// Payloads that are too large for a record: the input of a run, the results of its steps.
    Payloads,
    /// A complete record that is too large for its item, typically a plan or a policy. Stored without expiry, like
    /// the item that points at it.
    Bodies,
}

impl BlobKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Payloads, Self::Bodies];

    /// The name of the kind in keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Payloads => "payloads",
            Self::Bodies => "bodies",
        }
    }
}

/// Blobs, addressed by their content. A blob is immutable, so storing it twice has no effect. A blob belongs to one
/// tenant: no other tenant can read it, even with the digest.
pub trait Blobs {
    /// Stores `bytes` for `tenant` and returns the reference.
    fn put_blob(
        &self,
        kind: BlobKind,
        tenant: &TenantId,
        bytes: Vec<u8>,
    ) -> impl Future<Output = Result<BlobRef, StoreError>> + Send;

    /// Reads the bytes of `blob`. `None` if the tenant has no such blob. An error if the stored bytes do not match
    /// the digest.
    fn blob(
        &self,
        kind: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send;

    /// Stores an evidence bundle. A name is written once: if a bundle has it, returns that bundle and stores nothing.
    fn put_bundle(
        &self,
        tenant: &TenantId,
        name: &str,
        bytes: Vec<u8>,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send;

    /// Reads an evidence bundle. `None` if the tenant has no such bundle.
    fn bundle(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send;
}

/// The reference to `bytes`.
pub fn blob_ref(bytes: &[u8]) -> BlobRef {
    BlobRef { sha256: domain::Digest::of_bytes(bytes), bytes: bytes.len() as u64 }
}

/// Returns `bytes` if they match the digest in `blob`, otherwise an error.
pub(crate) fn verify_digest(
    bytes: Vec<u8>,
    blob: &BlobRef,
    doing: &'static str,
) -> Result<Vec<u8>, StoreError> {
    if blob_ref(&bytes).sha256 != blob.sha256 {
        return Err(StoreError::broken(
            doing,
            format!("the content of blob {} does not match its digest", blob.sha256),
        ));
    }
    Ok(bytes)
}
