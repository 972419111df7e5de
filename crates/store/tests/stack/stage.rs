//! An account for the cells of the matrix, reached over one line: its queues and buckets are emptied for each
//! cell, and its table is a new one.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::retry::RetryPartition;
use aws_sdk_sqs::types::QueueAttributeName::{
    self, ApproximateNumberOfMessagesDelayed, ApproximateNumberOfMessagesNotVisible,
};
use countersign_store::Handle;
use countersign_store::aws::{
    AwsParts, AwsStore, Buckets, QueueUrls, S3Blobs, SqsQueue, create_buckets, create_queues, create_table,
    dynamodb, retries, s3, sqs, timeouts,
};
use domain::{QueueName, Timestamp};

use crate::account::{At, Store, config};
use crate::faults::kept::{Still, items, sweep};
use crate::faults::line::Line;
use crate::faults::matrix::{Held, Stage};

/// What every cell of a call has.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) name: String,
    endpoint: String,
    queues: QueueUrls,
    buckets: Buckets,
}

/// What one cell has.
pub(crate) struct Cell {
    pub(crate) place: Place,
    pub(crate) store: Store,
    pub(crate) line: Line,
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) s3: aws_sdk_s3::Client,
    pub(crate) table: String,
    /// A message in our hands.
    pub(crate) held: Mutex<Option<Handle>>,
}

/// What nothing else in the account is called.
fn unique(what: &str) -> String {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    format!("{what}-{}-{}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed))
}

impl Place {
    pub(crate) async fn open(endpoint: &str) -> Self {
        let name = unique("matrix");
        let config = config(endpoint, Line::with([]), 3);
        let buckets = Buckets {
            payloads: format!("{name}-payloads"),
            evidence: format!("{name}-evidence"),
            retain: None,
        };
        create_buckets(&s3(&config), &buckets).await.unwrap();
        let queues = create_queues(&sqs(&config), &name).await.unwrap();
        Self { name, endpoint: endpoint.to_owned(), queues, buckets }
    }

    /// Where the messages of `queue` are.
    pub(crate) fn queue(&self, queue: QueueName) -> &str {
        match queue {
            QueueName::Ingest => &self.queues.ingest,
            QueueName::Decisions => &self.queues.decisions,
            QueueName::Steps => &self.queues.steps,
        }
    }

    /// Where those that were given up are.
    pub(crate) fn dead(&self) -> String {
        format!("{}-dead", self.queues.steps)
    }

    fn urls(&self) -> [String; 3] {
        [self.queue(QueueName::Decisions).to_owned(), self.queue(QueueName::Steps).to_owned(), self.dead()]
    }

    /// A cell with nothing in it, and the patience that the store has on AWS.
    pub(crate) async fn empty(&self) -> Cell {
        let cell = self.cell();
        create_table(&cell.dynamodb, &cell.table).await.unwrap();
        for url in self.urls() {
            cell.sqs.purge_queue().queue_url(url).send().await.unwrap();
        }
        for key in cell.objects(&self.buckets.payloads).await {
            cell.s3.delete_object().bucket(&self.buckets.payloads).key(key).send().await.unwrap();
        }
        cell
    }

    fn cell(&self) -> Cell {
        let (line, table) = (Line::with([]), unique("cell"));
        let config = config(&self.endpoint, line.clone(), 3).into_builder();
        let config = config.timeout_config(timeouts()).retry_config(retries()).build();
        // Whoever retries has a purse, which all clients of a process share; one cell must not empty it for
        // another.
        let purse = RetryPartition::new(table.clone());
        let dynamodb = dynamodb(&config).config().to_builder().retry_partition(purse.clone()).build();
        let sqs = sqs(&config).config().to_builder().retry_partition(purse.clone()).build();
        let s3 = s3(&config).config().to_builder().retry_partition(purse).build();
        let (dynamodb, sqs) =
            (aws_sdk_dynamodb::Client::from_conf(dynamodb), aws_sdk_sqs::Client::from_conf(sqs));
        let s3 = aws_sdk_s3::Client::from_conf(s3);
        let store = AwsStore::new(AwsParts {
            client: dynamodb.clone(),
            table: table.clone(),
            queue: SqsQueue::new(sqs.clone(), self.queues.clone()),
            blobs: S3Blobs::new(s3.clone(), self.buckets.clone(), Arc::new(Still)),
            clock: Arc::new(Still),
        });
        Cell { place: self.clone(), store, line, dynamodb, sqs, s3, table, held: Mutex::default() }
    }
}

impl Cell {
    /// Its blobs, for whoever has this time.
    pub(crate) fn blobs_at(&self, now: Timestamp) -> S3Blobs {
        S3Blobs::new(self.s3.clone(), self.place.buckets.clone(), Arc::new(At(now)))
    }

    async fn objects(&self, bucket: &str) -> Vec<String> {
        let listed = self.s3.list_objects_v2().bucket(bucket).send().await.unwrap();
        listed.contents().iter().filter_map(|object| object.key().map(str::to_owned)).collect()
    }

    /// Whether messages of a queue cannot be had: they are on their way, or in somebody's hands.
    async fn hidden(&self, url: &str, which: QueueAttributeName) -> bool {
        let ask = self.sqs.get_queue_attributes().queue_url(url).attribute_names(which);
        let counts = ask.send().await.unwrap().attributes.unwrap_or_default();
        counts.values().any(|count| count != "0")
    }

    /// What is in a queue, each once however often it was sent; if some of it is in somebody's hands, only that.
    async fn messages(&self, url: &str) -> BTreeSet<String> {
        let queue = url.rsplit('-').next().unwrap_or(url);
        // The queue's time is real, and this one's is not.
        while self.hidden(url, ApproximateNumberOfMessagesDelayed).await {
            std::thread::sleep(Duration::from_millis(100));
        }
        if self.hidden(url, ApproximateNumberOfMessagesNotVisible).await {
            return BTreeSet::from([format!("{queue}: some are in somebody's hands")]);
        }
        let receive = self.sqs.receive_message().queue_url(url).max_number_of_messages(10);
        let received = receive.visibility_timeout(60).send().await.unwrap();
        received.messages().iter().filter_map(|got| Some(format!("{queue}: {}", got.body()?))).collect()
    }
}

impl Stage for Cell {
    fn line(&self) -> &Line {
        &self.line
    }

    fn kept(&self) -> Held<'_, BTreeSet<String>> {
        Box::pin(async {
            self.line.set(None);
            let mut kept = sweep(&self.store).await;
            kept.extend(items(&self.dynamodb, &self.table).await);
            for url in self.place.urls() {
                kept.extend(self.messages(&url).await);
            }
            for bucket in [&self.place.buckets.payloads, &self.place.buckets.evidence] {
                kept.extend(self.objects(bucket).await);
            }
            kept
        })
    }
}
