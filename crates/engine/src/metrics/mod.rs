//! What is counted of runs, for those who watch many of them in numbers.
//!
//! Each process counts what it did itself. It costs next to nothing where nobody has asked to keep it, which is what the
//! process that the engine runs in decides. Tenants are told apart; runs, workflows and people are not, because every name
//! makes a series of its own.

#[cfg(feature = "exporter")]
pub mod exporter;

use std::time::Duration;

use domain::{QueueName, RunStatus, TenantId};
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

/// How often runs moved from one status to another. A run that begins comes from none.
pub const RUN_TRANSITIONS: &str = "run_transitions_total";

/// How long runs took that are over.
pub const RUN_DURATION: &str = "run_duration_seconds";

/// How many messages about runs a worker has in hand: it works on as many runs, or on one of them twice.
pub const RUN_ACTIVE: &str = "run_active";

/// How many requests had come before.
pub const IDEMPOTENCY_HITS: &str = "idempotency_hits_total";

/// What durations are sorted by, in seconds: a run that waits for nobody takes a moment, one that asks a person minutes or
/// hours, one that is given up a day, and one that waits for a change window a week.
pub const DURATION_BOUNDS: [f64; 12] =
    [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0];

/// Says what each of them means, for whoever reads them. To be called once, before anything is counted.
pub fn describe() {
    describe_counter!(
        RUN_TRANSITIONS,
        "Moves of runs from one status to another that this process committed"
    );
    describe_histogram!(RUN_DURATION, Unit::Seconds, "From the beginning of a run to its end");
    describe_gauge!(RUN_ACTIVE, "Messages about runs that this process works on right now, by their queue");
    // Whoever has done nothing yet says so.
    for queue in QueueName::ALL {
        gauge!(RUN_ACTIVE, "queue" => queue.as_str()).set(0);
    }
    describe_counter!(
        IDEMPOTENCY_HITS,
        "Requests that had come before and were answered with the first's outcome"
    );
}

/// A run was begun.
pub(crate) fn began(tenant: &TenantId) {
    transition(tenant, "", RunStatus::Queued);
}

/// A run moved.
pub(crate) fn moved(tenant: &TenantId, from: RunStatus, to: RunStatus) {
    transition(tenant, from.as_str(), to);
}

fn transition(tenant: &TenantId, from: &'static str, to: RunStatus) {
    let tenant = tenant.to_string();
    counter!(RUN_TRANSITIONS, "tenant" => tenant, "from" => from, "to" => to.as_str()).increment(1);
}

/// A run is over.
pub(crate) fn ended(tenant: &TenantId, status: RunStatus, took: Duration) {
    histogram!(RUN_DURATION, "tenant" => tenant.to_string(), "status" => status.as_str()).record(took);
}

/// A request by way of `source` had come before.
pub(crate) fn known(tenant: &TenantId, source: &str) {
    counter!(IDEMPOTENCY_HITS, "tenant" => tenant.to_string(), "source" => source.to_owned()).increment(1);
}

/// A worker has a message of `queue` in hand.
pub fn taken_up(queue: QueueName) {
    gauge!(RUN_ACTIVE, "queue" => queue.as_str()).increment(1);
}

/// It has dealt with it.
pub fn put_down(queue: QueueName) {
    gauge!(RUN_ACTIVE, "queue" => queue.as_str()).decrement(1);
}
