//! The cached key set of the identity provider.
//!
//! Tokens with unknown key ids cause a limited number of requests to the provider. While it does not respond, the cached
//! keys stay valid.

use std::collections::HashMap;
use std::sync::Arc;

use domain::{Millis, Timestamp};
use jsonwebtoken::jwk::Jwk;
use parking_lot::RwLock;
use tokio::sync::Mutex;
use url::Url;

use super::discovery::Discovery;
use super::http::{ProviderClient, ProviderError};

/// The minimum time between two requests.
const REFETCH_AFTER: Millis = Millis::secs(30);

/// A key that the provider removed is accepted for at most this long, while the provider responds.
const KEYS_TTL: Millis = Millis::mins(15);

pub(super) enum KeyLookup {
    Key(Arc<Jwk>),
    /// The provider has no key with this id.
    Unknown,
    /// The provider does not respond.
    Unreachable,
}

/// The key set of the provider.
pub(super) struct KeySet {
    /// The configured address; by default the one in the discovery document.
    url: Option<Url>,
    discovery: Arc<Discovery>,
    client: ProviderClient,
    cached: RwLock<Cached>,
    /// Locked during a request.
    last_fetch: Mutex<Option<LastFetch>>,
}

#[derive(Default)]
struct Cached {
    keys: HashMap<String, Arc<Jwk>>,
    at: Option<Timestamp>,
}

/// The last request, and whether the provider responded.
#[derive(Clone, Copy)]
struct LastFetch {
    at: Timestamp,
    responded: bool,
}

impl KeySet {
    pub(super) fn new(url: Option<Url>, discovery: Arc<Discovery>, client: ProviderClient) -> Self {
        Self { url, discovery, client, cached: RwLock::default(), last_fetch: Mutex::new(None) }
    }

    /// The key with this id.
    pub(super) async fn find(&self, id: &str, now: Timestamp) -> KeyLookup {
        match self.cached(id, now) {
            (Some(key), true) => KeyLookup::Key(key),
            // The cached key is old: one caller refreshes it, the others use it.
            (Some(key), false) => match self.last_fetch.try_lock() {
                Ok(mut last) => {
                    self.refresh(&mut last, now).await;
                    self.cached(id, now).0.map_or(KeyLookup::Unknown, KeyLookup::Key)
                }
                Err(_) => KeyLookup::Key(key),
            },
            (None, _) => {
                let mut last = self.last_fetch.lock().await;
                // Another caller may have fetched it meanwhile.
                if let (Some(key), _) = self.cached(id, now) {
                    return KeyLookup::Key(key);
                }
                let responded = self.refresh(&mut last, now).await;
                match self.cached(id, now).0 {
                    Some(key) => KeyLookup::Key(key),
                    None if responded => KeyLookup::Unknown,
                    None => KeyLookup::Unreachable,
                }
            }
        }
    }

    /// The cached key, and whether the cache is recent.
    fn cached(&self, id: &str, now: Timestamp) -> (Option<Arc<Jwk>>, bool) {
        let cached = self.cached.read();
        let recent = cached.at.is_some_and(|at| now < at + KEYS_TTL);
        (cached.keys.get(id).cloned(), recent)
    }

    /// Fetches the key set, unless the last request is recent. Returns whether the provider responded.
    async fn refresh(&self, last: &mut Option<LastFetch>, now: Timestamp) -> bool {
        if let Some(last) = last.filter(|last| now < last.at + REFETCH_AFTER) {
            return last.responded;
        }
        let fetched = self.fetch(now).await;
        *last = Some(LastFetch { at: now, responded: fetched.is_ok() });
        match fetched {
            Ok(keys) => {
                let mut cached = self.cached.write();
                *cached = Cached { keys, at: Some(now) };
                true
            }
            Err(error) => {
                tracing::error!(event = "oidc_keys_unavailable", error = %engine::error_chain(&error), "key set of the identity provider unavailable");
                false
            }
        }
    }

    async fn fetch(&self, now: Timestamp) -> Result<HashMap<String, Arc<Jwk>>, ProviderError> {
        let url = match &self.url {
            Some(url) => url.clone(),
            None => self.discovery.document(now).await?.jwks_url.clone(),
        };
        let mut set = self.client.get(url).await?;
        let Some(keys) = set.get_mut("keys").and_then(|keys| keys.as_array_mut()) else {
            return Err(ProviderError::Invalid("the key set has no `keys`"));
        };
        // A key of an unknown type is skipped.
        let read = keys.drain(..).filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        Ok(read.filter_map(|key| Some((key.common.key_id.clone()?, Arc::new(key)))).collect())
    }
}
