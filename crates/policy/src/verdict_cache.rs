//! Remembers verdicts, so that equal inputs of a policy are evaluated once.
//!
//! A verdict depends on the bundle and the input, and on nothing else: a bundle is refused if it calls a function whose
//! result depends on more than its arguments. So the key is the hash of the bundle and the digest of the whole input,
//! and an entry never becomes invalid.

use std::num::NonZeroUsize;

use domain::{Digest, Reason, Verdict};
use lru::LruCache;
use parking_lot::Mutex;

use crate::bundle::PolicyBundle;
use crate::request::PolicyRequest;

/// With [`BYTES_MAX`], at most 32 MiB; about 8 MiB of verdicts with one reason.
const VERDICTS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(16_383);

/// A verdict whose reasons take more memory is evaluated each time.
const BYTES_MAX: usize = 1_536;

/// The last verdicts of all policies of a process.
pub struct VerdictCache(Mutex<LruCache<CacheKey, Verdict>>);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CacheKey {
    bundle: Digest,
    input: Digest,
}

impl Default for VerdictCache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(VERDICTS_MAX)))
    }
}

impl VerdictCache {
    /// The verdict of `bundle` on `request`, if an equal request was evaluated recently.
    pub fn get(&self, bundle: &PolicyBundle, request: &PolicyRequest<'_>) -> Option<Verdict> {
        let input = bundle.input(request).ok()?;
        self.0.lock().get(&cache_key(bundle, &input)).cloned()
    }

    /// The verdict of `bundle` on `request`. An error is a deny and is not stored: the next evaluation of the same
    /// input can succeed, for example after a time limit on a busy machine.
    pub fn evaluate(&self, bundle: &PolicyBundle, request: &PolicyRequest<'_>) -> Verdict {
        let verdict = bundle.input(request).and_then(|input| {
            let key = cache_key(bundle, &input);
            if let Some(verdict) = self.0.lock().get(&key) {
                return Ok(verdict.clone());
            }
            // Not under the lock: an evaluation can take a second.
            let verdict = bundle.evaluate_input(&input)?;
            if reason_bytes(&verdict) <= BYTES_MAX {
                self.0.lock().put(key, verdict.clone());
            }
            Ok(verdict)
        });
        verdict.unwrap_or_else(|error| error.verdict(bundle.hash()))
    }
}

fn cache_key(bundle: &PolicyBundle, input: &str) -> CacheKey {
    CacheKey { bundle: bundle.hash(), input: Digest::of_bytes(input.as_bytes()) }
}

/// The memory of the reasons.
fn reason_bytes(verdict: &Verdict) -> usize {
    let bytes = |reason: &Reason| {
        let text = reason.rule.len() + reason.message.len() + reason.file.as_ref().map_or(0, String::len);
        size_of::<Reason>() + text
    };
    verdict.reasons.iter().map(bytes).sum()
}
