//! The audit: what is left when it is over, counted in the table, in the buckets, in the queues and outside.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use domain::{Digest, InboxStatus, Job, QueueName, RunKey, RunRecord, RunStatus};
use evidence::PublicKey;
use store::aws::{AwsStore, S3Blobs, SqsQueue};
use store::{Archive as _, BlobKind, Blobs as _, DeadLetter, Inbox as _, Ledger as _, Queue as _, RunQuery};
use tokio::task::JoinSet;

use crate::account::{Account, TENANT};

use super::fleet::Warnings;
use super::report::{Counted, Dead, Evidence, Queues};
use super::sender::Told;
use super::watch::Progress;

/// How many things are looked at at once.
const AT_ONCE: usize = 8;

/// How many runs are listed in one go.
const PAGE: u32 = 100;

/// How many messages that were given up are looked at.
const DEAD_MAX: u32 = 1_000;

type Store = Arc<AwsStore<SqsQueue, S3Blobs>>;

pub(super) struct Audit<'a> {
    pub(super) account: &'a Account,
    pub(super) told: &'a Told,
    pub(super) warnings: &'a Warnings,
}

impl Audit<'_> {
    pub(super) async fn count(&self, tell: impl Fn(Progress)) -> Counted {
        let store = Arc::new(self.account.store().await);
        let runs = all_runs(&store).await;
        let promised: BTreeSet<&RunKey> = self.told.runs.values().flatten().collect();
        let found: BTreeSet<&RunKey> = runs.iter().map(|record| &record.key).collect();
        let mut statuses = BTreeMap::new();
        for record in &runs {
            *statuses.entry(record.status.to_string()).or_default() += 1;
        }
        let changes = self.account.outside.servicenow.accepted();
        Counted {
            runs: count(runs.len()),
            succeeded: count(runs.iter().filter(|record| record.status == RunStatus::Succeeded).count()),
            statuses,
            taken_over: count(runs.iter().filter(|record| record.resumes > 0).count()),
            not_promised: count(found.difference(&promised).count()),
            not_found: count(promised.difference(&found).count()),
            records_changed: count(changes.len()),
            changes: changes.values().sum(),
            changes_of_one_max: changes.values().copied().max().unwrap_or_default(),
            evidence: self.evidence(&store, &runs, tell).await,
            dead: self.dead(&store).await,
            given_up: by_lane(async |queue| self.account.given_up(queue).await).await,
            left: by_lane(async |queue| store.depth(queue).await.unwrap()).await,
        }
    }

    /// Evidence that is recorded, is in the bucket, is what was recorded, and is good without the account.
    async fn evidence(&self, store: &Store, runs: &[RunRecord], tell: impl Fn(Progress)) -> Evidence {
        let key = self.account.key().public();
        let keys: Vec<RunKey> = runs.iter().map(|record| record.key.clone()).collect();
        let look = |run| {
            let store = Arc::clone(store);
            async move { look(&store, &run, &key).await }
        };
        let looked = at_once(keys, look, |looked| tell(Progress::Counting { looked, of: runs.len() }));
        let mut evidence = Evidence::default();
        let mut places = BTreeSet::new();
        for looked in looked.await {
            match looked {
                Ok(place) => {
                    evidence.verified += 1;
                    places.insert(place);
                }
                Err(why) => *evidence.missing.entry(why).or_default() += 1,
            }
        }
        evidence.places_in_the_log = count(places.len());
        evidence
    }

    async fn dead(&self, store: &Store) -> Vec<Dead> {
        let mut dead = Vec::new();
        for letter in store.dead_letters(DEAD_MAX).await.unwrap() {
            let DeadLetter { run, queue, job, receives, .. } = letter;
            let done = is_done(store, &run, &job).await;
            let warnings = self.warnings.about(&run.to_string());
            let (queue, job, run) = (queue.to_string(), job.to_string(), run.to_string());
            dead.push(Dead { queue, job, run, receives, done, warnings });
        }
        dead
    }
}

/// The evidence of one run: its place in the log, or what is wrong with it.
async fn look(store: &Store, run: &RunKey, key: &PublicKey) -> Result<u64, String> {
    let recorded = store.evidence(run).await.map_err(|error| error.to_string())?;
    let recorded = recorded.ok_or("not recorded")?;
    let bytes = store.blob(BlobKind::Evidence, &run.tenant, &recorded.bundle).await;
    let bytes = bytes.map_err(|error| error.to_string())?.ok_or("not in the bucket")?;
    if Digest::of_bytes(&bytes) != recorded.bundle.sha256 {
        return Err("not what was recorded".to_owned());
    }
    let verified = evidence::verify(&bytes, key).map_err(|fault| format!("refused: {fault}"))?;
    match verified.bundle().receipts.len() {
        1 => Ok(recorded.index),
        others => Err(format!("tells of {others} effects")),
    }
}

/// Whether what the message asked for was done all the same.
async fn is_done(store: &Store, run: &RunKey, job: &Job) -> bool {
    match job {
        Job::Start => {
            store.entry(run).await.unwrap().is_some_and(|entry| entry.status != InboxStatus::Pending)
        }
        Job::Advance => store.load(run).await.unwrap().is_some_and(|record| record.status.is_terminal()),
        Job::BuildEvidence => store.evidence(run).await.unwrap().is_some(),
        // Nobody is asked anything here.
        Job::NotifyApproval(_) => false,
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

/// The counts of all queues.
async fn by_lane(count: impl AsyncFn(QueueName) -> u64) -> Queues {
    Queues {
        ingest: count(QueueName::Ingest).await,
        decisions: count(QueueName::Decisions).await,
        steps: count(QueueName::Steps).await,
    }
}

/// Does `work` with each, some at once, and tells of how many it is done.
async fn at_once<T, R, F>(items: Vec<T>, work: impl Fn(T) -> F, tell: impl Fn(usize)) -> Vec<R>
where
    R: Send + 'static,
    F: Future<Output = R> + Send + 'static,
{
    let mut under_way = JoinSet::new();
    let mut done = Vec::with_capacity(items.len());
    for item in items {
        if under_way.len() == AT_ONCE {
            done.extend(under_way.join_next().await.map(Result::unwrap));
            tell(done.len());
        }
        under_way.spawn(work(item));
    }
    done.extend(under_way.join_all().await);
    done
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
