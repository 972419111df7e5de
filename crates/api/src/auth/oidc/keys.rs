//! The provider's keys, as they were last fetched.
//!
//! Whoever shows tokens with names of keys that there are not makes us ask the provider at most once in a while, and
//! while it does not answer, the keys known so far go on working.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use domain::{Millis, Timestamp};
use jsonwebtoken::jwk::Jwk;
use tokio::sync::Mutex;
use url::Url;

use super::discovery::Discovery;
use super::http::{Line, Unreachable};

/// The provider is asked at most this often.
const REFETCH_AFTER: Millis = Millis::secs(30);

/// A key that the provider took away is believed for at most this long, while it answers.
const KEYS_LAST: Millis = Millis::mins(15);

/// What is known about a key.
pub(super) enum Found {
    /// Here it is.
    Key(Arc<Jwk>),
    /// The provider has none of that name.
    Unknown,
    /// The provider does not answer.
    Unreachable,
}

/// The provider's keys.
pub(super) struct KeySet {
    /// Where they are, if not where the provider says itself.
    url: Option<Url>,
    discovery: Arc<Discovery>,
    line: Line,
    known: RwLock<Known>,
    /// Held by whoever asks the provider.
    asking: Mutex<Option<Asked>>,
}

#[derive(Default)]
struct Known {
    keys: HashMap<String, Arc<Jwk>>,
    at: Option<Timestamp>,
}

/// When the provider was asked last, and whether it answered.
#[derive(Clone, Copy)]
struct Asked {
    at: Timestamp,
    answered: bool,
}

impl KeySet {
    /// The keys at `url`, or else where the provider says itself.
    pub(super) fn new(url: Option<Url>, discovery: Arc<Discovery>, line: Line) -> Self {
        Self { url, discovery, line, known: RwLock::default(), asking: Mutex::new(None) }
    }

    /// The key of this name.
    pub(super) async fn find(&self, id: &str, now: Timestamp) -> Found {
        match self.known(id, now) {
            (Some(key), true) => Found::Key(key),
            // It is old, and still the best there is: one asks whether it still counts, the others go on.
            (Some(key), false) => match self.asking.try_lock() {
                Ok(mut asked) => {
                    self.ask(&mut asked, now).await;
                    self.known(id, now).0.map_or(Found::Unknown, Found::Key)
                }
                Err(_) => Found::Key(key),
            },
            (None, _) => {
                let mut asked = self.asking.lock().await;
                // Whoever asked before may have found it.
                if let (Some(key), _) = self.known(id, now) {
                    return Found::Key(key);
                }
                let answered = self.ask(&mut asked, now).await;
                match self.known(id, now).0 {
                    Some(key) => Found::Key(key),
                    None if answered => Found::Unknown,
                    None => Found::Unreachable,
                }
            }
        }
    }

    /// A key that is known, and whether that is recent.
    fn known(&self, id: &str, now: Timestamp) -> (Option<Arc<Jwk>>, bool) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let recent = known.at.is_some_and(|at| now < at + KEYS_LAST);
        (known.keys.get(id).cloned(), recent)
    }

    /// Asks the provider, unless it was asked a moment ago. Whether it answered, then or now.
    async fn ask(&self, asked: &mut Option<Asked>, now: Timestamp) -> bool {
        if let Some(asked) = asked.filter(|asked| now < asked.at + REFETCH_AFTER) {
            return asked.answered;
        }
        let fetched = self.fetch(now).await;
        *asked = Some(Asked { at: now, answered: fetched.is_ok() });
        match fetched {
            Ok(keys) => {
                let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
                *known = Known { keys, at: Some(now) };
                true
            }
            Err(error) => {
                tracing::error!(error = %engine::told(&error), "the identity provider's keys could not be had");
                false
            }
        }
    }

    async fn fetch(&self, now: Timestamp) -> Result<HashMap<String, Arc<Jwk>>, Unreachable> {
        let url = match &self.url {
            Some(url) => url.clone(),
            None => self.discovery.document(now).await?.key_set.clone(),
        };
        let mut set = self.line.get(url).await?;
        let Some(keys) = set.get_mut("keys").and_then(|keys| keys.as_array_mut()) else {
            return Err(Unreachable::Says("the key set has no `keys`"));
        };
        // A key of a kind that nobody knows keeps none of the others from being used.
        let read = keys.drain(..).filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        Ok(read.filter_map(|key| Some((key.common.key_id.clone()?, Arc::new(key)))).collect())
    }
}
