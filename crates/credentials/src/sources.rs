//! The sources of a process, by store.

use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::connection::SecretStore;
use domain::{Millis, SecretRef, TenantId};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use crate::{FetchedSecret, LIFETIME_MAX, SecretError, SecretSource, Secrets};

/// Most secrets have one locked page, so these take half of 8 MiB, the usual limit of locked memory.
const CACHED_MAX: usize = 1_000;

type Key = (TenantId, SecretRef);

/// Sends each reference to the source of its store.
#[derive(Default)]
pub struct Sources {
    by_store: BTreeMap<SecretStore, Secrets>,
    keep: Duration,
    cached: Mutex<BTreeMap<Key, (Instant, FetchedSecret)>>,
}

impl Sources {
    /// Uses `source` for references of these stores.
    #[must_use]
    pub fn with(mut self, stores: impl IntoIterator<Item = SecretStore>, source: &Secrets) -> Self {
        self.by_store.extend(stores.into_iter().map(|store| (store, source.clone())));
        self
    }

    /// Keeps copies of secrets of AWS and of Vault's key-value engine for this time, at most [`LIFETIME_MAX`]. Without
    /// it each step fetches its own, so a rotated secret works at the next step. The copies are only in memory.
    #[must_use]
    pub fn cached_for(mut self, keep: Millis) -> Self {
        self.keep = keep.min(LIFETIME_MAX).std();
        self
    }

    fn of(&self, secret: &SecretRef) -> Result<&Secrets, SecretError> {
        let absent = || SecretError::refused(secret, not_configured(secret.store()));
        self.by_store.get(&secret.store()).ok_or_else(absent)
    }

    fn cached(&self, key: &Key) -> Option<FetchedSecret> {
        let mut cached = self.cached.lock();
        let now = Instant::now();
        cached.retain(|_, (until, _)| *until > now);
        let (until, fetched) = cached.get(key)?;
        let left = u64::try_from((*until - now).as_millis()).unwrap_or_default();
        Some(FetchedSecret { lifetime: fetched.lifetime.min(Millis(left)), ..fetched.clone() })
    }

    fn keep(&self, key: Key, fetched: &FetchedSecret) {
        // A dynamic secret belongs to one step, and a local one costs nothing to read.
        if self.keep.is_zero() || fetched.lease.is_some() || key.1.store().is_operators() {
            return;
        }
        let mut cached = self.cached.lock();
        if cached.len() < CACHED_MAX || cached.contains_key(&key) {
            cached.insert(key, (Instant::now() + self.keep, fetched.clone()));
        }
    }
}

fn not_configured(store: SecretStore) -> String {
    match store {
        SecretStore::Vault => "this process has no section `vault` in its configuration".to_owned(),
        SecretStore::AwsSm | SecretStore::AwsSsm => {
            "this process has no section `aws_secrets` in its configuration".to_owned()
        }
        SecretStore::Env | SecretStore::File => format!("this process may not read {store}://"),
    }
}

#[async_trait]
impl SecretSource for Sources {
    fn check(&self, tenant: &TenantId, secret: &SecretRef) -> Result<(), SecretError> {
        self.of(secret)?.check(tenant, secret)
    }

    async fn fetch(&self, tenant: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, SecretError> {
        match self.cached(&(tenant.clone(), secret.clone())) {
            Some(fetched) => Ok(fetched),
            None => self.fetch_fresh(tenant, secret).await,
        }
    }

    async fn fetch_fresh(&self, tenant: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, SecretError> {
        let fetched = self.of(secret)?.fetch_fresh(tenant, secret).await?;
        self.keep((tenant.clone(), secret.clone()), &fetched);
        Ok(fetched)
    }

    async fn release(&self, fetched: FetchedSecret) -> Result<(), SecretError> {
        let Some(lease) = &fetched.lease else { return Ok(()) };
        self.of(&lease.secret)?.release(fetched).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockedSecret;
    use secrecy::ExposeSecret as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Each fetch is a new version.
    #[derive(Default)]
    struct Counting(AtomicU32);

    #[async_trait]
    impl SecretSource for Counting {
        fn check(&self, _: &TenantId, _: &SecretRef) -> Result<(), SecretError> {
            Ok(())
        }

        async fn fetch(&self, _: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, SecretError> {
            let version = self.0.fetch_add(1, Ordering::SeqCst).to_string();
            Ok(FetchedSecret::new(secret, LockedSecret::from(version.clone()), Some(version)))
        }
    }

    fn sources() -> Sources {
        let counting: Secrets = Arc::new(Counting::default());
        Sources::default().with([SecretStore::AwsSm, SecretStore::Env], &counting)
    }

    async fn fetch(sources: &Sources, tenant: &str, reference: &str) -> String {
        let fetched = sources.fetch(&tenant.parse().unwrap(), &reference.parse().unwrap()).await.unwrap();
        fetched.value.expose_secret().to_owned()
    }

    #[tokio::test]
    async fn missing_store_is_refused_with_its_section() {
        let tenant = "acme".parse().unwrap();
        for (reference, section) in
            [("vault://kv/a#b", "`vault`"), ("aws-ssm://a", "`aws_secrets`"), ("file:///a", "file://")]
        {
            let secret = reference.parse().unwrap();
            let error = sources().fetch(&tenant, &secret).await.unwrap_err();
            assert_eq!(sources().check(&tenant, &secret), Err(error.clone()));
            assert!(matches!(error, SecretError::Refused { .. }));
            assert!(error.to_string().contains(section), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn cache_ends_and_is_per_tenant() {
        let sources = sources().cached_for(Millis::hours(1));
        assert_eq!(fetch(&sources, "acme", "aws-sm://a").await, "0");
        assert_eq!(fetch(&sources, "acme", "aws-sm://a").await, "0");
        assert_eq!(fetch(&sources, "globex", "aws-sm://a").await, "1");
        tokio::time::advance(LIFETIME_MAX.std()).await;
        assert_eq!(fetch(&sources, "acme", "aws-sm://a").await, "2");
        assert_eq!(fetch(&sources, "acme", "env://A").await, "3");
        assert_eq!(fetch(&sources, "acme", "env://A").await, "4");
    }

    #[tokio::test]
    async fn fresh_fetch_replaces_the_cached_secret() {
        let sources = sources().cached_for(Millis::mins(1));
        let (tenant, secret) = ("acme".parse().unwrap(), "aws-sm://a".parse().unwrap());
        assert_eq!(fetch(&sources, "acme", "aws-sm://a").await, "0");
        assert_eq!(sources.fetch_fresh(&tenant, &secret).await.unwrap().version.as_deref(), Some("1"));
        assert_eq!(fetch(&sources, "acme", "aws-sm://a").await, "1");
    }
}
