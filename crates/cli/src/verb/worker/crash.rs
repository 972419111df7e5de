//! For tests: the process kills itself at a numbered call to the store.
//!
//! `--crash-at 7:before` sends SIGKILL before the eighth call, `:after` when the call has completed and the caller
//! has not received the result. Only calls of this process are counted. Nothing is cleaned up or flushed.
//!
//! With `--concurrency 1` the worker makes its calls one after the other, so a short run has the same call numbers
//! every time: the first three receive from the queues, the steps queue last. With a higher concurrency, it receives
//! messages while it works.

use std::convert::Infallible;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use store::{Intercept, StoreCall, StoreError};

/// The call at which the process dies, counted from 0.
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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a crash point; write `7`, `7:before` or `7:after`")]
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

/// Counts calls and kills the process at one of them.
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
    /// Whether the process dies after this call.
    type State = bool;

    async fn before(&self, call: &StoreCall) -> Result<bool, StoreError> {
        // Heartbeats depend on the clock; counting them would make the call numbers unstable.
        if call.name.starts_with("worker_registry.") {
            return Ok(false);
        }
        let at_point = self.calls.fetch_add(1, Ordering::SeqCst) == self.point.call;
        if at_point && self.point.side == Side::Before {
            kill_self().await;
        }
        Ok(at_point)
    }

    async fn after(&self, at_point: bool) -> Result<(), StoreError> {
        if at_point && self.point.side == Side::After {
            kill_self().await;
        }
        Ok(())
    }
}

/// Sends SIGKILL to this process. Never returns, so that the caller does not continue until the signal arrives.
async fn kill_self() -> Infallible {
    if let Err(error) = kill_process(getpid(), Signal::KILL) {
        tracing::error!(event = "self_kill_failed", %error, "cannot kill this process; blocking instead");
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crash_point_is_a_number_and_a_side() {
        let point = |call, side| Ok(CrashPoint { call, side });
        assert_eq!("7".parse(), point(7, Side::Before));
        assert_eq!("0:before".parse(), point(0, Side::Before));
        assert_eq!("12:after".parse(), point(12, Side::After));
        for bad in ["", ":", "-1", "1:", "1:later", "x"] {
            assert!(bad.parse::<CrashPoint>().is_err(), "{bad:?}");
        }
    }
}
