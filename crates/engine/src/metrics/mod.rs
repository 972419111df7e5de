//! Metrics about runs.
//!
//! Each process counts what it committed itself. Without a recorder the calls cost next to nothing. Tenants are a
//! label; runs, workflows and users are not, because each value makes a time series of its own.

#[cfg(feature = "exporter")]
pub mod exporter;

use std::time::Duration;

use domain::{QueueName, RunStatus, Source, TenantId};
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

/// Status changes of runs. A new run comes from the empty status.
pub const RUN_TRANSITIONS: &str = "countersign_run_transitions_total";

pub const RUN_DURATION: &str = "countersign_run_duration_seconds";

/// Messages about runs that a worker is processing.
pub const MESSAGES_IN_PROGRESS: &str = "countersign_messages_in_progress";

/// Duplicate requests.
pub const IDEMPOTENCY_HITS: &str = "countersign_idempotency_hits_total";

/// Stored events, by whether they started a run.
pub const ENTRIES_PROCESSED: &str = "countersign_inbox_entries_processed_total";

/// Webhooks and Slack requests that were refused.
pub const DELIVERIES_REFUSED: &str = "countersign_deliveries_refused_total";

/// Ended runs whose evidence was not signed, because their stored data is invalid.
pub const EVIDENCE_REFUSED: &str = "countersign_evidence_refused_total";

/// Histogram bounds in seconds: a run without approval takes seconds, one with approval minutes or hours, an expired
/// one a day, and one that waits for a change window a week.
pub const DURATION_BOUNDS: [f64; 12] =
    [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0];

/// Registers the descriptions. Call it once, before anything is counted.
pub fn describe() {
    describe_counter!(RUN_TRANSITIONS, "Status changes of runs that this process committed");
    describe_histogram!(RUN_DURATION, Unit::Seconds, "Time from the start of a run to its end");
    describe_gauge!(MESSAGES_IN_PROGRESS, "Messages that this process is processing, by queue");
    // An idle process reports zero instead of nothing.
    for queue in QueueName::ALL {
        gauge!(MESSAGES_IN_PROGRESS, "queue" => queue.as_str()).set(0);
    }
    describe_counter!(IDEMPOTENCY_HITS, "Duplicate requests, answered with the first request's outcome");
    describe_counter!(ENTRIES_PROCESSED, "Stored events that this process handled, by outcome");
    describe_counter!(DELIVERIES_REFUSED, "Webhooks and Slack requests that were refused, by reason");
    describe_counter!(
        EVIDENCE_REFUSED,
        "Attempts to build evidence from altered or inconsistent data, by reason"
    );
}

pub(crate) fn run_created(tenant: &TenantId) {
    transition(tenant, "", RunStatus::Queued);
}

pub(crate) fn status_changed(tenant: &TenantId, from: RunStatus, to: RunStatus) {
    transition(tenant, from.as_str(), to);
}

fn transition(tenant: &TenantId, from: &'static str, to: RunStatus) {
    let tenant = tenant.to_string();
    counter!(RUN_TRANSITIONS, "tenant" => tenant, "from" => from, "to" => to.as_str()).increment(1);
}

pub(crate) fn run_ended(tenant: &TenantId, status: RunStatus, duration: Duration) {
    histogram!(RUN_DURATION, "tenant" => tenant.to_string(), "status" => status.as_str()).record(duration);
}

pub(crate) fn duplicate_request(tenant: &TenantId, source: &str) {
    counter!(IDEMPOTENCY_HITS, "tenant" => tenant.to_string(), "source" => source.to_owned()).increment(1);
}

pub(crate) fn entry_processed(tenant: &TenantId, source: Source, outcome: &'static str) {
    let (tenant, source) = (tenant.to_string(), source.as_str());
    counter!(ENTRIES_PROCESSED, "tenant" => tenant, "source" => source, "outcome" => outcome).increment(1);
}

/// A delivery through `source` was refused. The tenant is empty if the delivery names none that is configured.
pub fn delivery_refused(tenant: Option<&TenantId>, source: &'static str, reason: &'static str) {
    let tenant = tenant.map(TenantId::to_string).unwrap_or_default();
    counter!(DELIVERIES_REFUSED, "tenant" => tenant, "source" => source, "reason" => reason).increment(1);
}

pub(crate) fn evidence_refused(tenant: &TenantId, reason: &'static str) {
    counter!(EVIDENCE_REFUSED, "tenant" => tenant.to_string(), "reason" => reason).increment(1);
}

pub fn message_started(queue: QueueName) {
    gauge!(MESSAGES_IN_PROGRESS, "queue" => queue.as_str()).increment(1);
}

pub fn message_finished(queue: QueueName) {
    gauge!(MESSAGES_IN_PROGRESS, "queue" => queue.as_str()).decrement(1);
}
