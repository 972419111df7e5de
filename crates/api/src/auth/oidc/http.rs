//! Requests to the identity provider, with limits on time and size, and without redirects.

use std::time::Duration;

use axum::http::{StatusCode, header};
use domain::json;
use serde_json::Value;
use url::Url;

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Responses of a provider, such as a key set, have a few kilobytes.
const RESPONSE_BYTES_MAX: usize = 256 * 1024;

/// Why a request to the provider failed.
#[derive(Debug, thiserror::Error)]
pub(in crate::auth) enum ProviderError {
    #[error("request to the identity provider failed")]
    Request(#[from] reqwest::Error),
    #[error("the response of the identity provider is larger than {RESPONSE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the response of the identity provider is not valid JSON")]
    Read(#[from] json::InvalidJson),
    #[error("{0}")]
    Invalid(&'static str),
    #[error("the previous request to the identity provider failed")]
    RecentlyFailed,
}

/// The HTTP client for the provider.
#[derive(Clone)]
pub(in crate::auth) struct ProviderClient(reqwest::Client);

impl ProviderClient {
    pub(super) fn new() -> reqwest::Result<Self> {
        Ok(Self(http_client::client().timeout(TIMEOUT).build()?))
    }

    /// Fetches the JSON document at `url`.
    pub(super) async fn get(&self, url: Url) -> Result<Value, ProviderError> {
        let reply = self.0.get(url).send().await?.error_for_status()?;
        Ok(json::parse(&read_body(reply).await?)?)
    }

    /// Posts a form to `url`. `basic` is the `Authorization` header.
    pub(in crate::auth) async fn post(
        &self,
        url: Url,
        form: String,
        basic: Option<String>,
    ) -> Result<(StatusCode, Value), ProviderError> {
        let mut request = self.0.post(url).header(header::ACCEPT, "application/json");
        request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
        if let Some(basic) = basic {
            request = request.header(header::AUTHORIZATION, basic);
        }
        let reply = request.send().await?;
        let status = reply.status();
        Ok((status, json::parse(&read_body(reply).await?)?))
    }
}

async fn read_body(mut reply: reqwest::Response) -> Result<Vec<u8>, ProviderError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = reply.chunk().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > RESPONSE_BYTES_MAX {
            return Err(ProviderError::TooLarge);
        }
    }
    Ok(bytes)
}
