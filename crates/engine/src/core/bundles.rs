//! Policies in memory. A policy is named by its hash, so a cached policy is never stale.

use domain::{Digest, Tenant};
use policy::PolicyBundle;
use store::Store;

use crate::core::Core;
use crate::core::cache::LruCache;
use crate::core::policy_pool::PolicyPool;
use crate::error::EngineError;

/// Policies of a thousand tenants.
const BUNDLES_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A compiled policy takes about this many times the bytes of its files.
const COMPILED_SIZE: usize = 16;

pub(crate) struct BundleCache(LruCache<Digest, PolicyBundle>);

impl Default for BundleCache {
    fn default() -> Self {
        Self(LruCache::new(BUNDLES_BYTES_MAX))
    }
}

impl BundleCache {
    fn put(&self, bundle: PolicyBundle) {
        let bytes = bundle.files().values().map(String::len).sum::<usize>() * COMPILED_SIZE;
        self.0.put(bundle.hash(), bundle, bytes);
    }
}

/// The current policy of a tenant.
#[derive(Debug, Clone)]
pub enum TenantBundle {
    Usable(PolicyBundle),
    /// It cannot be evaluated, so every verdict is deny.
    Unusable {
        hash: Digest,
        why: String,
    },
}

impl TenantBundle {
    pub fn usable(&self) -> Option<&PolicyBundle> {
        match self {
            Self::Usable(bundle) => Some(bundle),
            Self::Unusable { .. } => None,
        }
    }

    pub fn hash(&self) -> Digest {
        match self {
            Self::Usable(bundle) => bundle.hash(),
            Self::Unusable { hash, .. } => *hash,
        }
    }
}

impl<S: Store> Core<S> {
    /// The current policy of a tenant. One that is not in memory is parsed in `pool`.
    pub(crate) async fn bundle(
        &self,
        tenant: &Tenant,
        pool: &PolicyPool,
    ) -> Result<TenantBundle, EngineError> {
        let Some(hash) = tenant.policy else { return Ok(built_in()) };
        if let Some(bundle) = self.bundles.0.get(&hash) {
            return Ok(TenantBundle::Usable(bundle));
        }
        let files = self.retry_busy(|store| store.policy(&tenant.tenant, &hash)).await?;
        let unusable = |why| Ok(TenantBundle::Unusable { hash, why });
        let Some(files) = files else { return unusable(format!("policy {hash} is not in the store")) };
        match pool.run(&tenant.tenant, |_| PolicyBundle::parse(files)).await? {
            Ok(bundle) if bundle.hash() == hash => {
                self.bundles.put(bundle.clone());
                Ok(TenantBundle::Usable(bundle))
            }
            Ok(_) => unusable(format!("the stored files of policy {hash} have another hash")),
            Err(error) => unusable(error.to_string()),
        }
    }
}

/// The shipped policy.
fn built_in() -> TenantBundle {
    match PolicyBundle::built_in() {
        Ok(bundle) => TenantBundle::Usable(bundle),
        Err(error) => TenantBundle::Unusable { hash: Digest::ZERO, why: error.to_string() },
    }
}
