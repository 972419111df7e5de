//! AWS clients and their configuration.

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

/// The timeout of one attempt. DynamoDB responds in milliseconds; a request that takes this long is lost.
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// The timeout of all attempts of one request. It is well below the lease time, so that a worker that waits for a
/// response still holds its lease.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(6);

/// The same for S3, which transfers megabytes. No heartbeat waits for S3.
const LARGE_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const LARGE_OPERATION_TIMEOUT: Duration = Duration::from_secs(15);

/// The number of attempts of one request. The engine retries on top of this.
const ATTEMPTS_MAX: u32 = 3;

/// The resources of a store on AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsSettings {
    /// The name of the DynamoDB table.
    pub table: String,
    /// The URLs of the SQS queues.
    pub queues: QueueUrls,
    /// The bucket of payloads and large bodies.
    pub payloads: String,
    pub evidence: String,
    /// The Object Lock retention of evidence.
    pub retain: Option<Retention>,
}

impl AwsSettings {
    /// Reads the settings from environment variables; `need` looks up a variable. `retain` is unset: only the
    /// worker builds evidence, and it sets the retention itself.
    pub fn from_env<E>(need: impl Fn(&str) -> Result<String, E>) -> Result<Self, E> {
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

/// Opens the store with the region, credentials and endpoint of the environment. Table, queues and buckets must
/// exist.
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

/// Opens the store on a local AWS emulator at `aws`, with the DynamoDB table at `ledger` if that is another
/// endpoint. Creates the table, queues and buckets under `name` if they do not exist.
pub async fn open_local(
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

/// The SDK configuration: region, credentials and endpoint from the environment, and the timeouts of this module.
/// `endpoint` is the URL of a local emulator.
pub async fn configure(endpoint: Option<&str>) -> SdkConfig {
    // The default HTTPS client of the SDK would add a second crypto library.
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

/// The timeouts for DynamoDB and SQS.
pub fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(OPERATION_TIMEOUT)
        .build()
}

/// The retries of the SDK.
pub fn retries() -> RetryConfig {
    RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX)
}

/// The DynamoDB client.
pub fn dynamodb(config: &SdkConfig) -> aws_sdk_dynamodb::Client {
    aws_sdk_dynamodb::Client::new(config)
}

/// The SQS client.
pub fn sqs(config: &SdkConfig) -> aws_sdk_sqs::Client {
    aws_sdk_sqs::Client::new(config)
}

/// The S3 client.
pub fn s3(config: &SdkConfig) -> aws_sdk_s3::Client {
    let timeouts = TimeoutConfig::builder()
        .operation_attempt_timeout(LARGE_ATTEMPT_TIMEOUT)
        .operation_timeout(LARGE_OPERATION_TIMEOUT);
    let config = aws_sdk_s3::config::Builder::from(config)
        .timeout_config(timeouts.build())
        // A local emulator has no DNS name per bucket.
        .force_path_style(config.endpoint_url().is_some())
        // The store sends a SHA-256 checksum itself and verifies the digest of every download.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    aws_sdk_s3::Client::from_conf(config.build())
}
