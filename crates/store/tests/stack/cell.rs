//! The environment of the matrix cells: queues and buckets are emptied for each cell, and each cell has a new
//! table.

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
use testkit::TestClock;

use crate::env::{Store, config};
use crate::faults::connection::FaultyConnection;
use crate::faults::content::{items, sweep};
use crate::faults::fixture::noon;
use crate::faults::matrix::{BoxFuture, MatrixEnv};

/// The queues and buckets that the cells of a call share.
#[derive(Clone)]
pub(crate) struct Resources {
    pub(crate) name: String,
    endpoint: String,
    queues: QueueUrls,
    buckets: Buckets,
}

pub(crate) struct Cell {
    pub(crate) resources: Resources,
    pub(crate) store: Store,
    pub(crate) connection: FaultyConnection,
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) s3: aws_sdk_s3::Client,
    pub(crate) table: String,
    /// The handle of a received message.
    pub(crate) handle: Mutex<Option<Handle>>,
}

/// A unique resource name.
fn unique(prefix: &str) -> String {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}-{}-{}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed))
}

impl Resources {
    pub(crate) async fn open(endpoint: &str) -> Self {
        let name = unique("matrix");
        let config = config(endpoint, FaultyConnection::with([]), 3);
        let buckets = Buckets {
            payloads: format!("{name}-payloads"),
            evidence: format!("{name}-evidence"),
            retain: None,
        };
        create_buckets(&s3(&config), &buckets).await.unwrap();
        let queues = create_queues(&sqs(&config), &name).await.unwrap();
        Self { name, endpoint: endpoint.to_owned(), queues, buckets }
    }

    pub(crate) fn queue(&self, queue: QueueName) -> &str {
        match queue {
            QueueName::Ingest => &self.queues.ingest,
            QueueName::Decisions => &self.queues.decisions,
            QueueName::Steps => &self.queues.steps,
        }
    }

    /// The dead-letter queue of `steps`.
    pub(crate) fn dead(&self) -> String {
        format!("{}-dead", self.queues.steps)
    }

    fn urls(&self) -> [String; 3] {
        [self.queue(QueueName::Decisions).to_owned(), self.queue(QueueName::Steps).to_owned(), self.dead()]
    }

    /// An empty cell, with the timeouts and retries that the store has on AWS.
    pub(crate) async fn empty_cell(&self) -> Cell {
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
        let (connection, table) = (FaultyConnection::with([]), unique("cell"));
        let config = config(&self.endpoint, connection.clone(), 3).into_builder();
        let config = config.timeout_config(timeouts()).retry_config(retries()).build();
        // Clients of one retry partition share a retry token bucket; a cell must not empty it for another.
        let partition = RetryPartition::new(table.clone());
        let dynamodb = dynamodb(&config).config().to_builder().retry_partition(partition.clone()).build();
        let sqs = sqs(&config).config().to_builder().retry_partition(partition.clone()).build();
        let s3 = s3(&config).config().to_builder().retry_partition(partition).build();
        let (dynamodb, sqs) =
            (aws_sdk_dynamodb::Client::from_conf(dynamodb), aws_sdk_sqs::Client::from_conf(sqs));
        let s3 = aws_sdk_s3::Client::from_conf(s3);
        let store = AwsStore::new(AwsParts {
            client: dynamodb.clone(),
            table: table.clone(),
            queue: SqsQueue::new(sqs.clone(), self.queues.clone()),
            blobs: S3Blobs::new(s3.clone(), self.buckets.clone(), Arc::new(noon())),
            clock: Arc::new(noon()),
        });
        Cell {
            resources: self.clone(),
            store,
            connection,
            dynamodb,
            sqs,
            s3,
            table,
            handle: Mutex::default(),
        }
    }
}

impl Cell {
    /// The blobs of the cell, with this clock.
    pub(crate) fn blobs_at(&self, now: Timestamp) -> S3Blobs {
        S3Blobs::new(self.s3.clone(), self.resources.buckets.clone(), Arc::new(TestClock::at(now)))
    }

    async fn objects(&self, bucket: &str) -> Vec<String> {
        let listed = self.s3.list_objects_v2().bucket(bucket).send().await.unwrap();
        listed.contents().iter().filter_map(|object| object.key().map(str::to_owned)).collect()
    }

    /// Whether messages of a queue are delayed or in flight.
    async fn hidden(&self, url: &str, which: QueueAttributeName) -> bool {
        let request = self.sqs.get_queue_attributes().queue_url(url).attribute_names(which);
        let counts = request.send().await.unwrap().attributes.unwrap_or_default();
        counts.values().any(|count| count != "0")
    }

    /// The distinct messages of a queue; a placeholder if some are in flight.
    async fn messages(&self, url: &str) -> BTreeSet<String> {
        let queue = url.rsplit('-').next().unwrap_or(url);
        // The time of the queue is real, and the time of the test is virtual.
        while self.hidden(url, ApproximateNumberOfMessagesDelayed).await {
            std::thread::sleep(Duration::from_millis(100));
        }
        if self.hidden(url, ApproximateNumberOfMessagesNotVisible).await {
            return BTreeSet::from([format!("{queue}: messages in flight")]);
        }
        let receive = self.sqs.receive_message().queue_url(url).max_number_of_messages(10);
        let received = receive.visibility_timeout(60).send().await.unwrap();
        received.messages().iter().filter_map(|got| Some(format!("{queue}: {}", got.body()?))).collect()
    }
}

impl MatrixEnv for Cell {
    fn connection(&self) -> &FaultyConnection {
        &self.connection
    }

    fn stored(&self) -> BoxFuture<'_, BTreeSet<String>> {
        Box::pin(async {
            self.connection.set(None);
            let mut stored = sweep(&self.store, &self.dynamodb, &self.table).await;
            stored.extend(items(&self.dynamodb, &self.table).await);
            for url in self.resources.urls() {
                stored.extend(self.messages(&url).await);
            }
            for bucket in [&self.resources.buckets.payloads, &self.resources.buckets.evidence] {
                stored.extend(self.objects(bucket).await);
            }
            stored
        })
    }
}
