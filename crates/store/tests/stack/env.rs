//! A test environment with a table, queues and buckets of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, HttpClient, Region, SharedCredentialsProvider};
use countersign_store::aws::{
    AwsParts, AwsStore, Buckets, QueueUrls, Retention, S3Blobs, SqsQueue, create_buckets, create_queues,
    create_table, dynamodb, s3, sqs,
};
use countersign_store::{Clock, SystemClock};
use domain::Timestamp;
use testkit::TestClock;

pub(crate) type Store = AwsStore<SqsQueue, S3Blobs>;

/// The variable with the endpoint of a local AWS emulator.
pub(crate) const ENDPOINT: &str = "COUNTERSIGN_AWS";

pub(crate) struct StackEnv {
    endpoint: String,
    table: String,
    pub(crate) queues: QueueUrls,
    pub(crate) buckets: Buckets,
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) s3: aws_sdk_s3::Client,
    config: SdkConfig,
}

impl StackEnv {
    pub(crate) async fn open(endpoint: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("countersign-{}-{}-{number}", std::process::id(), SystemClock.now().0);
        let config = config(endpoint, aws_smithy_http_client::Builder::new().build_http(), 3);
        let (sqs, s3) = (sqs(&config), s3(&config));
        let buckets = Buckets {
            payloads: format!("{name}-payloads"),
            evidence: format!("{name}-evidence"),
            retain: None,
        };
        create_table(&dynamodb(&config), &name).await.unwrap();
        let queues = create_queues(&sqs, &name).await.unwrap();
        create_buckets(&s3, &buckets).await.unwrap();
        Self { endpoint: endpoint.to_owned(), table: name, queues, buckets, sqs, s3, config }
    }

    pub(crate) fn store(&self) -> Store {
        self.store_with(self.queue())
    }

    /// The store with its queue over another connection.
    pub(crate) fn store_over(&self, connection: impl HttpClient + 'static) -> Store {
        self.store_with(self.queue_over(connection))
    }

    fn store_with(&self, queue: SqsQueue) -> Store {
        AwsStore::new(AwsParts {
            client: dynamodb(&self.config),
            table: self.table.clone(),
            queue,
            blobs: self.blobs(None),
            clock: Arc::new(SystemClock),
        })
    }

    pub(crate) fn queue(&self) -> SqsQueue {
        SqsQueue::new(self.sqs.clone(), self.queues.clone())
    }

    /// The queue over another connection, with one attempt per request.
    pub(crate) fn queue_over(&self, connection: impl HttpClient + 'static) -> SqsQueue {
        SqsQueue::new(sqs(&config(&self.endpoint, connection, 1)), self.queues.clone())
    }

    /// The blobs, with this retention of evidence.
    pub(crate) fn blobs(&self, retain: Option<Retention>) -> S3Blobs {
        S3Blobs::new(self.s3.clone(), Buckets { retain, ..self.buckets.clone() }, Arc::new(SystemClock))
    }

    /// The blobs over another connection, with one attempt per request.
    pub(crate) fn blobs_over(&self, connection: impl HttpClient + 'static) -> S3Blobs {
        self.blobs_at(SystemClock.now(), connection)
    }

    /// The same with a fixed clock.
    pub(crate) fn blobs_at(&self, now: Timestamp, connection: impl HttpClient + 'static) -> S3Blobs {
        let client = s3(&config(&self.endpoint, connection, 1));
        S3Blobs::new(client, self.buckets.clone(), Arc::new(TestClock::at(now)))
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The name of the table, which is the prefix of all resources.
    pub(crate) fn name(&self) -> &str {
        &self.table
    }
}

pub(crate) fn config(endpoint: &str, connection: impl HttpClient + 'static, tries: u32) -> SdkConfig {
    let credentials = Credentials::new("local", "local", None, None, "local");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(endpoint)
        .http_client(connection)
        .retry_config(RetryConfig::standard().with_max_attempts(tries))
        // An emulator on a busy machine is slower than AWS.
        .timeout_config(TimeoutConfig::builder().build())
        .build()
}
