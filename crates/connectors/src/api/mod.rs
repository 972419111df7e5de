//! One HTTP API that the operator has configured: where it is, who we are there, and single requests to it.
//!
//! A workflow chooses neither host nor credential. The base URL is the operator's word, and so it may lead
//! inside; exactly its host and port do, and a platform's metadata stays out of reach all the same. The
//! credential goes into one header, marked as sensitive, and nowhere else.

mod base;
mod credential;
mod fault;

use std::time::Duration;

use domain::{Failure, json};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, Method, RequestBuilder};
use rustls::ClientConfig;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use url::Url;

pub use base::{Base, InvalidBase};
pub use credential::Credential;

pub(crate) use fault::{CONFLICT, Fault, RATE_LIMITED, REPLY_INVALID};

use crate::http::exchange::{self, Exchange, Route};
use crate::http::guard::{Allow, Guard, HostRule, NoAddress, SystemResolver};
use crate::http::reply::{Body, Reply};

/// The part of a place that an error text shows.
const PLACE_CHARS_MAX: usize = 200;

/// One API.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    base: Base,
    credential: Credential,
    headers: &'static [(&'static str, &'static str)],
    timeout: Duration,
    guard: Guard,
    tls: ClientConfig,
}

impl Api {
    /// The API at `base`, each request to which is over after `timeout`.
    pub(crate) fn new(base: Base, credential: Credential, timeout: Duration) -> Self {
        let allow = Allow { hosts: HostRule::of(base.url()).into_iter().collect() };
        let guard = Guard::new(allow, SystemResolver);
        Self { base, credential, headers: &[], timeout, guard, tls: http_client::config() }
    }

    /// The same API with headers that every request carries.
    pub(crate) fn with_headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }

    /// Host and port, which name the other side in keys and targets.
    pub(crate) fn host(&self) -> &str {
        self.base.host()
    }

    /// Until when to wait for something that no lease bounds, such as a survey.
    pub(crate) fn patience(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Asks once. It is over before `until`, and after the API's own timeout at the latest.
    pub(crate) async fn ask(&self, question: Question, until: Instant) -> Result<Answer, Fault> {
        let url = self.base.join(&question.path, &question.query);
        let place: String = format!("{}{}", self.host(), url.path()).chars().take(PLACE_CHARS_MAX).collect();
        let authorization = self.credential.header().map_err(Fault::Never)?;
        let deadline = until.min(Instant::now() + self.timeout);
        let addresses = match timeout_at(deadline, self.guard.admit(&url)).await {
            Ok(Ok(addresses)) if Instant::now() < deadline => addresses,
            Ok(Ok(_)) | Err(_) => return Err(Fault::not_sent(&place, "no time is left")),
            Ok(Err(error)) => return Err(not_admitted(&place, &error)),
        };
        let is_write = question.is_write;
        let route = Route { addresses, tls: &self.tls, deadline };
        let build = |client: &Client| self.build(client, url, question, authorization);
        answer(exchange::exchange(route, build).await, is_write, &place)
    }

    fn build(
        &self,
        client: &Client,
        url: Url,
        question: Question,
        authorization: Option<HeaderValue>,
    ) -> RequestBuilder {
        let mut builder = client.request(question.method, url).header(ACCEPT, "application/json");
        for (name, value) in self.headers {
            builder = builder.header(HeaderName::from_static(name), *value);
        }
        if let Some(authorization) = authorization {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        match question.body {
            Some(body) => builder.header(CONTENT_TYPE, "application/json").body(body.to_string()),
            None => builder,
        }
    }
}

fn not_admitted(place: &str, error: &NoAddress) -> Fault {
    match error {
        NoAddress::Refused(refused) => {
            Fault::Never(Failure::new(crate::http::outcome::REFUSED, refused.to_string()))
        }
        NoAddress::LookUp { .. } | NoAddress::Nowhere { .. } => Fault::not_sent(place, &error.to_string()),
    }
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    method: Method,
    /// The segments after the base URL's own path; each is escaped.
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    body: Option<Value>,
    /// Whether it may change something over there.
    is_write: bool,
}

impl Question {
    fn new(method: Method, path: &[&str], body: Option<Value>) -> Self {
        let path = path.iter().map(|segment| (*segment).to_owned()).collect();
        let is_write = method != Method::GET;
        Self { method, path, query: Vec::new(), body, is_write }
    }

    pub(crate) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path, None)
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

    /// The same request, which changes nothing whatever its method says.
    pub(crate) fn reading(mut self) -> Self {
        self.is_write = false;
        self
    }

    /// The same request with one more parameter.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }
}

/// A reply that says yes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// The status, for the receipt.
    pub(crate) status: u16,
    /// What it says. Null if a write was done and there was nothing to read, or nothing that could be read.
    pub(crate) value: Value,
}

fn answer(exchange: Exchange, is_write: bool, place: &str) -> Result<Answer, Fault> {
    match exchange {
        Exchange::NotSent(why) => Err(Fault::not_sent(place, &why)),
        Exchange::NoReply(why) => Err(Fault::no_reply(is_write, place, &why)),
        Exchange::Replied(reply) if reply.status.is_success() => read(&reply, is_write, place),
        Exchange::Replied(reply) => Err(Fault::said_no(&reply, is_write, place)),
    }
}

fn read(reply: &Reply, is_write: bool, place: &str) -> Result<Answer, Fault> {
    let status = reply.status.as_u16();
    let value = match &reply.body {
        Body::Whole(bytes) => json::parse(bytes).map_err(|error| error.to_string()),
        Body::TooLong => Err("it is too long".to_owned()),
        Body::BrokenOff if !is_write => return Err(Fault::no_reply(is_write, place, "the reply broke off")),
        Body::BrokenOff | Body::Unread => Err("it broke off".to_owned()),
    };
    match value {
        Ok(value) => Ok(Answer { status, value }),
        // The head says that it was done, and no other attempt could be told more.
        Err(_) if is_write => Ok(Answer { status, value: Value::Null }),
        Err(why) => Err(Fault::Never(Failure::new(
            REPLY_INVALID,
            format!("the reply from {place} cannot be read: {why}"),
        ))),
    }
}
