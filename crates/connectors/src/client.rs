//! Posts JSON over a connection, for the channels to approvers and the on-call, which are no tools.
//!
//! The rules for addresses are those of every connection: only a host that the operator allows may be internal.

use std::time::Duration;

use http_client::sigv4::UnsignedRequest;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, StatusCode};
use rustls::ClientConfig;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::api::{BaseUrl, Credential};
use crate::connection::ToolConnection;
use crate::http::exchange::{self, Exchange, Route};
use crate::http::guard::{AddressError, AddressGuard, SystemResolver};
use crate::http::reply::{Body, Reply};

/// A client for one connection. `Debug` does not show the credential.
#[derive(Debug, Clone)]
pub struct ConnectionClient {
    base: BaseUrl,
    credential: Credential,
    guard: AddressGuard,
    tls: ClientConfig,
    timeout: Duration,
}

/// How far a request got. No text contains a URL or a credential.
#[derive(Debug)]
pub enum PostOutcome {
    /// It is never sent: the address is not allowed, or the credential cannot be sent.
    Refused(String),
    /// Nothing was sent; another attempt may succeed.
    NotSent(String),
    /// It may have been received.
    NoReply(String),
    Replied(PostReply),
}

/// A complete reply.
#[derive(Debug)]
pub struct PostReply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The body of a success, if it is not too large.
    pub body: Option<Vec<u8>>,
}

impl ConnectionClient {
    /// `timeout` bounds every request.
    pub fn new(connection: &ToolConnection, timeout: Duration) -> Self {
        let ToolConnection { base, credential, allow, tls, .. } = connection.clone();
        Self { base, credential, guard: AddressGuard::new(allow, SystemResolver), tls, timeout }
    }

    /// The base URL of the connection.
    pub fn base(&self) -> &Url {
        self.base.url()
    }

    /// Posts `body` with the credential of the connection; `path` has the segments below the base URL.
    pub async fn post(&self, path: &[&str], body: &Value) -> PostOutcome {
        let path: Vec<String> = path.iter().map(|segment| (*segment).to_owned()).collect();
        self.send(self.base.join(&path, &[]), &self.credential, body).await
    }

    /// Posts `body` below the base URL, without a credential in the headers.
    pub async fn post_anonymously(&self, path: &[&str], body: &Value) -> PostOutcome {
        let path: Vec<String> = path.iter().map(|segment| (*segment).to_owned()).collect();
        self.send(self.base.join(&path, &[]), &Credential::Anonymous, body).await
    }

    /// Posts `body` to `url`, which is its own credential. The caller has checked its origin.
    pub async fn post_to(&self, url: &Url, body: &Value) -> PostOutcome {
        self.send(url.clone(), &Credential::Anonymous, body).await
    }

    async fn send(&self, url: Url, credential: &Credential, body: &Value) -> PostOutcome {
        let body = body.to_string();
        let unsigned = UnsignedRequest { method: "POST", url: &url, headers: &[], body: body.as_bytes() };
        let headers = match credential.headers(unsigned) {
            Ok(headers) => headers,
            Err(failure) => return PostOutcome::Refused(failure.message),
        };
        let deadline = Instant::now() + self.timeout;
        let addresses = match timeout_at(deadline, self.guard.admit(&url)).await {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(AddressError::AddressRefused(refused))) => {
                return PostOutcome::Refused(refused.to_string());
            }
            Ok(Err(error)) => return PostOutcome::NotSent(error.to_string()),
            Err(_) => return PostOutcome::NotSent("the host was not resolved in time".to_owned()),
        };
        let secrets = credential.secrets();
        let route = Route { addresses, tls: &self.tls, deadline, secrets: &secrets };
        let build = |client: &Client| {
            let request = client
                .post(url)
                .header(ACCEPT, "application/json")
                .header(CONTENT_TYPE, "application/json; charset=utf-8");
            headers.into_iter().fold(request, |request, (name, value)| request.header(name, value)).body(body)
        };
        match exchange::exchange(route, build).await {
            Exchange::NotSent(why) => PostOutcome::NotSent(why),
            Exchange::NoReply(why) => PostOutcome::NoReply(why),
            Exchange::Replied(Reply { status, headers, body }) => match body {
                Body::Whole(bytes) => PostOutcome::Replied(PostReply { status, headers, body: Some(bytes) }),
                Body::TooLong | Body::Excerpt(_) => {
                    PostOutcome::Replied(PostReply { status, headers, body: None })
                }
                Body::Incomplete => PostOutcome::NoReply("the reply was cut off".to_owned()),
            },
        }
    }
}
