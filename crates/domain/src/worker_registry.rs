//! The roll: which workers there are.
//!
//! A worker signs the roll when it comes, again and again while it is there, and when it leaves. Whoever wants it gone
//! writes so beside its name, and it reads that when it signs next. The roll decides nothing about runs: a worker that
//! cannot sign works all the same, and a name on it gives no right to a step. Only a lease does.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::failure::{MESSAGE_CHARS_MAX, bounded};
use crate::id::WorkerId;
use crate::initiator::Initiator;
use crate::time::{Millis, Timestamp};

/// How often a worker signs.
pub const HEARTBEAT_EVERY: Millis = Millis::secs(15);

/// A worker that has missed three signatures counts as gone.
pub const OFFLINE_AFTER: Millis = Millis::secs(45);

/// How long a worker that vanished is worth anybody's while.
pub const MISSED_FOR: Millis = Millis::hours(1);

/// How long a name stays on the roll after its last signature.
pub const KEPT_FOR: Millis = Millis::hours(24);

/// A worker on the roll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// Its name.
    pub worker: WorkerId,
    /// When it came, by its own clock.
    pub since: Timestamp,
    /// When it signed last, by its own clock.
    pub seen: Timestamp,
    /// What it said then.
    pub says: WorkerReport,
    /// Set once somebody has asked it to leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<DrainRequest>,
    /// Grows with every change.
    pub revision: u32,
}

/// What a worker says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerReport {
    /// It works on so many messages; it is idle if there is none.
    Working {
        /// How many.
        in_hand: u32,
    },
    /// It is there and does not work as it should.
    Unwell {
        /// How many messages it has in hand.
        in_hand: u32,
        /// What is wrong.
        why: String,
    },
    /// It begins nothing any more and finishes what it has in hand.
    Leaving {
        /// How many messages that is.
        in_hand: u32,
    },
    /// It is gone.
    Left {
        /// Whether it finished what it had in hand. What it did not finish is taken over.
        finished: bool,
    },
}

impl WorkerReport {
    /// How many messages it has in hand.
    pub fn in_hand(&self) -> u32 {
        match self {
            Self::Working { in_hand } | Self::Unwell { in_hand, .. } | Self::Leaving { in_hand } => *in_hand,
            Self::Left { .. } => 0,
        }
    }
}

/// Somebody has asked a worker to leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRequest {
    /// Who.
    pub by: Initiator,
    /// Why.
    pub reason: String,
    /// Since when.
    pub at: Timestamp,
}

impl DrainRequest {
    /// Asked at `at` by `by`, because of `reason`.
    pub fn new(by: Initiator, reason: &str, at: Timestamp) -> Self {
        Self { by, reason: bounded(reason, MESSAGE_CHARS_MAX), at }
    }
}

/// How a worker stands, as whoever looks at the roll sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerStatus {
    /// There, with nothing to do.
    Idle,
    /// There, and at work.
    Executing,
    /// There, and not working as it should.
    Errored,
    /// Asked to leave: it finishes what it has in hand, and begins nothing from its next signature on.
    Draining,
    /// Not heard of for a while. What it had in hand is taken over.
    Offline,
    /// Gone, as it said itself.
    Left,
}

impl WorkerStatus {
    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Executing => "executing",
            Self::Errored => "errored",
            Self::Draining => "draining",
            Self::Offline => "offline",
            Self::Left => "left",
        }
    }
}

impl fmt::Display for WorkerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl WorkerRecord {
    /// The first signature of `worker`.
    pub fn new(worker: WorkerId, says: WorkerReport, at: Timestamp) -> Self {
        Self { worker, since: at, seen: at, says, asked: None, revision: 0 }
    }

    /// The next signature.
    #[must_use]
    pub fn signs(&self, says: WorkerReport, at: Timestamp) -> Self {
        Self { says, seen: at, revision: self.revision.saturating_add(1), ..self.clone() }
    }

    /// The same with a wish that it leaves. Whoever wished that first is remembered.
    #[must_use]
    pub fn with_drain_request(&self, asked: DrainRequest) -> Self {
        let asked = self.asked.clone().or(Some(asked));
        Self { asked, revision: self.revision.saturating_add(1), ..self.clone() }
    }

    /// How it stands at `now`.
    pub fn standing(&self, now: Timestamp) -> WorkerStatus {
        match &self.says {
            WorkerReport::Left { .. } => WorkerStatus::Left,
            _ if now - self.seen > OFFLINE_AFTER => WorkerStatus::Offline,
            WorkerReport::Leaving { .. } => WorkerStatus::Draining,
            _ if self.asked.is_some() => WorkerStatus::Draining,
            WorkerReport::Unwell { .. } => WorkerStatus::Errored,
            WorkerReport::Working { in_hand: 0 } => WorkerStatus::Idle,
            WorkerReport::Working { .. } => WorkerStatus::Executing,
        }
    }

    /// Whether it is there at `now`, or should be: it has not said that it left, and was heard of within an hour.
    pub fn is_expected(&self, now: Timestamp) -> bool {
        self.standing(now) != WorkerStatus::Left && now - self.seen <= MISSED_FOR
    }

    /// When its name is taken off the roll, unless it signs again.
    pub fn kept_until(&self) -> Timestamp {
        self.seen + KEPT_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initiator::Cause;

    const CAME: Timestamp = Timestamp(1_000_000);

    fn says(says: WorkerReport) -> WorkerRecord {
        WorkerRecord::new(WorkerId::new("worker-1").unwrap(), says, CAME)
    }

    fn asked(by: &str) -> DrainRequest {
        DrainRequest::new(Initiator::new(Cause::User, by), "a new release", CAME)
    }

    #[test]
    fn a_worker_stands_as_it_says_until_nothing_is_heard_of_it() {
        let last = CAME + OFFLINE_AFTER;
        for (said, standing) in [
            (WorkerReport::Working { in_hand: 0 }, WorkerStatus::Idle),
            (WorkerReport::Working { in_hand: 3 }, WorkerStatus::Executing),
            (
                WorkerReport::Unwell { in_hand: 3, why: "the store does not answer".to_owned() },
                WorkerStatus::Errored,
            ),
            (WorkerReport::Leaving { in_hand: 3 }, WorkerStatus::Draining),
        ] {
            let worker = says(said);
            assert_eq!(worker.standing(last), standing);
            assert_eq!(worker.standing(last + Millis(1)), WorkerStatus::Offline);
            assert!(
                worker.is_expected(CAME + MISSED_FOR) && !worker.is_expected(CAME + MISSED_FOR + Millis(1))
            );
            let again = worker.signs(worker.says.clone(), last);
            assert_eq!(again.standing(last + OFFLINE_AFTER), standing, "it signed again");
            assert_eq!((again.since, again.revision), (CAME, 1));
        }
    }

    #[test]
    fn a_worker_that_left_is_not_one_that_vanished() {
        for finished in [true, false] {
            let left = says(WorkerReport::Left { finished });
            assert_eq!(left.standing(Timestamp(i64::MAX)), WorkerStatus::Left);
            assert!(!left.is_expected(CAME));
        }
    }

    #[test]
    fn a_worker_that_is_asked_to_leave_drains_and_remembers_who_said_so_first() {
        let leaving = says(WorkerReport::Working { in_hand: 0 }).with_drain_request(asked("ada"));
        assert_eq!(leaving.standing(CAME), WorkerStatus::Draining);
        let twice =
            leaving.with_drain_request(asked("grace")).signs(WorkerReport::Working { in_hand: 1 }, CAME);
        assert_eq!(twice.asked, Some(asked("ada")));
        assert_eq!(twice.revision, 3);
    }
}
