//! One JSON request, and its reply: no redirect, no proxy, no silent second try, and an end to everything.

use std::error::Error;
use std::time::Duration;

use domain::Millis;
use domain::schedule::RETRY_AFTER_MAX;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::Url;

use crate::fault::Fault;

/// Slack wants its own requests answered in three seconds, and mostly keeps to that itself.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// Slack's reply repeats the message.
const REPLY_BYTES_MAX: usize = 512 * 1024;

/// What we wait if a reply asks us to stay away and does not say for how long.
const RETRY_AFTER_DEFAULT: Millis = Millis::secs(30);

/// Sends requests.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    client: Client,
}

impl Transport {
    pub(crate) fn new() -> Result<Self, Fault> {
        let client = http_client::client()
            .timeout(REQUEST_MAX)
            .build()
            .map_err(|_| Fault::Settings("no client for HTTP could be made"))?;
        Ok(Self { client })
    }

    /// Posts `body`, and gives back the bytes of a reply that is a success.
    pub(crate) async fn post(
        &self,
        url: &Url,
        bearer: Option<&SecretString>,
        body: &Value,
    ) -> Result<Vec<u8>, Fault> {
        let mut request =
            self.client.post(url.clone()).header(CONTENT_TYPE, "application/json; charset=utf-8");
        if let Some(token) = bearer {
            request = request.header(AUTHORIZATION, header(token)?);
        }
        let response = request.body(body.to_string()).send().await.map_err(|error| unanswered(&error))?;
        match response.status().as_u16() {
            429 => Err(Fault::RateLimited { retry_after: retry_after(response.headers()) }),
            200..=299 => read(response).await,
            status => Err(Fault::Status(status)),
        }
    }
}

fn header(token: &SecretString) -> Result<HeaderValue, Fault> {
    let header = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()));
    let mut header = header.map_err(|_| Fault::Settings("the token holds a character that no token has"))?;
    header.set_sensitive(true);
    Ok(header)
}

fn unanswered(error: &reqwest::Error) -> Fault {
    if error.is_connect() || error.is_builder() {
        Fault::NotSent(innermost(error))
    } else if error.is_timeout() {
        Fault::NoReply("no reply in time".to_owned())
    } else {
        Fault::NoReply(innermost(error))
    }
}

/// The cause at the bottom. What stands above it repeats the URL, and a URL may be a secret.
fn innermost(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else { return "the request could not be made".to_owned() };
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// How long we are to stay away, in whole seconds; at most an hour, whatever is said.
pub(crate) fn retry_after(headers: &HeaderMap) -> Millis {
    let secs = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    secs.map_or(RETRY_AFTER_DEFAULT, |secs| Millis(secs.saturating_mul(1_000))).min(RETRY_AFTER_MAX)
}

async fn read(mut response: Response) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return Ok(bytes),
            Err(error) => return Err(Fault::NoReply(innermost(&error))),
        }
        if bytes.len() > REPLY_BYTES_MAX {
            return Err(Fault::Unreadable);
        }
    }
}

/// `path` under `base_url`.
pub(crate) fn endpoint(base_url: &Url, path: &str) -> Result<Url, Fault> {
    if !http_client::is_safe(base_url) {
        return Err(Fault::Settings("the address must be https, or http on this machine"));
    }
    base_url.join(path).map_err(|_| Fault::Settings("the address cannot be extended"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_to_stay_away_is_honoured_for_an_hour_at_most() {
        let after = |text: &'static str| {
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]))
        };
        assert_eq!(after("7"), Millis::secs(7));
        assert_eq!(after("18446744073709551615"), RETRY_AFTER_MAX);
        assert_eq!(after("soon"), RETRY_AFTER_DEFAULT);
        assert_eq!(retry_after(&HeaderMap::new()), RETRY_AFTER_DEFAULT);
    }
}
