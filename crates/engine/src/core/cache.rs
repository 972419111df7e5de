//! A cache that is bounded by bytes and drops what was not used for longest.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Entries by key. Their sizes are estimates of the caller.
pub(crate) struct LruCache<K, V> {
    bytes_max: usize,
    entries: Mutex<Entries<K, V>>,
}

struct Entries<K, V> {
    by_key: BTreeMap<K, Entry<V>>,
    /// The keys by their last use.
    by_use: BTreeMap<u64, K>,
    bytes: usize,
    uses: u64,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    used: u64,
}

impl<K: Ord + Clone, V: Clone> LruCache<K, V> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let entries = Entries { by_key: BTreeMap::new(), by_use: BTreeMap::new(), bytes: 0, uses: 0 };
        Self { bytes_max, entries: Mutex::new(entries) }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut entries = self.entries.lock();
        let Entries { by_key, by_use, uses, .. } = &mut *entries;
        let entry = by_key.get_mut(key)?;
        *uses += 1;
        by_use.remove(&entry.used);
        by_use.insert(*uses, key.clone());
        entry.used = *uses;
        Some(entry.value.clone())
    }

    /// Stores a value. One that is larger than the cache is not stored.
    pub(crate) fn put(&self, key: K, value: V, bytes: usize) {
        if bytes > self.bytes_max {
            return;
        }
        let mut entries = self.entries.lock();
        entries.remove(&key);
        while entries.bytes + bytes > self.bytes_max {
            let Some((_, oldest)) = entries.by_use.pop_first() else { break };
            entries.remove(&oldest);
        }
        entries.uses += 1;
        let used = entries.uses;
        entries.by_use.insert(used, key.clone());
        entries.by_key.insert(key, Entry { value, bytes, used });
        entries.bytes += bytes;
    }
}

impl<K: Ord, V> Entries<K, V> {
    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.by_key.remove(key) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_entry_is_evicted() {
        let cache = LruCache::new(30);
        for key in ["a", "b", "c"] {
            cache.put(key, key, 10);
        }
        assert_eq!(cache.get(&"a"), Some("a"));
        cache.put("d", "d", 20);
        let left: Vec<_> = ["a", "b", "c", "d"].into_iter().filter_map(|key| cache.get(&key)).collect();
        assert_eq!(left, ["a", "d"]);
        cache.put("a", "new", 10);
        assert_eq!((cache.get(&"a"), cache.get(&"d")), (Some("new"), Some("d")));
        cache.put("e", "e", 31);
        assert_eq!(cache.get(&"e"), None, "larger than the cache");
        assert_eq!(cache.entries.lock().bytes, 30);
    }
}
