//! The audit: counts the results in the table, the buckets, the queues and the external system.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use domain::{Digest, InboxStatus, Job, QueueName, RunKey, RunRecord, RunStatus};
use evidence::PublicKey;
use store::aws::{AwsStore, S3Blobs, SqsQueue};
use store::{Archive as _, Blobs as _, DeadLetter, Inbox as _, Ledger as _, Queue as _, RunQuery};
use tokio::task::JoinSet;

use crate::env::{DeployedEnv, TENANT};

use super::fleet::Warnings;
use super::report::{AuditReport, DeadLetterReport, EvidenceReport, QueueCounts};
use super::sender::SendResults;
use super::watcher::Progress;

/// The number of concurrent evidence checks.
const CONCURRENCY: usize = 8;

const PAGE: u32 = 100;

/// The number of dead-letter messages that are read.
const DEAD_MAX: u32 = 1_000;

type Store = Arc<AwsStore<SqsQueue, S3Blobs>>;

pub(super) struct Audit<'a> {
    pub(super) env: &'a DeployedEnv,
    pub(super) results: &'a SendResults,
    pub(super) warnings: &'a Warnings,
}

impl Audit<'_> {
    pub(super) async fn count(&self, on_progress: impl Fn(Progress)) -> AuditReport {
        let store = Arc::new(self.env.store().await);
        let runs = all_runs(&store).await;
        let announced: BTreeSet<&RunKey> = self.results.runs.values().flatten().collect();
        let found: BTreeSet<&RunKey> = runs.iter().map(|record| &record.key).collect();
        let mut statuses = BTreeMap::new();
        for record in &runs {
            *statuses.entry(record.status.to_string()).or_default() += 1;
        }
        let changes = self.env.external.servicenow.accepted();
        AuditReport {
            runs: count(runs.len()),
            succeeded: count(runs.iter().filter(|record| record.status == RunStatus::Succeeded).count()),
            statuses,
            taken_over: count(runs.iter().filter(|record| record.resumes > 0).count()),
            not_announced: count(found.difference(&announced).count()),
            not_found: count(announced.difference(&found).count()),
            records_changed: count(changes.len()),
            changes: changes.values().sum(),
            changes_of_one_max: changes.values().copied().max().unwrap_or_default(),
            evidence: self.evidence(&store, &runs, on_progress).await,
            dead: self.dead(&store).await,
            dead_letter_count: by_queue(async |queue| self.env.dead_letter_count(queue).await).await,
            left: by_queue(async |queue| store.depth(queue).await.unwrap()).await,
        }
    }

    /// Checks that the evidence of each run is recorded, is in the bucket, matches the recorded digest, and verifies offline.
    async fn evidence(
        &self,
        store: &Store,
        runs: &[RunRecord],
        on_progress: impl Fn(Progress),
    ) -> EvidenceReport {
        let key = self.env.key().public();
        let keys: Vec<RunKey> = runs.iter().map(|record| record.key.clone()).collect();
        let check = |run| {
            let store = Arc::clone(store);
            async move { check_evidence(&store, &run, &key).await }
        };
        let results = for_each_concurrent(keys, check, |verified| {
            on_progress(Progress::Verifying { verified, of: runs.len() });
        });
        let mut evidence = EvidenceReport::default();
        let mut positions = BTreeSet::new();
        for result in results.await {
            match result {
                Ok(place) => {
                    evidence.verified += 1;
                    positions.insert(place);
                }
                Err(why) => *evidence.missing.entry(why).or_default() += 1,
            }
        }
        evidence.log_positions = count(positions.len());
        evidence
    }

    async fn dead(&self, store: &Store) -> Vec<DeadLetterReport> {
        let mut dead = Vec::new();
        for letter in store.dead_letters(DEAD_MAX).await.unwrap() {
            let DeadLetter { message: Some((run, job)), queue, receives, .. } = letter else { continue };
            let done = is_done(store, &run, &job).await;
            let warnings = self.warnings.about(&run.to_string());
            let (queue, job, run) = (queue.to_string(), job.to_string(), run.to_string());
            dead.push(DeadLetterReport { queue, job, run, receives, done, warnings });
        }
        dead
    }
}

/// Checks the evidence of one run; returns its position in the log, or the fault.
async fn check_evidence(store: &Store, run: &RunKey, key: &PublicKey) -> Result<u64, String> {
    let recorded = store.evidence(run).await.map_err(|error| error.to_string())?;
    let recorded = recorded.ok_or("not recorded")?;
    let bytes = store.bundle(&run.tenant, &recorded.name).await;
    let bytes = bytes.map_err(|error| error.to_string())?.ok_or("not in the bucket")?;
    if Digest::of_bytes(&bytes) != recorded.bundle.sha256 {
        return Err("differs from the recorded digest".to_owned());
    }
    let verified = evidence::verify(&bytes, key).map_err(|fault| format!("not verified: {fault}"))?;
    match verified.bundle().receipts.len() {
        1 => Ok(recorded.index),
        others => Err(format!("has {others} receipts, expected 1")),
    }
}

/// Whether the job of a dead-letter message was done by other means.
async fn is_done(store: &Store, run: &RunKey, job: &Job) -> bool {
    match job {
        Job::Start => {
            store.entry(run).await.unwrap().is_some_and(|entry| entry.status != InboxStatus::Pending)
        }
        Job::Advance => store.load(run).await.unwrap().is_some_and(|record| record.status.is_terminal()),
        Job::BuildEvidence => store.evidence(run).await.unwrap().is_some(),
        // The workflow of the storm has no approvals.
        Job::NotifyApproval { .. } | Job::PageOnCall { .. } => false,
    }
}

async fn all_runs(store: &Store) -> Vec<RunRecord> {
    let (mut runs, mut before) = (Vec::new(), None);
    loop {
        let query = RunQuery { before, ..RunQuery::newest(PAGE) };
        let page = store.runs(&TENANT.parse().unwrap(), query).await.unwrap();
        runs.extend(page.runs);
        before = page.next;
        if before.is_none() {
            return runs;
        }
    }
}

async fn by_queue(count: impl AsyncFn(QueueName) -> u64) -> QueueCounts {
    QueueCounts {
        ingest: count(QueueName::Ingest).await,
        decisions: count(QueueName::Decisions).await,
        steps: count(QueueName::Steps).await,
    }
}

/// Runs `work` for each item, some concurrently, and reports the number of finished items.
async fn for_each_concurrent<T, R, F>(
    items: Vec<T>,
    work: impl Fn(T) -> F,
    on_progress: impl Fn(usize),
) -> Vec<R>
where
    R: Send + 'static,
    F: Future<Output = R> + Send + 'static,
{
    let mut running = JoinSet::new();
    let mut done = Vec::with_capacity(items.len());
    for item in items {
        if running.len() == CONCURRENCY {
            done.extend(running.join_next().await.map(Result::unwrap));
            on_progress(done.len());
        }
        running.spawn(work(item));
    }
    done.extend(running.join_all().await);
    done
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
