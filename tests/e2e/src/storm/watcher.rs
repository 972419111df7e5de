//! Follows a storm: its progress, its end, and the stuck runs if it stalls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{QueueName, RunKey};
use store::aws::{AwsStore, S3Blobs, SqsQueue};
use store::{Archive as _, Inbox as _, Ledger as _, Queue as _};

use crate::env::DeployedEnv;

use super::plan::Storm;
use super::sender::Sender;

/// The number of evidence checks between two polls.
const EVIDENCE_CHECKS_MAX: usize = 500;

/// The number of stuck runs that are listed.
const NAMED_MAX: usize = 20;

#[derive(Debug, Clone, Copy)]
pub enum Progress {
    /// The storm is running.
    Running(ProgressCounts),
    /// The storm is over; the audit has verified the evidence of some runs.
    Verifying { verified: usize, of: usize },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgressCounts {
    /// Deliveries with a final reply.
    pub delivered: u32,
    /// External records that were changed.
    pub changed: usize,
    /// Runs whose evidence is known to be recorded.
    pub sealed: usize,
    /// Messages in the ingest, decisions and steps queues, visible or not.
    pub queued: [u64; 3],
}

pub(super) struct Watcher {
    env: Arc<DeployedEnv>,
    store: AwsStore<SqsQueue, S3Blobs>,
    sender: Arc<Sender>,
    deliveries: u32,
    distinct: usize,
    stalled_after: Duration,
    /// Runs whose evidence has not been found yet; `None` until all runs are known.
    open: Option<VecDeque<RunKey>>,
    sealed: usize,
    all_delivered: Option<Instant>,
}

impl Watcher {
    pub(super) async fn new(env: Arc<DeployedEnv>, sender: Arc<Sender>, wanted: &Storm) -> Self {
        let store = env.store().await;
        let Storm { deliveries, stalled_after, .. } = *wanted;
        let distinct = usize::try_from(wanted.distinct()).unwrap_or(usize::MAX);
        let (open, all_delivered) = (None, None);
        Self { env, store, sender, deliveries, distinct, stalled_after, open, sealed: 0, all_delivered }
    }

    /// The seconds until all deliveries had a final reply.
    pub(super) fn delivered_after(&self, started: Instant) -> u64 {
        self.all_delivered.map_or(0, |at| (at - started).as_secs())
    }

    /// Returns when every run has its evidence and all queues are empty. Fails with the stuck runs if there is no progress.
    pub(super) async fn run_until_done(
        &mut self,
        every: Duration,
        on_progress: impl Fn(Progress),
    ) -> Result<(), Vec<String>> {
        let (mut last, mut moved) = (ProgressCounts::default(), Instant::now());
        loop {
            tokio::time::sleep(every).await;
            let counts = self.poll(last.queued).await;
            on_progress(Progress::Running(counts));
            if self.is_done_watching(&counts) {
                return Ok(());
            }
            if counts != last {
                (last, moved) = (counts, Instant::now());
            } else if moved.elapsed() > self.stalled_after {
                return Err(self.stuck_runs().await);
            }
        }
    }

    fn is_done_watching(&self, counts: &ProgressCounts) -> bool {
        self.open.as_ref().is_some_and(VecDeque::is_empty) && counts.queued == [0; 3]
    }

    async fn poll(&mut self, queued_before: [u64; 3]) -> ProgressCounts {
        let delivered = self.sender.results().delivered;
        let changed = self.env.external.servicenow.accepted().len();
        if delivered == self.deliveries && self.open.is_none() {
            self.all_delivered = Some(Instant::now());
            self.open = Some(self.sender.results().runs.values().flatten().cloned().collect());
        }
        // Evidence comes after the change. Checking earlier would only slow the runs down.
        if changed == self.distinct {
            self.check_evidence().await;
        }
        ProgressCounts { delivered, changed, sealed: self.sealed, queued: self.queued(queued_before).await }
    }

    async fn check_evidence(&mut self) {
        let Some(open) = &mut self.open else { return };
        for _ in 0..EVIDENCE_CHECKS_MAX.min(open.len()) {
            let Some(run) = open.pop_front() else { return };
            match self.store.evidence(&run).await {
                Ok(Some(_)) => self.sealed += 1,
                Ok(None) | Err(_) => open.push_back(run),
            }
        }
    }

    /// The depth of each queue; the previous value if the queue does not answer.
    async fn queued(&self, before: [u64; 3]) -> [u64; 3] {
        let mut queued = before;
        for (queue, count) in QueueName::ALL.into_iter().zip(&mut queued) {
            *count = self.store.depth(queue).await.unwrap_or(*count);
        }
        queued
    }

    /// The runs without evidence, with their status.
    async fn stuck_runs(&self) -> Vec<String> {
        let runs: Vec<RunKey> = self.sender.results().runs.values().flatten().cloned().collect();
        let mut stuck = Vec::new();
        for run in runs {
            if !matches!(self.store.evidence(&run).await, Ok(Some(_))) {
                stuck.push(self.describe(&run).await);
            }
            if stuck.len() == NAMED_MAX {
                stuck.push("more runs may be stuck".to_owned());
                break;
            }
        }
        stuck
    }

    async fn describe(&self, run: &RunKey) -> String {
        match self.store.load(run).await {
            Ok(Some(record)) => {
                let (status, step_state) =
                    (record.status, serde_json::to_string(&record.step_state).unwrap_or_default());
                format!("{run}: {status}, due at {:?}, {step_state}", record.due_at)
            }
            Ok(None) => match self.store.entry(run).await {
                Ok(entry) => format!("{run}: not started, {:?}", entry.map(|entry| entry.status)),
                Err(error) => format!("{run}: not started, {error}"),
            },
            Err(error) => format!("{run}: {error}"),
        }
    }
}
