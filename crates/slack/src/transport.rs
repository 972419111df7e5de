//! Sends one JSON request: no redirect, no proxy, no automatic retry, and limits on time and size.

use std::error::Error;
use std::time::Duration;

use domain::Millis;
use domain::retry_policy::RETRY_AFTER_MAX;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::Url;

use crate::error::SlackError;

/// Slack usually answers within three seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Slack's reply contains the message.
const REPLY_BYTES_MAX: usize = 512 * 1024;

/// The delay after a rate limit without `Retry-After`.
const RETRY_AFTER_DEFAULT: Millis = Millis::secs(30);

#[derive(Debug, Clone)]
pub(crate) struct Transport {
    client: Client,
}

impl Transport {
    pub(crate) fn new() -> Result<Self, SlackError> {
        let client = http_client::client()
            .timeout(REQUEST_TIMEOUT)
            .build()
            .map_err(|_| SlackError::Settings("the HTTP client could not be created"))?;
        Ok(Self { client })
    }

    /// Posts `body` and returns the body of a success response.
    pub(crate) async fn post(
        &self,
        url: &Url,
        bearer: Option<&SecretString>,
        body: &Value,
    ) -> Result<Vec<u8>, SlackError> {
        let mut request =
            self.client.post(url.clone()).header(CONTENT_TYPE, "application/json; charset=utf-8");
        if let Some(token) = bearer {
            request = request.header(AUTHORIZATION, header(token)?);
        }
        let response = request.body(body.to_string()).send().await.map_err(|error| send_error(&error))?;
        match response.status().as_u16() {
            429 => Err(SlackError::RateLimited { retry_after: retry_after(response.headers()) }),
            200..=299 => read(response).await,
            status => Err(SlackError::Status(status)),
        }
    }
}

fn header(token: &SecretString) -> Result<HeaderValue, SlackError> {
    let header = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()));
    let mut header = header.map_err(|_| SlackError::Settings("the token contains an invalid character"))?;
    header.set_sensitive(true);
    Ok(header)
}

fn send_error(error: &reqwest::Error) -> SlackError {
    if error.is_connect() || error.is_builder() {
        SlackError::NotSent(innermost(error))
    } else if error.is_timeout() {
        SlackError::NoReply("no reply in time".to_owned())
    } else {
        SlackError::NoReply(innermost(error))
    }
}

/// The innermost cause. The outer errors repeat the URL, which may be a secret.
fn innermost(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else { return "the request could not be built".to_owned() };
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Reads `Retry-After` in seconds, limited to an hour.
pub(crate) fn retry_after(headers: &HeaderMap) -> Millis {
    let secs = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    secs.map_or(RETRY_AFTER_DEFAULT, |secs| Millis(secs.saturating_mul(1_000))).min(RETRY_AFTER_MAX)
}

async fn read(mut response: Response) -> Result<Vec<u8>, SlackError> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return Ok(bytes),
            Err(error) => return Err(SlackError::NoReply(innermost(&error))),
        }
        if bytes.len() > REPLY_BYTES_MAX {
            return Err(SlackError::Unreadable);
        }
    }
}

/// `path` under `base_url`.
pub(crate) fn endpoint(base_url: &Url, path: &str) -> Result<Url, SlackError> {
    if !http_client::is_safe(base_url) {
        return Err(SlackError::Settings("the base URL must be https, or http on this machine"));
    }
    base_url.join(path).map_err(|_| SlackError::Settings("the base URL cannot have a path appended"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_limited_to_an_hour() {
        let after = |text: &'static str| {
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]))
        };
        assert_eq!(after("7"), Millis::secs(7));
        assert_eq!(after("18446744073709551615"), RETRY_AFTER_MAX);
        assert_eq!(after("soon"), RETRY_AFTER_DEFAULT);
        assert_eq!(retry_after(&HeaderMap::new()), RETRY_AFTER_DEFAULT);
    }
}
