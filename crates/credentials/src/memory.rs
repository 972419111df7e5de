//! Memory for secrets: locked against swapping, overwritten when it is freed, and not part of core dumps.

use std::fmt;
use std::io;
use std::sync::Arc;

use region::LockGuard;
use secrecy::ExposeSecret;
use secrecy::zeroize::{Zeroize as _, Zeroizing};

/// A secret text. Its memory is overwritten when the last clone is dropped.
///
/// Its pages are locked, so they are not written to a swap device. If the limit of the process for locked memory
/// (`RLIMIT_MEMLOCK`) is reached, the secret is kept unlocked, because a step that fails would be worse. Locking does
/// not cover the copies in the buffers of the HTTP and TLS libraries.
#[derive(Clone)]
pub struct LockedSecret(Arc<Pages>);

/// Whole pages that contain one secret and nothing else: the lock of a page ends for all of its contents.
struct Pages {
    // Dropped before `buffer`, so that only memory that still exists is unlocked.
    lock: Option<LockGuard>,
    buffer: Box<[u8]>,
    start: usize,
    length: usize,
}

impl LockedSecret {
    fn new(text: &str) -> Self {
        let page = region::page::size();
        let room = text.len().max(1).next_multiple_of(page);
        // The allocator aligns to less than a page; one page more contains an aligned range of `room` bytes.
        let mut buffer = vec![0; room + page].into_boxed_slice();
        let start = buffer.as_ptr().align_offset(page);
        let lock = region::lock(buffer[start..].as_ptr(), room).ok();
        buffer[start..start + text.len()].copy_from_slice(text.as_bytes());
        Self(Arc::new(Pages { lock, buffer, start, length: text.len() }))
    }

    /// Whether the operating system has locked the memory.
    pub fn is_locked(&self) -> bool {
        self.0.lock.is_some()
    }
}

impl ExposeSecret<str> for LockedSecret {
    fn expose_secret(&self) -> &str {
        let Pages { buffer, start, length, .. } = &*self.0;
        // The bytes are those of a `str`.
        std::str::from_utf8(&buffer[*start..start + length]).unwrap_or_default()
    }
}

impl From<Zeroizing<String>> for LockedSecret {
    fn from(text: Zeroizing<String>) -> Self {
        Self::new(&text)
    }
}

impl From<String> for LockedSecret {
    fn from(text: String) -> Self {
        Zeroizing::new(text).into()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.buffer.zeroize();
    }
}

impl fmt::Debug for LockedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockedSecret([REDACTED])")
    }
}

/// Excludes the memory of this process from core dumps, for the whole process: copies of a secret are also in buffers of
/// libraries. On Linux, processes of the same user can then not read its memory or its environment either.
///
/// Call it first in `main` of a process that fetches secrets. It does not cover a dump that root takes.
pub fn exclude_from_core_dumps() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // A core_pattern that pipes to a program ignores the limit; the next call covers it.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_secret_keeps_any_text() {
        for text in ["", "hunter2", &"ü".repeat(40_000)] {
            let secret = LockedSecret::from(text.to_owned());
            assert_eq!(secret.clone().expose_secret(), text);
            assert!(secret.0.buffer[secret.0.start..].as_ptr().addr().is_multiple_of(region::page::size()));
        }
    }

    #[test]
    fn debug_of_a_locked_secret_is_redacted() {
        assert_eq!(format!("{:?}", LockedSecret::from("hunter2".to_owned())), "LockedSecret([REDACTED])");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn pages_of_a_secret_are_locked() {
        let locked_kib = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap().to_owned();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        // Larger than the locked memory of the other tests in this process.
        let secret = LockedSecret::from("x".repeat(1 << 20));
        assert!(!secret.is_locked() || locked_kib() >= 1024, "{} KiB", locked_kib());
    }
}
