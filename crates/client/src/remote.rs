//! A server over the network.
//!
//! The API key is sent only to that server: over TLS unless the server is on this machine, and never along a redirect.
//! A request that did not reach the server is retried. A request that may have reached it is retried only if it is
//! repeatable.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{RequestBuilder, Response};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::{sleep, timeout};
use url::Url;

use crate::REPLY_BYTES_MAX;
use crate::error::ClientError;
use crate::request::{ApiRequest, Reply};

/// Four attempts cover a restart of the server and keep the user waiting for a few seconds at most.
const TRIES_MAX: u32 = 4;

/// The delay before the second attempt; it doubles with each further attempt.
const PAUSE: Duration = Duration::from_millis(250);

/// A longer `Retry-After` is reported as an error instead of waited for.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Longer than any request takes.
const RESPONSE_MAX: Duration = Duration::from_secs(30);

/// A stream is requested again after this time, so that a dead connection does not stay open.
const STREAM_MAX: Duration = Duration::from_hours(1);

/// The content type of a stream.
const STREAM: &str = "text/event-stream";

/// A server over the network.
#[derive(Debug, Clone)]
pub struct Remote {
    http: reqwest::Client,
    server: Url,
    key: SecretString,
}

/// Why one attempt failed, and whether another one is allowed.
struct FailedAttempt {
    error: ClientError,
    retry: bool,
    pause: Option<Duration>,
}

impl Remote {
    /// A client of the server at `server` with the API key `key`.
    pub fn new(server: &Url, key: SecretString) -> Result<Self, ClientError> {
        let bad = |why| ClientError::BadServer { url: server.to_string(), why };
        match server.scheme() {
            _ if http_client::is_safe(server) => {}
            "http" => return Err(bad("an API key is sent only over https, or to this machine; use https")),
            _ => return Err(bad("it is not an http or https URL")),
        }
        if !server.username().is_empty() || server.password().is_some() || server.query().is_some() {
            return Err(bad("remove the user, the password and the query from the URL"));
        }
        let http = http_client::client()
            .timeout(RESPONSE_MAX)
            .build()
            .map_err(|source| ClientError::Unreachable { server: server.to_string(), source })?;
        Ok(Self { http, server: server.clone(), key })
    }

    /// Sends the request, with retries as far as they are safe.
    pub(crate) async fn send(&self, call: &ApiRequest) -> Result<Reply, ClientError> {
        let mut pause = PAUSE;
        let mut unknown_outcome = None;
        for _ in 1..TRIES_MAX {
            match self.try_once(call).await {
                Ok(reply) => return Ok(reply),
                Err(FailedAttempt { error, retry: false, .. }) => return Err(error),
                Err(FailedAttempt { error, pause: retry_after, .. }) => {
                    unknown_outcome =
                        unknown_outcome.or_else(|| Some(error).filter(ClientError::is_outcome_unknown));
                    sleep(retry_after.unwrap_or(pause)).await;
                }
            }
            pause *= 2;
        }
        // A later attempt that did not reach the server does not resolve an earlier unknown outcome.
        self.try_once(call).await.map_err(|FailedAttempt { error, .. }| match unknown_outcome {
            Some(unknown_outcome) if !error.is_outcome_unknown() && error.is_unreachable() => unknown_outcome,
            _ => error,
        })
    }

    /// Requests a stream, without retries.
    pub(crate) async fn listen(&self, call: &ApiRequest) -> Result<Response, ClientError> {
        let request = self.request(call).header(ACCEPT, STREAM).timeout(STREAM_MAX);
        let sent = timeout(RESPONSE_MAX, request.send()).await;
        let late = |_| ClientError::invalid_response("the stream does not start".to_owned());
        let response = sent.map_err(late)?.map_err(|error| self.failed(error, call).error)?;
        let status = response.status();
        if !status.is_success() {
            let body = self.read(response, call).await.map_err(|failed| failed.error)?;
            return Err(self.error_of(&Reply { status, body }));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        match kind {
            Some(kind) if kind.starts_with(STREAM) => Ok(response),
            _ => Err(ClientError::invalid_response("the response is not an event stream".to_owned())),
        }
    }

    /// The URL of the server, for error messages.
    pub(crate) fn name(&self) -> String {
        self.server.to_string()
    }

    fn request(&self, call: &ApiRequest) -> RequestBuilder {
        let address = format!("{}{}", self.server.as_str().trim_end_matches('/'), call.path());
        let mut request =
            self.http.request(call.method.clone(), address).header(AUTHORIZATION, self.bearer());
        for (name, value) in call.headers() {
            request = request.header(name, value);
        }
        if let Some(body) = &call.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        request
    }

    async fn try_once(&self, call: &ApiRequest) -> Result<Reply, FailedAttempt> {
        let response = self.request(call).send().await.map_err(|error| self.failed(error, call))?;
        let (status, wait) = (response.status(), retry_after(&response));
        let reply = Reply { status, body: self.read(response, call).await? };
        let is_overloaded = wait.is_some() && status == StatusCode::SERVICE_UNAVAILABLE;
        if !is_overloaded && !reply.is_from_proxy() {
            return Ok(reply);
        }
        let retry = call.repeatable && wait.is_none_or(|pause| pause <= PAUSE_MAX);
        Err(FailedAttempt { error: self.error_of(&reply), retry, pause: wait })
    }

    fn error_of(&self, reply: &Reply) -> ClientError {
        if reply.is_from_proxy() {
            let (server, status) = (self.server.to_string(), reply.status.as_u16());
            return ClientError::ProxyResponse { server, status };
        }
        reply.problem()
    }

    async fn read(&self, mut response: Response, call: &ApiRequest) -> Result<Vec<u8>, FailedAttempt> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(error, call))? {
            if body.len() + chunk.len() > REPLY_BYTES_MAX {
                let error = ClientError::invalid_response("the body is too large".to_owned());
                return Err(FailedAttempt { error, retry: false, pause: None });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn failed(&self, source: reqwest::Error, call: &ApiRequest) -> FailedAttempt {
        let server = self.server.to_string();
        // The error already names the server.
        let source = source.without_url();
        if source.is_connect() || source.is_builder() {
            let retry = source.is_connect();
            return FailedAttempt { error: ClientError::Unreachable { server, source }, retry, pause: None };
        }
        FailedAttempt {
            error: ClientError::NoResponse { server, source },
            retry: call.repeatable,
            pause: None,
        }
    }

    /// A key with characters that a header does not allow is not sent at all.
    fn bearer(&self) -> HeaderValue {
        let text = format!("Bearer {}", self.key.expose_secret());
        let mut value = HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("Bearer"));
        value.set_sensitive(true);
        value
    }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests;
