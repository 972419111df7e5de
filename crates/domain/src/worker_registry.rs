//! The worker registry: one record for each worker process.
//!
//! A worker writes its record at startup, on every heartbeat and on shutdown. An operator can add a drain request to
//! the record; the worker reads it on its next heartbeat. Workers also choose from the records which of them sweeps. A
//! worker that cannot write its record keeps working, and a record gives no right to a step. Only a lease does.

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

use crate::failure::{MESSAGE_CHARS_MAX, bounded};
use crate::id::WorkerId;
use crate::initiator::Initiator;
use crate::time::{Millis, Timestamp};

/// The heartbeat interval.
pub const HEARTBEAT_EVERY: Millis = Millis::secs(15);

/// A worker is offline after three missed heartbeats.
pub const OFFLINE_AFTER: Millis = Millis::secs(45);

/// How long an offline worker counts as missing. After that, operators no longer expect it back.
pub const EXPECTED_FOR: Millis = Millis::hours(1);

/// How long a record is stored after the last heartbeat.
pub const RECORD_TTL: Millis = Millis::hours(24);

/// The registry's record of one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// The worker's id.
    pub worker: WorkerId,
    /// When the worker started, by its own clock.
    pub started_at: Timestamp,
    /// The last heartbeat, by the worker's own clock.
    pub heartbeat_at: Timestamp,
    /// The state that the worker reported with its last heartbeat.
    pub report: WorkerReport,
    /// The first request to drain the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_request: Option<DrainRequest>,
    /// Incremented by every change.
    pub revision: u32,
}

/// The state that a worker reports about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerReport {
    /// The worker receives messages.
    Working {
        /// Messages in progress; an idle worker has none.
        in_flight: u32,
    },
    /// The worker is running and has a problem.
    Unhealthy {
        /// Messages in progress.
        in_flight: u32,
        /// The problem.
        reason: String,
    },
    /// The worker receives no new messages and finishes those in progress.
    Draining {
        /// Messages in progress.
        in_flight: u32,
    },
    /// The worker shut down.
    Stopped {
        /// Whether it finished its messages first. Other workers take over the unfinished ones.
        drained: bool,
    },
}

impl WorkerReport {
    /// The number of messages in progress.
    pub fn in_flight(&self) -> u32 {
        match self {
            Self::Working { in_flight }
            | Self::Unhealthy { in_flight, .. }
            | Self::Draining { in_flight } => *in_flight,
            Self::Stopped { .. } => 0,
        }
    }
}

/// A request that a worker drain and shut down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRequest {
    /// Who made the request.
    pub by: Initiator,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

impl DrainRequest {
    /// A request with a bounded reason.
    pub fn new(by: Initiator, reason: &str, at: Timestamp) -> Self {
        Self { by, reason: bounded(reason, MESSAGE_CHARS_MAX), at }
    }
}

/// The status of a worker, computed from its record and the current time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum WorkerStatus {
    /// Running, with no messages in progress.
    Idle,
    /// Running, with messages in progress.
    Executing,
    /// Running, with a reported problem.
    Errored,
    /// Asked to drain: it finishes its messages and receives no more from its next heartbeat on.
    Draining,
    /// No heartbeat for [`OFFLINE_AFTER`]. Other workers take over its messages.
    Offline,
    /// Shut down, as the worker itself reported.
    Stopped,
}

impl WorkerStatus {
    /// The name used in the API, the CLI and the console.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl WorkerRecord {
    /// The first record of `worker`.
    pub fn new(worker: WorkerId, report: WorkerReport, at: Timestamp) -> Self {
        Self { worker, started_at: at, heartbeat_at: at, report, drain_request: None, revision: 0 }
    }

    /// The record after a heartbeat.
    #[must_use]
    pub fn heartbeat(&self, report: WorkerReport, at: Timestamp) -> Self {
        Self { report, heartbeat_at: at, revision: self.revision.saturating_add(1), ..self.clone() }
    }

