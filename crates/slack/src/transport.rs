//! Sends one JSON request over a connection: no redirect, no proxy, no automatic retry, and limits on time and size.

use std::time::Duration;

use connectors::{ConnectionClient, PostOutcome, PostReply, ToolConnection};
use domain::Millis;
use domain::retry_policy::RETRY_AFTER_MAX;
use serde_json::Value;
use url::Url;

use crate::error::SlackError;

/// Slack usually answers within three seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay after a rate limit without `Retry-After`.
const RETRY_AFTER_DEFAULT: Millis = Millis::secs(30);

#[derive(Debug, Clone)]
pub(crate) struct Transport {
    client: ConnectionClient,
}

impl Transport {
    /// Refuses a connection that would send its credential in the clear.
    pub(crate) fn new(connection: &ToolConnection) -> Result<Self, SlackError> {
        if !connection.base.may_carry_secrets() {
            return Err(SlackError::Settings("the base URL must be https, or http on this machine"));
        }
        Ok(Self { client: ConnectionClient::new(connection, REQUEST_TIMEOUT) })
    }

    pub(crate) fn base(&self) -> &Url {
        self.client.base()
    }

    /// Posts `body` with the credential and returns the body of a success response.
    pub(crate) async fn post(&self, path: &[&str], body: &Value) -> Result<Vec<u8>, SlackError> {
        to_body(self.client.post(path, body).await)
    }

    /// Posts `body`, which contains the credential.
    pub(crate) async fn post_anonymously(&self, path: &[&str], body: &Value) -> Result<Vec<u8>, SlackError> {
        to_body(self.client.post_anonymously(path, body).await)
    }

    /// Posts `body` to `url`, which is its own credential.
    pub(crate) async fn post_to(&self, url: &Url, body: &Value) -> Result<Vec<u8>, SlackError> {
        to_body(self.client.post_to(url, body).await)
    }
}

fn to_body(outcome: PostOutcome) -> Result<Vec<u8>, SlackError> {
    let PostReply { status, headers, body } = match outcome {
        PostOutcome::Refused(why) => return Err(SlackError::Refused(why)),
        PostOutcome::NotSent(why) => return Err(SlackError::NotSent(why)),
        PostOutcome::NoReply(why) => return Err(SlackError::NoReply(why)),
        PostOutcome::Replied(reply) => reply,
    };
    match status.as_u16() {
        429 => {
            let header = headers.get("retry-after").and_then(|value| value.to_str().ok());
            Err(SlackError::RateLimited { retry_after: retry_after(header) })
        }
        200..=299 => body.ok_or(SlackError::Unreadable),
        status => Err(SlackError::Status(status)),
    }
}

/// Reads `Retry-After` in seconds, limited to an hour.
fn retry_after(header: Option<&str>) -> Millis {
    let secs = header.and_then(|value| value.parse::<u64>().ok());
    secs.map_or(RETRY_AFTER_DEFAULT, |secs| Millis(secs.saturating_mul(1_000))).min(RETRY_AFTER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_limited_to_an_hour() {
        assert_eq!(retry_after(Some("7")), Millis::secs(7));
        assert_eq!(retry_after(Some("18446744073709551615")), RETRY_AFTER_MAX);
        assert_eq!(retry_after(Some("soon")), RETRY_AFTER_DEFAULT);
        assert_eq!(retry_after(None), RETRY_AFTER_DEFAULT);
    }
}
