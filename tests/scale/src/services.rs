//! A queue and blobs in memory, with the latency of SQS and S3. Sent messages are dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::{BlobRef, Digest, Millis, Outgoing, QueueName, TenantId};
use parking_lot::Mutex;
use store::{BlobKind, Blobs, DeadLetter, Delivery, Handle, Queue, StoreError};
use tokio::time::sleep;

type StoredBlobs = HashMap<(TenantId, Digest), Vec<u8>>;

type StoredBundles = HashMap<(TenantId, String), Vec<u8>>;

/// Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    latency: Duration,
    blobs: Arc<Mutex<StoredBlobs>>,
    bundles: Arc<Mutex<StoredBundles>>,
}

impl Services {
    pub(crate) fn new(latency: Duration) -> Self {
        Self { latency, blobs: Arc::default(), bundles: Arc::default() }
    }
}

impl Blobs for Services {
    async fn put_blob(&self, _: BlobKind, tenant: &TenantId, bytes: Vec<u8>) -> Result<BlobRef, StoreError> {
        sleep(self.latency).await;
        let blob = BlobRef { sha256: Digest::of_bytes(&bytes), bytes: bytes.len() as u64 };
        self.blobs.lock().insert((tenant.clone(), blob.sha256), bytes);
        Ok(blob)
    }

    async fn blob(
        &self,
        _: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        sleep(self.latency).await;
        Ok(self.blobs.lock().get(&(tenant.clone(), blob.sha256)).cloned())
    }

    async fn put_bundle(
        &self,
        tenant: &TenantId,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        sleep(self.latency).await;
        let mut bundles = self.bundles.lock();
        let name = (tenant.clone(), name.to_owned());
        let stored = bundles.get(&name).cloned();
        if stored.is_none() {
            bundles.insert(name, bytes);
        }
        Ok(stored)
    }

    async fn bundle(&self, tenant: &TenantId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        sleep(self.latency).await;
        Ok(self.bundles.lock().get(&(tenant.clone(), name.to_owned())).cloned())
    }
}

impl Queue for Services {
    async fn send(&self, _: &Outgoing) -> Result<(), StoreError> {
        sleep(self.latency).await;
        Ok(())
    }

    async fn receive(
        &self,
        _: QueueName,
        _: usize,
        _: Millis,
        wait: Duration,
    ) -> Result<Vec<Delivery>, StoreError> {
        sleep(wait).await;
        Ok(Vec::new())
    }

    async fn extend(&self, _: &Handle, _: Millis) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn delete(&self, _: &Handle) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn dead_letters(&self, _: u32) -> Result<Vec<DeadLetter>, StoreError> {
        Ok(Vec::new())
    }

    async fn redrive(&self, _: u32) -> Result<u32, StoreError> {
        Ok(0)
    }

    async fn depth(&self, _: QueueName) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn visible(&self, _: QueueName) -> Result<u64, StoreError> {
        Ok(0)
    }
}
