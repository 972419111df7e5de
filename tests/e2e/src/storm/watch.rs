//! Watching: how far it has come, whether it is over, and who hangs if it does not go on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{QueueName, RunKey};
use store::aws::{AwsStore, S3Blobs, SqsQueue};
use store::{Archive as _, Inbox as _, Ledger as _, Queue as _};

use crate::account::Account;

use super::plan::Storm;
use super::sender::Sender;

/// How many runs are asked for their evidence between two looks.
const ASK_MAX: usize = 500;

/// How many of those that hang are named.
const NAMED_MAX: usize = 20;

/// What there is to tell while it lasts.
#[derive(Debug, Clone, Copy)]
pub enum Progress {
    /// It is under way.
    UnderWay(Seen),
    /// It is over, and the evidence of so many runs has been verified.
    Counting {
        /// So many.
        looked: usize,
        /// Of so many.
        of: usize,
    },
}

/// How far it has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Deliveries that were answered for good.
    pub delivered: u32,
    /// Records that were changed outside.
    pub changed: usize,
    /// Runs of which it is known that their evidence is recorded.
    pub sealed: usize,
    /// Messages in the queues of ingest, decisions and steps, visible or not.
    pub queued: [u64; 3],
}

pub(super) struct Watch {
    account: Arc<Account>,
    store: AwsStore<SqsQueue, S3Blobs>,
    sender: Arc<Sender>,
    deliveries: u32,
    distinct: usize,
    stalled_after: Duration,
    /// Runs without evidence, as far as anybody has looked; `None` until all are known.
    open: Option<VecDeque<RunKey>>,
    sealed: usize,
    all_delivered: Option<Instant>,
}

impl Watch {
    pub(super) async fn new(account: Arc<Account>, sender: Arc<Sender>, wanted: &Storm) -> Self {
        let store = account.store().await;
        let Storm { deliveries, stalled_after, .. } = *wanted;
        let distinct = usize::try_from(wanted.distinct()).unwrap_or(usize::MAX);
        let (open, all_delivered) = (None, None);
        Self { account, store, sender, deliveries, distinct, stalled_after, open, sealed: 0, all_delivered }
    }

    /// How long it took until all deliveries were answered.
    pub(super) fn delivered_after(&self, begun: Instant) -> u64 {
        self.all_delivered.map_or(0, |at| (at - begun).as_secs())
    }

    /// Watches until every run has its evidence and no message is left; or until nothing moves, and then says who
    /// hangs.
    pub(super) async fn until_over(
        &mut self,
        every: Duration,
        tell: impl Fn(Progress),
    ) -> Result<(), Vec<String>> {
        let (mut last, mut moved) = (Seen::default(), Instant::now());
        loop {
            tokio::time::sleep(every).await;
            let seen = self.look(last.queued).await;
            tell(Progress::UnderWay(seen));
            if self.is_over(&seen) {
                return Ok(());
            }
            if seen != last {
                (last, moved) = (seen, Instant::now());
            } else if moved.elapsed() > self.stalled_after {
                return Err(self.who_hangs().await);
            }
        }
    }

    fn is_over(&self, seen: &Seen) -> bool {
        self.open.as_ref().is_some_and(VecDeque::is_empty) && seen.queued == [0; 3]
    }

    async fn look(&mut self, queued_before: [u64; 3]) -> Seen {
        let delivered = self.sender.told().delivered;
        let changed = self.account.outside.servicenow.accepted().len();
        if delivered == self.deliveries && self.open.is_none() {
            self.all_delivered = Some(Instant::now());
            self.open = Some(self.sender.told().runs.values().flatten().cloned().collect());
        }
        // Nobody is sealed before its change is made: until most are, asking would only slow them down.
        if changed == self.distinct {
            self.ask_for_evidence().await;
        }
        Seen { delivered, changed, sealed: self.sealed, queued: self.queued(queued_before).await }
    }

    async fn ask_for_evidence(&mut self) {
        let Some(open) = &mut self.open else { return };
        for _ in 0..ASK_MAX.min(open.len()) {
            let Some(run) = open.pop_front() else { return };
            match self.store.evidence(&run).await {
                Ok(Some(_)) => self.sealed += 1,
                Ok(None) | Err(_) => open.push_back(run),
            }
        }
    }

    /// A queue that does not answer is as it was.
    async fn queued(&self, before: [u64; 3]) -> [u64; 3] {
        let mut queued = before;
        for (queue, count) in QueueName::ALL.into_iter().zip(&mut queued) {
            *count = self.store.depth(queue).await.unwrap_or(*count);
        }
        queued
    }

    /// Every run that has no evidence, and where it stands.
    async fn who_hangs(&self) -> Vec<String> {
        let runs: Vec<RunKey> = self.sender.told().runs.values().flatten().cloned().collect();
        let mut hanging = Vec::new();
        for run in runs {
            if !matches!(self.store.evidence(&run).await, Ok(Some(_))) {
                hanging.push(self.where_it_stands(&run).await);
            }
            if hanging.len() == NAMED_MAX {
                hanging.push("and perhaps more".to_owned());
                break;
            }
        }
        hanging
    }

    async fn where_it_stands(&self, run: &RunKey) -> String {
        match self.store.load(run).await {
            Ok(Some(record)) => {
                let (status, live) = (record.status, serde_json::to_string(&record.live).unwrap_or_default());
                format!("{run}: {status}, due at {:?}, {live}", record.due_at)
            }
            Ok(None) => match self.store.entry(run).await {
                Ok(entry) => format!("{run}: not begun, {:?}", entry.map(|entry| entry.status)),
                Err(error) => format!("{run}: not begun, {error}"),
            },
            Err(error) => format!("{run}: {error}"),
        }
    }
}