    /// The record with a drain request. An earlier request is kept.
    #[must_use]
    pub fn with_drain_request(&self, request: DrainRequest) -> Self {
        let drain_request = self.drain_request.clone().or(Some(request));
        Self { drain_request, revision: self.revision.saturating_add(1), ..self.clone() }
    }

    /// The status at `now`.
    pub fn status(&self, now: Timestamp) -> WorkerStatus {
        match &self.report {
            WorkerReport::Stopped { .. } => WorkerStatus::Stopped,
            _ if now - self.heartbeat_at > OFFLINE_AFTER => WorkerStatus::Offline,
            WorkerReport::Draining { .. } => WorkerStatus::Draining,
            _ if self.drain_request.is_some() => WorkerStatus::Draining,
            WorkerReport::Unhealthy { .. } => WorkerStatus::Errored,
            WorkerReport::Working { in_flight: 0 } => WorkerStatus::Idle,
            WorkerReport::Working { .. } => WorkerStatus::Executing,
        }
    }

    /// Whether the worker runs at `now` or should: it did not report a shutdown, and its last heartbeat is at most
    /// [`EXPECTED_FOR`] old.
    pub fn is_expected(&self, now: Timestamp) -> bool {
        self.status(now) != WorkerStatus::Stopped && now - self.heartbeat_at <= EXPECTED_FOR
    }

    /// When the record is deleted, unless another heartbeat arrives.
    pub fn expires_at(&self) -> Timestamp {
        self.heartbeat_at + RECORD_TTL
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initiator::Cause;

    const START: Timestamp = Timestamp(1_000_000);

    fn worker(report: WorkerReport) -> WorkerRecord {
        WorkerRecord::new(WorkerId::new("worker-1").unwrap(), report, START)
    }

    fn request(by: &str) -> DrainRequest {
        DrainRequest::new(Initiator::new(Cause::User, by), "a new release", START)
    }

    #[test]
    fn status_follows_the_report_until_heartbeats_stop() {
        let last = START + OFFLINE_AFTER;
        let unhealthy =
            WorkerReport::Unhealthy { in_flight: 3, reason: "the store is unavailable".to_owned() };
        for (report, status) in [
            (WorkerReport::Working { in_flight: 0 }, WorkerStatus::Idle),
            (WorkerReport::Working { in_flight: 3 }, WorkerStatus::Executing),
            (unhealthy, WorkerStatus::Errored),
            (WorkerReport::Draining { in_flight: 3 }, WorkerStatus::Draining),
        ] {
            let worker = worker(report);
            assert_eq!(worker.status(last), status);
            assert_eq!(worker.status(last + Millis(1)), WorkerStatus::Offline);
            assert!(worker.is_expected(START + EXPECTED_FOR));
            assert!(!worker.is_expected(START + EXPECTED_FOR + Millis(1)));
            let again = worker.heartbeat(worker.report.clone(), last);
            assert_eq!(again.status(last + OFFLINE_AFTER), status, "another heartbeat arrived");
            assert_eq!((again.started_at, again.revision), (START, 1));
        }
    }

    #[test]
    fn stopped_worker_does_not_become_offline() {
        for drained in [true, false] {
            let stopped = worker(WorkerReport::Stopped { drained });
            assert_eq!(stopped.status(Timestamp(i64::MAX)), WorkerStatus::Stopped);
            assert!(!stopped.is_expected(START));
        }
    }

    #[test]
    fn first_drain_request_is_kept() {
        let draining = worker(WorkerReport::Working { in_flight: 0 }).with_drain_request(request("ada"));
        assert_eq!(draining.status(START), WorkerStatus::Draining);
        let twice = draining.with_drain_request(request("grace"));
        let twice = twice.heartbeat(WorkerReport::Working { in_flight: 1 }, START);
        assert_eq!(twice.drain_request, Some(request("ada")));
        assert_eq!(twice.revision, 3);
    }
}
