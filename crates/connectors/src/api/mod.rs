//! A client for one HTTP API, on one connection.
//!
//! A workflow cannot choose the host or the credential. An operator may allow the host of a connection to be internal;
//! cloud metadata addresses stay blocked. The credential is sent in one header that is marked as sensitive.

mod base_url;
mod credential;
mod error;

use std::time::Duration;

use domain::{Failure, json};
use http_client::sigv4::UnsignedRequest;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, Method, RequestBuilder};
use rustls::ClientConfig;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

pub use base_url::{BaseUrl, InvalidBaseUrl};
pub use credential::Credential;

pub(crate) use error::{ApiError, CONFLICT, RATE_LIMITED, REPLY_INVALID};

use crate::connection::ToolConnection;
use crate::http::exchange::{self, Exchange, Route};
use crate::http::guard::{AddressError, AddressGuard, SystemResolver};
use crate::http::reply::{Body, Reply};

/// Error messages show at most this much of host and path.
const ENDPOINT_CHARS_MAX: usize = 200;

#[derive(Debug, Clone)]
pub(crate) struct Api {
    base: BaseUrl,
    credential: Credential,
    headers: &'static [(&'static str, &'static str)],
    timeout: Duration,
    guard: AddressGuard,
    tls: ClientConfig,
}

impl Api {
    /// `timeout` bounds every request.
    pub(crate) fn new(connection: &ToolConnection, timeout: Duration) -> Self {
        let ToolConnection { base, credential, allow, tls, .. } = connection.clone();
        let guard = AddressGuard::new(allow, SystemResolver);
        Self { base, credential, headers: &[], timeout, guard, tls }
    }

    /// Adds headers to every request.
    pub(crate) fn with_headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }

    /// Host and port, as used in idempotency keys and targets.
    pub(crate) fn host(&self) -> &str {
        self.base.host()
    }

    /// The deadline of a request without a lease, such as a read in `observe`.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Sends one request. Returns by `until`, and after the API's timeout at the latest.
    pub(crate) async fn send(&self, request: ApiRequest, until: Instant) -> Result<ApiResponse, ApiError> {
        let url = self.base.join(&request.path, &request.query);
        let endpoint: String =
            format!("{}{}", self.host(), url.path()).chars().take(ENDPOINT_CHARS_MAX).collect();
        let body = request.body.as_ref().map(Value::to_string);
        let unsigned = UnsignedRequest {
            method: request.method.as_str(),
            url: &url,
            headers: &[],
            body: body.as_deref().unwrap_or_default().as_bytes(),
        };
        let authorization = self.credential.headers(unsigned).map_err(ApiError::Terminal)?;
        let deadline = until.min(Instant::now() + self.timeout);
        let addresses = match timeout_at(deadline, self.guard.admit(&url)).await {
            Ok(Ok(addresses)) if Instant::now() < deadline => addresses,
            Ok(Ok(_)) | Err(_) => return Err(ApiError::not_sent(&endpoint, "no time left")),
            Ok(Err(error)) => return Err(not_admitted(&endpoint, &error)),
        };
        let is_write = request.is_write;
        let secrets = self.credential.secrets();
        let route = Route { addresses, tls: &self.tls, deadline, secrets: &secrets };
        let build = |client: &Client| self.build(client.request(request.method, url), body, authorization);
        to_response(exchange::exchange(route, build).await, is_write, &endpoint)
    }

    fn build(
        &self,
        mut builder: RequestBuilder,
        body: Option<String>,
        authorization: Vec<(HeaderName, HeaderValue)>,
    ) -> RequestBuilder {
        builder = builder.header(ACCEPT, "application/json");
        for (name, value) in self.headers {
            builder = builder.header(HeaderName::from_static(name), *value);
        }
        for (name, value) in authorization {
            builder = builder.header(name, value);
        }
        match body {
            Some(body) => builder.header(CONTENT_TYPE, "application/json").body(body),
            None => builder,
        }
    }
}

fn not_admitted(endpoint: &str, error: &AddressError) -> ApiError {
    match error {
        AddressError::AddressRefused(refused) => {
            ApiError::Terminal(Failure::new(crate::http::outcome::BLOCKED, refused.to_string()))
        }
        AddressError::Resolve { .. } | AddressError::NoRecord { .. } => {
            ApiError::not_sent(endpoint, &error.to_string())
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ApiRequest {
    method: Method,
    /// Segments below the base URL's path; each is escaped.
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    body: Option<Value>,
    /// Whether the request may change the external system.
    is_write: bool,
}

impl ApiRequest {
    fn new(method: Method, path: &[&str], body: Option<Value>) -> Self {
        let path = path.iter().map(|segment| (*segment).to_owned()).collect();
        let is_write = method != Method::GET;
        Self { method, path, query: Vec::new(), body, is_write }
    }

    pub(crate) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path, None)
    }

    pub(crate) fn head(path: &[&str]) -> Self {
        let request = Self::new(Method::HEAD, path, None);
        Self { is_write: false, ..request }
    }

    pub(crate) fn post(path: &[&str], body: Value) -> Self {
        Self::new(Method::POST, path, Some(body))
    }

    pub(crate) fn patch(path: &[&str], body: Value) -> Self {
        Self::new(Method::PATCH, path, Some(body))
    }

    pub(crate) fn delete(path: &[&str]) -> Self {
        Self::new(Method::DELETE, path, None)
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    /// Marks a request as read-only although its method is not GET.
    pub(crate) fn read_only(mut self) -> Self {
        self.is_write = false;
        self
    }

    /// Adds a query parameter.
    pub(crate) fn with_query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }
}

/// A response with a success status.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiResponse {
    pub(crate) status: u16,
    /// The body. Null if a write succeeded and its body is empty or unreadable.
    pub(crate) value: Value,
}

fn to_response(exchange: Exchange, is_write: bool, endpoint: &str) -> Result<ApiResponse, ApiError> {
    match exchange {
        Exchange::NotSent(why) => Err(ApiError::not_sent(endpoint, &why)),
        Exchange::NoReply(why) => Err(ApiError::no_reply(is_write, endpoint, &why)),
        Exchange::Replied(reply) if reply.status.is_success() => parse_reply(&reply, is_write, endpoint),
        Exchange::Replied(reply) => Err(ApiError::from_status(&reply, is_write, endpoint)),
    }
}

fn parse_reply(reply: &Reply, is_write: bool, endpoint: &str) -> Result<ApiResponse, ApiError> {
    let status = reply.status.as_u16();
    let value = match &reply.body {
        Body::Whole(bytes) => json::parse(bytes).map_err(|error| error.to_string()),
        Body::TooLong => Err("it is too large".to_owned()),
        Body::Incomplete if !is_write => {
            return Err(ApiError::no_reply(is_write, endpoint, "the reply was cut off"));
        }
        Body::Incomplete | Body::Excerpt(_) => Err("it was cut off".to_owned()),
    };
    match value {
        Ok(value) => Ok(ApiResponse { status, value }),
        // The status says that the write succeeded. Another attempt could not return more.
        Err(_) if is_write => Ok(ApiResponse { status, value: Value::Null }),
        Err(why) => Err(ApiError::Terminal(Failure::new(
            REPLY_INVALID,
            format!("the reply from {endpoint} cannot be read: {why}"),
        ))),
    }
}
