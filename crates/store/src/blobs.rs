//! Blobs: large payloads and evidence, named by their content.

use std::future::Future;

use domain::{BlobRef, TenantId};

use crate::error::StoreError;

/// Where a blob is kept: what a run works with and what it leaves behind are kept for different times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlobKind {
    /// What is too large for a record: a run's input, what its steps gave.
    Payloads,
    /// A whole record that is too large for its place, a plan or a policy above all. It is kept for ever, as what
    /// points at it may be.
    Bodies,
    /// What proves what a run did.
    Evidence,
}

impl BlobKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Payloads, Self::Bodies, Self::Evidence];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Payloads => "payloads",
            Self::Bodies => "bodies",
            Self::Evidence => "evidence",
        }
    }
}

/// Blobs, named by their content. What is kept is never changed, so keeping it twice is keeping it once. A
/// blob is its tenant's: nobody else finds it, whatever they know about it.
pub trait Blobs {
    /// Keeps `bytes` for `tenant`.
    fn put_blob(
        &self,
        on: BlobKind,
        tenant: &TenantId,
        bytes: Vec<u8>,
    ) -> impl Future<Output = Result<BlobRef, StoreError>> + Send;

    /// What `blob` points at; an error if it is not what was kept, `None` if it is not there.
    fn blob(
        &self,
        on: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send;
}

/// The pointer to `bytes`.
pub(crate) fn pointer(bytes: &[u8]) -> BlobRef {
    BlobRef { sha256: domain::Digest::of_bytes(bytes), bytes: bytes.len() as u64 }
}

/// `bytes`, if they are what `blob` points at.
pub(crate) fn unaltered(bytes: Vec<u8>, blob: &BlobRef, doing: &'static str) -> Result<Vec<u8>, StoreError> {
    if pointer(&bytes).sha256 != blob.sha256 {
        return Err(StoreError::broken(doing, format!("blob {} was altered", blob.sha256)));
    }
    Ok(bytes)
}
