//! The workers of the fleet.

use domain::{Timestamp, WorkerRecord, WorkerReport};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use views::time::rfc3339_millis;

/// The workers with a heartbeat within the last day, oldest worker first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workers {
    pub workers: Vec<WorkerInfo>,
}

/// A worker, according to its last heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerInfo {
    /// The worker id, as in events.
    pub worker: String,
    /// `idle`, `executing`, `errored`, `draining`, `offline` or `stopped`.
    pub status: String,
    /// Whether the worker should be running: it did not stop, and sent a heartbeat within the last hour.
    pub expected: bool,
    /// The number of messages in progress, over all tenants.
    pub in_flight: u32,
    /// The error that the worker reports, if any.
    pub error: Option<String>,
    /// Whether the worker finished all messages before it stopped; null if it did not stop.
    pub drained: Option<bool>,
    /// The first heartbeat.
    pub started_at: String,
    /// The last heartbeat.
    pub last_heartbeat_at: String,
    /// The request to drain, if there is one.
    pub drain_request: Option<DrainRequest>,
}

/// A request to drain a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainRequest {
    pub by: String,
    pub reason: String,
    pub at: String,
}

impl WorkerInfo {
    pub fn new(worker: WorkerRecord, now: Timestamp) -> Self {
        let (status, expected) = (worker.status(now).to_string(), worker.is_expected(now));
        let in_flight = worker.report.in_flight();
        let (error, drained) = match worker.report {
            WorkerReport::Unhealthy { reason, .. } => (Some(reason), None),
            WorkerReport::Stopped { drained } => (None, Some(drained)),
            WorkerReport::Working { .. } | WorkerReport::Draining { .. } => (None, None),
        };
        Self {
            worker: worker.worker.to_string(),
            status,
            expected,
            in_flight,
            error,
            drained,
            started_at: rfc3339_millis(worker.started_at),
            last_heartbeat_at: rfc3339_millis(worker.heartbeat_at),
            drain_request: worker.drain_request.map(DrainRequest::from),
        }
    }
}

impl From<domain::DrainRequest> for DrainRequest {
    fn from(request: domain::DrainRequest) -> Self {
        Self { by: request.by.id, reason: request.reason, at: rfc3339_millis(request.at) }
    }
}
