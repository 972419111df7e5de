//! The sender: delivers as ServiceNow does, many at once, and again what nobody took.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::RunKey;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::account::{Account, TENANT};
use crate::gateway::Reply;

use super::plan::sys_id;

/// How often one delivery is sent before the sender gives it up.
const SENDS_MAX: u32 = 12;

/// How long the sender waits before it sends again, where the reply does not say: longer each time.
const SEND_AFTER: Duration = Duration::from_millis(500);

/// What the sender was told.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    /// Deliveries that are over, one way or the other.
    pub(super) delivered: u32,
    /// Of those, taken as new.
    pub(super) accepted: u32,
    /// Of those, known before.
    pub(super) repeated: u32,
    /// Sent again, because nobody replied or the reply said so.
    pub(super) retried: u32,
    /// Given up, or answered with something else; by what was said last.
    pub(super) others: BTreeMap<String, u32>,
    /// The runs that each record was said to start.
    pub(super) runs: BTreeMap<u32, BTreeSet<RunKey>>,
}

/// Sends one delivery after the other.
pub(super) struct Sender {
    account: Arc<Account>,
    order: Vec<u32>,
    next: AtomicUsize,
    told: Mutex<Told>,
}

impl Sender {
    pub(super) fn new(account: Arc<Account>, order: Vec<u32>) -> Arc<Self> {
        Arc::new(Self { account, order, next: AtomicUsize::new(0), told: Mutex::default() })
    }

    /// What it was told so far.
    pub(super) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends all of it, `in_flight` at once. It stops when the result is dropped.
    pub(super) fn start(self: &Arc<Self>, in_flight: usize) -> JoinSet<()> {
        let mut hands = JoinSet::new();
        for _ in 0..in_flight {
            let sender = Arc::clone(self);
            hands.spawn(async move {
                while let Some(record) = sender.order.get(sender.next.fetch_add(1, Ordering::Relaxed)) {
                    sender.deliver(*record).await;
                }
            });
        }
        hands
    }

    async fn deliver(&self, record: u32) {
        let mut last = Cow::Borrowed("");
        for round in 1..=SENDS_MAX {
            let pause = match self.account.try_incident(&sys_id(record), 1, json!({ "priority": "4" })).await
            {
                Ok(reply) if is_final(reply.status) => return self.settle(record, &reply),
                Ok(reply) => {
                    last = reply.status.to_string().into();
                    reply.retry_after.unwrap_or(SEND_AFTER * round)
                }
                Err(error) => {
                    last = if error.is_timeout() { "no reply" } else { "no connection" }.into();
                    SEND_AFTER * round
                }
            };
            self.told().retried += 1;
            tokio::time::sleep(pause).await;
        }
        let mut told = self.told();
        told.delivered += 1;
        *told.others.entry(format!("given up: {last}")).or_default() += 1;
    }

    fn settle(&self, record: u32, reply: &Reply) {
        let run = run_named(&reply.body);
        let mut told = self.told();
        told.delivered += 1;
        // Both while it waits are 202.
        let new = reply.body.contains(r#""status":"accepted""#);
        match (reply.status, run) {
            (202, Some(run)) if new => {
                told.accepted += 1;
                told.runs.entry(record).or_default().insert(run);
            }
            (200 | 202, Some(run)) => {
                told.repeated += 1;
                told.runs.entry(record).or_default().insert(run);
            }
            (status, _) => *told.others.entry(status.to_string()).or_default() += 1,
        }
    }
}

/// Whether it makes no sense to send it again.
fn is_final(status: u16) -> bool {
    status != 429 && status < 500
}

fn run_named(reply: &str) -> Option<RunKey> {
    let reply: Value = serde_json::from_str(reply).ok()?;
    Some(RunKey { tenant: TENANT.parse().ok()?, run: reply["run"].as_str()?.parse().ok()? })
}
