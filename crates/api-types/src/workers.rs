//! The workers of the fleet.

use domain::{Timestamp, WorkerRecord, WorkerReport};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use views::time::moment;

/// The workers that were heard of within a day, the one that came first first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workers {
    /// The workers.
    pub workers: Vec<Worker>,
}

/// A worker, as it last said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// Its name, as events have it.
    pub worker: String,
    /// How it stands: `idle`, `executing`, `errored`, `draining`, `offline` or `left`.
    pub standing: String,
    /// Whether it is there, or should be: it has not left, and was heard of within an hour.
    pub expected: bool,
    /// How many messages it has in hand, of all tenants.
    pub in_hand: u32,
    /// What is wrong with it, if it says that something is.
    pub why: Option<String>,
    /// Whether it finished all it had in hand; only of one that has left.
    pub finished: Option<bool>,
    /// When it came.
    pub since: String,
    /// When it was last heard of.
    pub seen: String,
    /// Who has asked it to leave, if anybody has.
    pub asked: Option<DrainRequest>,
}

/// Somebody has asked a worker to leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainRequest {
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub at: String,
}

impl Worker {
    /// A worker on the roll, as it is seen at `now`.
    pub fn seen_at(worker: WorkerRecord, now: Timestamp) -> Self {
        let (standing, expected) = (worker.standing(now).to_string(), worker.is_expected(now));
        let in_hand = worker.says.in_hand();
        let (why, finished) = match worker.says {
            WorkerReport::Unwell { why, .. } => (Some(why), None),
            WorkerReport::Left { finished } => (None, Some(finished)),
            WorkerReport::Working { .. } | WorkerReport::Leaving { .. } => (None, None),
        };
        Self {
            worker: worker.worker.to_string(),
            standing,
            expected,
            in_hand,
            why,
            finished,
            since: moment(worker.since),
            seen: moment(worker.seen),
            asked: worker.asked.map(DrainRequest::from),
        }
    }
}

impl From<domain::DrainRequest> for DrainRequest {
    fn from(asked: domain::DrainRequest) -> Self {
        Self { by: asked.by.id, reason: asked.reason, at: moment(asked.at) }
    }
}
