//! The meter: every request that would go to AWS, by what it is about, and which of them are waited for one
//! after another.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::Id;

/// Who is asked.
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

/// What requests of one kind have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) service: Service,
    pub(crate) operation: String,
    /// The items, the index or the queue.
    pub(crate) about: String,
}

/// How many there were, and what they took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    /// Those that were answered with an error. They are paid for as well.
    pub(crate) failed: u64,
    pub(crate) write_units: f64,
    pub(crate) read_units: f64,
}

/// What a request means to the walk that waits for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Meaning {
    /// It changes a run that is there.
    pub(crate) commits: bool,
    /// It ends a step.
    pub(crate) ends_step: bool,
}

/// Requests of one task, as it waits for them.
#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    /// How many are under way at once.
    depth: u32,
    trips: u64,
    /// How many there were since the last commit, once there was one.
    since_commit: Option<u64>,
    /// Whether a message was deleted at the end: then it was a worker's.
    deleted: bool,
}

/// Everything that was counted.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) tallies: BTreeMap<Kind, Tally>,
    tasks: HashMap<Id, Waiting>,
    /// Round trips of each step, from the commit that claimed it to the one that ended it.
    pub(crate) steps: Vec<u64>,
}

impl Book {
    /// How often this task waited.
    pub(crate) fn trips_of(&self, task: Id) -> u64 {
        self.tasks.get(&task).map_or(0, |waiting| waiting.trips)
    }

    /// How often walks waited, from the message's entry to its end.
    pub(crate) fn trips_of_walks(&self) -> u64 {
        let walks = self.tasks.values().filter(|task| task.deleted && task.since_commit.is_some());
        walks.map(|walk| walk.trips).sum()
    }

    fn waiting(&mut self) -> Option<&mut Waiting> {
        Some(self.tasks.entry(tokio::task::try_id()?).or_default())
    }
}

/// Counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    book: Arc<Mutex<Book>>,
}

impl Meter {
    /// A request is sent. Requests that a task waits for together are one round trip.
    pub(crate) fn sent(&self) {
        if let Some(waiting) = self.book().waiting() {
            waiting.depth += 1;
            if waiting.depth == 1 {
                waiting.trips += 1;
                waiting.since_commit = waiting.since_commit.map(|trips| trips + 1);
            }
        }
    }

    /// A request was answered.
    pub(crate) fn answered(&self, meaning: Meaning) {
        let mut book = self.book();
        let Some(waiting) = book.waiting() else { return };
        waiting.depth = waiting.depth.saturating_sub(1);
        if !meaning.commits {
            return;
        }
        let since_claim = waiting.since_commit.replace(0);
        if meaning.ends_step {
            book.steps.extend(since_claim);
        }
    }

    /// A message was deleted by whoever had it.
    pub(crate) fn deleted(&self) {
        if let Some(waiting) = self.book().waiting() {
            waiting.deleted = true;
        }
    }

    pub(crate) fn add(&self, kind: Kind, tally: Tally) {
        let mut book = self.book();
        let sum = book.tallies.entry(kind).or_default();
        sum.requests += tally.requests;
        sum.failed += tally.failed;
        sum.write_units += tally.write_units;
        sum.read_units += tally.read_units;
    }

    /// What was counted since the last time.
    pub(crate) fn take(&self) -> Book {
        std::mem::take(&mut *self.book())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: Meaning = Meaning { commits: true, ends_step: false };
    const LAST: Meaning = Meaning { commits: true, ends_step: true };

    #[tokio::test]
    async fn what_is_waited_for_together_is_one_round_trip() {
        let meter = Meter::default();
        let counting = meter.clone();
        let walk = tokio::spawn(async move {
            let ask = |meaning| {
                counting.sent();
                counting.answered(meaning);
            };
            ask(Meaning::default());
            ask(COMMIT);
            counting.sent();
            counting.sent();
            counting.answered(Meaning::default());
            counting.answered(Meaning::default());
            ask(LAST);
            counting.deleted();
        });
        let id = walk.id();
        walk.await.unwrap();
        let book = meter.take();
        assert_eq!(book.steps, [2]);
        assert_eq!((book.trips_of(id), book.trips_of_walks()), (4, 4));
    }
}
