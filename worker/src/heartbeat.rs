//! The worker's heartbeat: it writes its record in the registry, and reads whether it was asked to drain.
//!
//! The registry is advisory. A heartbeat that cannot be written is written the next time, and the worker continues.

use std::convert::Infallible;
use std::time::Duration;

use domain::{DrainRequest, Timestamp, WorkerId, WorkerRecord, WorkerReport};
use store::{Store, StoreError, Write};
use tokio::time::{sleep, timeout};

use crate::health::HealthStatus;
use crate::{CancellationToken, Worker};

/// How often a heartbeat is retried after a conflict. Only a drain request writes the same record, once.
const CONFLICTS_MAX: u32 = 3;

/// How long a stopping worker waits for its last heartbeat.
const LAST_HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);

/// The worker's own record, as last written or read.
pub(crate) struct Registration {
    me: WorkerId,
    /// When this process started. A record with another start time belongs to an earlier process of the same name.
    started_at: Timestamp,
    /// `None` if the worker does not register.
    every: Option<Duration>,
    record: Option<WorkerRecord>,
    /// Whether the store is known to have this record; not after a lost reply.
    is_current: bool,
}

impl Registration {
    pub(crate) fn new(me: WorkerId, started_at: Timestamp, every: Option<Duration>) -> Self {
        Self { me, started_at, every, record: None, is_current: true }
    }

    /// The next heartbeat. A drain request to an earlier process of the same name does not apply to this one.
    fn next_record(&self, report: WorkerReport, now: Timestamp) -> WorkerRecord {
        match &self.record {
            Some(record) if record.started_at == self.started_at => record.heartbeat(report, now),
            before => WorkerRecord {
                heartbeat_at: now,
                revision: before.as_ref().map_or(0, |before| before.revision.saturating_add(1)),
                ..WorkerRecord::new(self.me.clone(), report, self.started_at)
            },
        }
    }

    fn drain_request(&self) -> Option<&DrainRequest> {
        self.record.as_ref().filter(|record| record.started_at == self.started_at)?.drain_request.as_ref()
    }
}

impl<S: Store> Worker<S> {
    /// Sends heartbeats until dropped. A drain request shuts the worker down.
    pub(crate) async fn heartbeat_loop(&self, registration: &mut Registration) -> Infallible {
        let Some(every) = registration.every else { return std::future::pending().await };
        loop {
            if let Err(error) = self.write_heartbeat(registration, self.report()).await {
                tracing::warn!(event = "heartbeat_failed", %error, "heartbeat not written");
            }
            drain_if_requested(registration, &self.shutdown);
            sleep(every).await;
        }
    }

    pub(crate) async fn last_heartbeat(&self, registration: &mut Registration, drained: bool) {
        if registration.every.is_none() {
            return;
        }
        // If it is not written, the worker shows as offline before long.
        match timeout(
            LAST_HEARTBEAT_TIMEOUT,
            self.write_heartbeat(registration, WorkerReport::Stopped { drained }),
        )
        .await
        {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(event = "heartbeat_failed", %error, "last heartbeat not written");
            }
            Err(_) => tracing::warn!(event = "heartbeat_failed", "last heartbeat timed out"),
        }
    }

    fn report(&self) -> WorkerReport {
        let in_flight = self.health.in_flight();
        match self.health.status() {
            _ if self.shutdown.is_cancelled() => WorkerReport::Draining { in_flight },
            HealthStatus::Healthy => WorkerReport::Working { in_flight },
            HealthStatus::Degraded(reason) | HealthStatus::Unhealthy(reason) => {
                WorkerReport::Unhealthy { in_flight, reason }
            }
        }
    }

    async fn write_heartbeat(
        &self,
        registration: &mut Registration,
        report: WorkerReport,
    ) -> Result<(), StoreError> {
        let store = self.engine.store();
        for _ in 0..CONFLICTS_MAX {
            if !registration.is_current {
                registration.record = store.worker(&registration.me).await?;
            }
            let next = registration.next_record(report.clone(), self.engine.now());
            registration.is_current = false;
            // Superseded: a drain request was written.
            if store.put_worker(next.clone()).await? == Write::Committed {
                (registration.record, registration.is_current) = (Some(next), true);
                return Ok(());
            }
        }
        Err(StoreError::Busy { doing: "write a worker record" })
    }
}

/// Shuts the worker down if it was asked to drain.
fn drain_if_requested(registration: &Registration, shutdown: &CancellationToken) {
    if let Some(DrainRequest { by, reason, .. }) =
        registration.drain_request().filter(|_| !shutdown.is_cancelled())
    {
        tracing::warn!(
            event = "drain_started",
            by = by.id,
            reason,
            "asked to drain; steps in progress finish"
        );
        shutdown.cancel();
    }
}
