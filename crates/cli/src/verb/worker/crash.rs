//! A test aid: the process kills itself at a numbered call to the store.
//!
//! The proof that a crash at any point loses nothing needs crashes at chosen points. `--crash-at 7:before`
//! kills the process with SIGKILL when it is about to make its eighth call to the store, `:after` when that
//! call has been carried out and its answer is not known to the caller yet. Only the calls of this process
//! are counted. Nothing is cleaned up, nothing is flushed: that is the point.
//!
//! With `--concurrency 1` the worker makes its calls one after the other, so that a short run meets the same
//! calls under the same numbers every time: the first three receive, one for each queue, that of steps last. With
//! more, it looks for further messages while it works.

use std::convert::Infallible;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use store::{Intercept, Site, StoreError};

/// At which call the process dies, counted from 0, and on which side of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CrashPoint {
    call: u64,
    side: Side,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// Why a text is no crash point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no crash point; write `7`, `7:before` or `7:after`")]
pub(crate) struct InvalidCrashPoint {
    text: String,
}

impl FromStr for CrashPoint {
    type Err = InvalidCrashPoint;

    fn from_str(text: &str) -> Result<Self, InvalidCrashPoint> {
        let invalid = || InvalidCrashPoint { text: text.to_owned() };
        let (call, side) = match text.split_once(':') {
            None => (text, Side::Before),
            Some((call, "before")) => (call, Side::Before),
            Some((call, "after")) => (call, Side::After),
            Some(_) => return Err(invalid()),
        };
        Ok(Self { call: call.parse().map_err(|_| invalid())?, side })
    }
}

/// Counts calls, and dies at one of them.
pub(super) struct CrashAt {
    point: CrashPoint,
    calls: AtomicU64,
}

impl CrashAt {
    pub(super) fn new(point: CrashPoint) -> Self {
        Self { point, calls: AtomicU64::new(0) }
    }
}

impl Intercept for CrashAt {
    /// Whether this is the call after which the process dies.
    type Pass = bool;

    async fn before(&self, site: &Site) -> Result<bool, StoreError> {
        // The roll is signed by the clock, beside the work: counted, it would shift what the numbers mean.
        if site.name.starts_with("roll.") {
            return Ok(false);
        }
        let here = self.calls.fetch_add(1, Ordering::SeqCst) == self.point.call;
        if here && self.point.side == Side::Before {
            die().await;
        }
        Ok(here)
    }

    async fn after(&self, here: bool) -> Result<(), StoreError> {
        if here && self.point.side == Side::After {
            die().await;
        }
        Ok(())
    }
}

/// SIGKILL to ourselves. The caller never goes on, not even for the moment until the signal lands.
async fn die() -> Infallible {
    if let Err(error) = kill_process(getpid(), Signal::KILL) {
        tracing::error!(%error, "a process that could not kill itself stands still instead");
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_point_is_a_number_and_a_side() {
        let point = |call, side| Ok(CrashPoint { call, side });
        assert_eq!("7".parse(), point(7, Side::Before));
        assert_eq!("0:before".parse(), point(0, Side::Before));
        assert_eq!("12:after".parse(), point(12, Side::After));
        for bad in ["", ":", "-1", "1:", "1:later", "x"] {
            assert!(bad.parse::<CrashPoint>().is_err(), "{bad:?}");
        }
    }
}
