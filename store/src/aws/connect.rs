//! How we speak to AWS.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

/// How long one try may take. DynamoDB answers in milliseconds; what takes this long was lost.
const TRY_FOR: Duration = Duration::from_secs(2);

/// How long all tries of one request may take together: well inside a lease, so that a holder who waits for
/// an answer is still a holder when it comes.
const ASK_FOR: Duration = Duration::from_secs(6);

/// How often a request is sent before its caller is told. The engine has patience of its own.
const TRIES_MAX: u32 = 3;

/// What the environment says about region and credentials, with our own ideas of patience. `endpoint` is
/// where a local stand-in listens.
pub async fn configure(endpoint: Option<&str>) -> SdkConfig {
    // The SDK's own client would bring a second crypto library.
    let https = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(TRY_FOR).operation_timeout(ASK_FOR);
    let loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(https)
        .timeout_config(timeouts.build())
        .retry_config(RetryConfig::standard().with_max_attempts(TRIES_MAX));
    match endpoint {
        Some(endpoint) => loader.endpoint_url(endpoint).load().await,
        None => loader.load().await,
    }
}

/// Speaks to DynamoDB.
pub fn dynamodb(config: &SdkConfig) -> Client {
    Client::new(config)
}
