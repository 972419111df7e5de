//! Blobs: large payloads, named by their content.

use std::future::Future;

use domain::BlobRef;

use crate::error::StoreError;

/// Large payloads, named by their content. What is kept is never changed, so keeping it twice is keeping
/// it once.
pub trait Blobs {
    /// Keeps `bytes`.
    fn put_blob(&self, bytes: Vec<u8>) -> impl Future<Output = Result<BlobRef, StoreError>> + Send;

    /// What `blob` points at; an error if it is not what was kept, `None` if it is not there.
    fn blob(&self, blob: &BlobRef) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send;
}
