//! The sender: delivers as ServiceNow does, many deliveries at once, and retries failed ones.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::RunKey;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::env::{DeployedEnv, TENANT};
use crate::gateway::Reply;

use super::plan::sys_id;

/// The number of attempts for one delivery.
const SENDS_MAX: u32 = 12;

/// The delay before a retry without `Retry-After`, multiplied by the number of the attempt.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// The replies that the sender received.
#[derive(Debug, Clone, Default)]
pub(super) struct SendResults {
    /// Deliveries with a final reply, or abandoned.
    pub(super) delivered: u32,
    /// Of those, accepted as new.
    pub(super) accepted: u32,
    /// Of those, recognized as duplicates.
    pub(super) repeated: u32,
    /// Retries after no reply or a retryable one.
    pub(super) retried: u32,
    /// Abandoned deliveries and other replies, by the last reply.
    pub(super) others: BTreeMap<String, u32>,
    /// The runs that replies named, by record.
    pub(super) runs: BTreeMap<u32, BTreeSet<RunKey>>,
}

pub(super) struct Sender {
    env: Arc<DeployedEnv>,
    order: Vec<u32>,
    next: AtomicUsize,
    results: Mutex<SendResults>,
}

impl Sender {
    pub(super) fn new(env: Arc<DeployedEnv>, order: Vec<u32>) -> Arc<Self> {
        Arc::new(Self { env, order, next: AtomicUsize::new(0), results: Mutex::default() })
    }

    pub(super) fn results(&self) -> MutexGuard<'_, SendResults> {
        self.results.lock()
    }

    /// Sends all deliveries, `in_flight` at a time. Dropping the result stops it.
    pub(super) fn start(self: &Arc<Self>, in_flight: usize) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for _ in 0..in_flight {
            let sender = Arc::clone(self);
            tasks.spawn(async move {
                while let Some(record) = sender.order.get(sender.next.fetch_add(1, Ordering::Relaxed)) {
                    sender.deliver(*record).await;
                }
            });
        }
        tasks
    }

    async fn deliver(&self, record: u32) {
        let mut last = Cow::Borrowed("");
        for round in 1..=SENDS_MAX {
            let pause = match self.env.try_incident(&sys_id(record), 1, json!({ "priority": "4" })).await {
                Ok(reply) if is_final(reply.status) => return self.record_reply(record, &reply),
                Ok(reply) => {
                    last = reply.status.to_string().into();
                    reply.retry_after.unwrap_or(RETRY_DELAY * round)
                }
                Err(error) => {
                    last = if error.is_timeout() { "no reply" } else { "no connection" }.into();
                    RETRY_DELAY * round
                }
            };
            self.results().retried += 1;
            tokio::time::sleep(pause).await;
        }
        let mut results = self.results();
        results.delivered += 1;
        *results.others.entry(format!("abandoned: {last}")).or_default() += 1;
    }

    fn record_reply(&self, record: u32, reply: &Reply) {
        let run = run_named(&reply.body);
        let mut results = self.results();
        results.delivered += 1;
        // A duplicate also gets 202 while its entry is pending.
        let new = reply.body.contains(r#""status":"accepted""#);
        match (reply.status, run) {
            (202, Some(run)) if new => {
                results.accepted += 1;
                results.runs.entry(record).or_default().insert(run);
            }
            (200 | 202, Some(run)) => {
                results.repeated += 1;
                results.runs.entry(record).or_default().insert(run);
            }
            (status, _) => *results.others.entry(status.to_string()).or_default() += 1,
        }
    }
}

/// Whether a retry is pointless.
fn is_final(status: u16) -> bool {
    status != 429 && status < 500
}

fn run_named(reply: &str) -> Option<RunKey> {
    let reply: Value = serde_json::from_str(reply).ok()?;
    Some(RunKey { tenant: TENANT.parse().ok()?, run: reply["run"].as_str()?.parse().ok()? })
}
