//! How we speak to AWS.

use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_s3::config::{RequestChecksumCalculation, ResponseChecksumValidation};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

use crate::clock::{Clock, SystemClock};
use crate::error::StoreError;

use super::local::{create_buckets, create_queues};
use super::s3::{Buckets, Retention, S3Blobs};
use super::sqs::{QueueUrls, SqsQueue};
use super::table::create as create_table;
use super::{AwsParts, AwsStore};

/// How long one try may take. DynamoDB answers in milliseconds; what takes this long was lost.
pub(super) const TRY_FOR: Duration = Duration::from_secs(2);

/// How long all tries of one request may take together: well inside a lease, so that a holder who waits for
/// an answer is still a holder when it comes.
const ASK_FOR: Duration = Duration::from_secs(6);

/// The same for S3, which takes and gives megabytes; nobody holds up a heartbeat for them.
const LARGE_TRY_FOR: Duration = Duration::from_secs(10);
const LARGE_ASK_FOR: Duration = Duration::from_secs(15);

/// How often a request is sent before its caller is told. The engine has patience of its own.
const TRIES_MAX: u32 = 3;

/// Where a store on AWS keeps things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsSettings {
    /// The table's name.
    pub table: String,
    /// The queues.
    pub queues: QueueUrls,
    /// The bucket of what is too large for a record.
    pub payloads: String,
    /// The bucket of evidence.
    pub evidence: String,
    /// For how long evidence is locked.
    pub retain: Option<Retention>,
}

impl AwsSettings {
    /// What a program of the fleet is told by its environment, in which `need` finds a variable. Evidence is locked by
    /// whoever puts it together, and only there.
    pub fn told<E>(need: impl Fn(&str) -> Result<String, E>) -> Result<Self, E> {
        Ok(Self {
            table: need("COUNTERSIGN_TABLE")?,
            queues: QueueUrls {
                ingest: need("COUNTERSIGN_QUEUE_INGEST")?,
                decisions: need("COUNTERSIGN_QUEUE_DECISIONS")?,
                steps: need("COUNTERSIGN_QUEUE_STEPS")?,
            },
            payloads: need("COUNTERSIGN_PAYLOADS")?,
            evidence: need("COUNTERSIGN_EVIDENCE")?,
            retain: None,
        })
    }
}

/// The store on AWS, as the environment says how to reach it. Table, queues and buckets must be there.
pub async fn open(settings: AwsSettings) -> AwsStore<SqsQueue, S3Blobs> {
    let config = configure(None).await;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let AwsSettings { table, queues, payloads, evidence, retain } = settings;
    let buckets = Buckets { payloads, evidence, retain };
    AwsStore::new(AwsParts {
        client: dynamodb(&config),
        table,
        queue: SqsQueue::new(sqs(&config), queues),
        blobs: S3Blobs::new(s3(&config), buckets, Arc::clone(&clock)),
        clock,
    })
}

/// The store on a stand-in at `aws` on this machine, with its table at `ledger`, if that is another. What it needs is
/// made there under `name`, unless it is there.
pub async fn open_stand_in(
    aws: &str,
    ledger: Option<&str>,
    name: &str,
) -> Result<AwsStore<SqsQueue, S3Blobs>, StoreError> {
    let (config, ledger) = (configure(Some(aws)).await, configure(Some(ledger.unwrap_or(aws))).await);
    let buckets =
        Buckets { payloads: format!("{name}-payloads"), evidence: format!("{name}-evidence"), retain: None };
    create_table(&dynamodb(&ledger), name).await?;
    create_buckets(&s3(&config), &buckets).await?;
    let queues = create_queues(&sqs(&config), name).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    Ok(AwsStore::new(AwsParts {
        client: dynamodb(&ledger),
        table: name.to_owned(),
        queue: SqsQueue::new(sqs(&config), queues),
        blobs: S3Blobs::new(s3(&config), buckets, Arc::clone(&clock)),
        clock,
    }))
}

/// What the environment says about region, credentials and endpoint, with our own ideas of patience.
/// `endpoint` is where a local stand-in listens, if the environment does not say.
pub async fn configure(endpoint: Option<&str>) -> SdkConfig {
    // The SDK's own client would bring a second crypto library.
    let https = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(https)
        .timeout_config(timeouts())
        .retry_config(retries());
    match endpoint {
        Some(endpoint) => loader.endpoint_url(endpoint).load().await,
        None => loader.load().await,
    }
}

/// How long we wait for an answer of DynamoDB and SQS.
pub fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder().operation_attempt_timeout(TRY_FOR).operation_timeout(ASK_FOR).build()
}

/// How often a request is sent before its caller is told.
pub fn retries() -> RetryConfig {
    RetryConfig::standard().with_max_attempts(TRIES_MAX)
}

/// Speaks to DynamoDB.
pub fn dynamodb(config: &SdkConfig) -> aws_sdk_dynamodb::Client {
    aws_sdk_dynamodb::Client::new(config)
}

/// Speaks to SQS.
pub fn sqs(config: &SdkConfig) -> aws_sdk_sqs::Client {
    aws_sdk_sqs::Client::new(config)
}

/// Speaks to S3.
pub fn s3(config: &SdkConfig) -> aws_sdk_s3::Client {
    let timeouts =
        TimeoutConfig::builder().operation_attempt_timeout(LARGE_TRY_FOR).operation_timeout(LARGE_ASK_FOR);
    let config = aws_sdk_s3::config::Builder::from(config)
        .timeout_config(timeouts.build())
        // A stand-in has no name for each bucket.
        .force_path_style(config.endpoint_url().is_some())
        // We send a digest of our own, and look at what comes back ourselves.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    aws_sdk_s3::Client::from_conf(config.build())
}
