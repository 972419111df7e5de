//! Speaking to the provider: over our own line, with a bound on time and bytes, and along no redirect.

use std::time::Duration;

use axum::http::{StatusCode, header};
use domain::json;
use serde_json::Value;
use url::Url;

/// Longer than any provider takes to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A set of keys has a few kilobytes, and so has everything else that a provider says.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Why the provider's answer is not to be had.
#[derive(Debug, thiserror::Error)]
pub(in crate::auth) enum Unreachable {
    #[error("ask the identity provider")]
    Ask(#[from] reqwest::Error),
    #[error("the identity provider answers with more than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
    #[error("read what the identity provider answers")]
    Read(#[from] json::InvalidJson),
    #[error("{0}")]
    Says(&'static str),
    #[error("it did not answer a moment ago")]
    Lately,
}

/// The line to the provider.
#[derive(Clone)]
pub(in crate::auth) struct Line(reqwest::Client);

impl Line {
    pub(super) fn new() -> reqwest::Result<Self> {
        Ok(Self(http_client::client().timeout(ANSWER_MAX).build()?))
    }

    /// The document at `url`.
    pub(super) async fn get(&self, url: Url) -> Result<Value, Unreachable> {
        let reply = self.0.get(url).send().await?.error_for_status()?;
        Ok(json::parse(&whole(reply).await?)?)
    }

    /// What is answered to a form that is sent to `url`, and under which status. `basic` is the header that proves us.
    pub(in crate::auth) async fn post(
        &self,
        url: Url,
        form: String,
        basic: Option<String>,
    ) -> Result<(StatusCode, Value), Unreachable> {
        let mut request = self.0.post(url).header(header::ACCEPT, "application/json");
        request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
        if let Some(basic) = basic {
            request = request.header(header::AUTHORIZATION, basic);
        }
        let reply = request.send().await?;
        let status = reply.status();
        Ok((status, json::parse(&whole(reply).await?)?))
    }
}

async fn whole(mut reply: reqwest::Response) -> Result<Vec<u8>, Unreachable> {
    let mut bytes = Vec::new();
    while let Some(chunk) = reply.chunk().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(Unreachable::TooLarge);
        }
    }
    Ok(bytes)
}
