//! Counts every AWS request by kind, and the round trips that tasks wait for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::Id;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Service {
    DynamoDb,
    Sqs,
    S3,
}

impl Service {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DynamoDb => "DynamoDB",
            Self::Sqs => "SQS",
            Self::S3 => "S3",
        }
    }
}

/// A kind of request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) service: Service,
    pub(crate) operation: String,
    /// The items, the index or the queue.
    pub(crate) about: String,
}

/// The number of requests of a kind and the capacity they consumed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    /// Requests answered with an error. They are charged as well.
    pub(crate) failed: u64,
    pub(crate) write_units: f64,
    pub(crate) read_units: f64,
}

/// What a request does to a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WriteKind {
    /// It changes an existing run.
    pub(crate) commits: bool,
    /// It ends a step.
    pub(crate) ends_step: bool,
}

/// The round trips of one task.
#[derive(Debug, Clone, Copy, Default)]
struct TaskTrips {
    /// The number of concurrent requests.
    depth: u32,
    trips: u64,
    /// The number of round trips since the last commit, if there was one.
    since_commit: Option<u64>,
    /// Whether the task deleted a message; then it is a worker's task.
    deleted: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) tallies: BTreeMap<Kind, Tally>,
    tasks: HashMap<Id, TaskTrips>,
    /// Round trips of each step, from the commit that claims it to the commit that ends it.
    pub(crate) steps: Vec<u64>,
}

impl Counters {
    /// The round trips of this task.
    pub(crate) fn trips_of(&self, task: Id) -> u64 {
        self.tasks.get(&task).map_or(0, |task| task.trips)
    }

    /// The round trips of all tasks that advance a run, from receiving the message to deleting it.
    pub(crate) fn trips_of_advances(&self) -> u64 {
        let advances = self.tasks.values().filter(|task| task.deleted && task.since_commit.is_some());
        advances.map(|advance| advance.trips).sum()
    }

    fn task(&mut self) -> Option<&mut TaskTrips> {
        Some(self.tasks.entry(tokio::task::try_id()?).or_default())
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    counters: Arc<Mutex<Counters>>,
}

impl Meter {
    /// Records a sent request. Concurrent requests of a task are one round trip.
    pub(crate) fn sent(&self) {
        if let Some(task) = self.counters.lock().task() {
            task.depth += 1;
            if task.depth == 1 {
                task.trips += 1;
                task.since_commit = task.since_commit.map(|trips| trips + 1);
            }
        }
    }

    /// Records the answer to a request.
    pub(crate) fn record_response(&self, write_kind: WriteKind) {
        let mut counters = self.counters.lock();
        let Some(task) = counters.task() else { return };
        task.depth = task.depth.saturating_sub(1);
        if !write_kind.commits {
            return;
        }
        let since_claim = task.since_commit.replace(0);
        if write_kind.ends_step {
            counters.steps.extend(since_claim);
        }
    }

    /// Records that this task deleted a message.
    pub(crate) fn deleted(&self) {
        if let Some(task) = self.counters.lock().task() {
            task.deleted = true;
        }
    }

    pub(crate) fn add(&self, kind: Kind, tally: Tally) {
        let mut counters = self.counters.lock();
        let sum = counters.tallies.entry(kind).or_default();
        sum.requests += tally.requests;
        sum.failed += tally.failed;
        sum.write_units += tally.write_units;
        sum.read_units += tally.read_units;
    }

    /// Returns the counters and resets them.
    pub(crate) fn take(&self) -> Counters {
        std::mem::take(&mut *self.counters.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: WriteKind = WriteKind { commits: true, ends_step: false };
    const LAST: WriteKind = WriteKind { commits: true, ends_step: true };

    #[tokio::test]
    async fn concurrent_requests_are_one_round_trip() {
        let meter = Meter::default();
        let counting = meter.clone();
        let advance = tokio::spawn(async move {
            let request = |write_kind| {
                counting.sent();
                counting.record_response(write_kind);
            };
            request(WriteKind::default());
            request(COMMIT);
            counting.sent();
            counting.sent();
            counting.record_response(WriteKind::default());
            counting.record_response(WriteKind::default());
            request(LAST);
            counting.deleted();
        });
        let id = advance.id();
        advance.await.unwrap();
        let counters = meter.take();
        assert_eq!(counters.steps, [2]);
        assert_eq!((counters.trips_of(id), counters.trips_of_advances()), (4, 4));
    }
}
