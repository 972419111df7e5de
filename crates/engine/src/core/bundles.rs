//! Policies in memory. A policy is named by its hash, so a cached policy is never stale.

use std::collections::BTreeMap;

use domain::{Digest, Tenant};
use parking_lot::Mutex;
use policy::PolicyBundle;
use store::Store;

use crate::core::Core;
use crate::error::EngineError;

/// A worker serves a few tenants; a bundle takes some hundred kilobytes.
const BUNDLES_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Bundles {
    known: Mutex<BTreeMap<Digest, PolicyBundle>>,
}

impl Bundles {
    fn get(&self, hash: &Digest) -> Option<PolicyBundle> {
        self.known.lock().get(hash).cloned()
    }

    fn put(&self, bundle: PolicyBundle) {
        let mut known = self.known.lock();
        if known.len() >= BUNDLES_MAX {
            known.clear();
        }
        known.insert(bundle.hash(), bundle);
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
    /// The current policy of a tenant.
    pub(crate) async fn bundle(&self, tenant: &Tenant) -> Result<TenantBundle, EngineError> {
        let Some(hash) = tenant.policy else { return Ok(built_in()) };
        if let Some(bundle) = self.bundles.get(&hash) {
            return Ok(TenantBundle::Usable(bundle));
        }
        let files = self.retry_busy(|store| store.policy(&tenant.tenant, &hash)).await?;
        let unusable = |why| Ok(TenantBundle::Unusable { hash, why });
        let Some(files) = files else { return unusable(format!("policy {hash} is not in the store")) };
        match PolicyBundle::parse(files) {
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
