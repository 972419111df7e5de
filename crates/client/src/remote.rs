//! A server over the network.
//!
//! The key goes to that server alone: over TLS unless the server is on this very machine, and along no redirect.
//! What did not get there is tried again; what may have got there is tried again only if asking twice is the same
//! as asking once.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{RequestBuilder, Response};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::{sleep, timeout};
use url::Url;

use crate::REPLY_BYTES_MAX;
use crate::ask::{Ask, Reply};
use crate::error::ClientError;

/// Four tries reach over a restart of the server, and end before a person gives up.
const TRIES_MAX: u32 = 4;

/// Before the second try; doubled before each one after that.
const PAUSE: Duration = Duration::from_millis(250);

/// A server that wants more time than this is told of instead of waited for.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Longer than any request takes.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A stream is asked for anew after a while, so that none is listened to for ever.
const STREAM_MAX: Duration = Duration::from_hours(1);

/// What a stream comes as.
const STREAM: &str = "text/event-stream";

/// A server over the network.
#[derive(Debug, Clone)]
pub struct Remote {
    http: reqwest::Client,
    server: Url,
    key: SecretString,
}

/// Why one try failed, and whether another may be made.
struct Failed {
    error: ClientError,
    again: bool,
    pause: Option<Duration>,
}

impl Remote {
    /// The server at `server`, which is shown `key`.
    pub fn new(server: &Url, key: SecretString) -> Result<Self, ClientError> {
        let bad = |why| ClientError::BadServer { url: server.to_string(), why };
        match server.scheme() {
            _ if http_client::is_safe(server) => {}
            "http" => return Err(bad("a key goes over https alone, except to this machine")),
            _ => return Err(bad("it is not an address of the web")),
        }
        if !server.username().is_empty() || server.password().is_some() || server.query().is_some() {
            return Err(bad("write the address alone: no user, no password, nothing behind a `?`"));
        }
        let http = http_client::client()
            .timeout(ANSWER_MAX)
            .build()
            .map_err(|source| ClientError::Unreachable { server: server.to_string(), source })?;
        Ok(Self { http, server: server.clone(), key })
    }

    /// Asks until there is an answer, as often as that is safe.
    pub(crate) async fn ask(&self, ask: &Ask) -> Result<Reply, ClientError> {
        let mut pause = PAUSE;
        let mut open = None;
        for _ in 1..TRIES_MAX {
            match self.try_once(ask).await {
                Ok(reply) => return Ok(reply),
                Err(Failed { error, again: false, .. }) => return Err(error),
                Err(Failed { error, pause: asked, .. }) => {
                    open = open.or_else(|| Some(error).filter(ClientError::leaves_open));
                    sleep(asked.unwrap_or(pause)).await;
                }
            }
            pause *= 2;
        }
        // What one try left open is not settled by another one that did not get there.
        self.try_once(ask).await.map_err(|Failed { error, .. }| match open {
            Some(open) if !error.leaves_open() && error.is_away() => open,
            _ => error,
        })
    }

    /// Asks once for a stream.
    pub(crate) async fn listen(&self, ask: &Ask) -> Result<Response, ClientError> {
        let request = self.request(ask).header(ACCEPT, STREAM).timeout(STREAM_MAX);
        let sent = timeout(ANSWER_MAX, request.send()).await;
        let late = |_| ClientError::unreadable("no stream begins".to_owned());
        let response = sent.map_err(late)?.map_err(|error| self.failed(error, ask).error)?;
        let status = response.status();
        if !status.is_success() {
            let body = self.read(response, ask).await.map_err(|failed| failed.error)?;
            return Err(self.no(&Reply { status, body }));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        match kind {
            Some(kind) if kind.starts_with(STREAM) => Ok(response),
            _ => Err(ClientError::unreadable("no stream".to_owned())),
        }
    }

    /// What it is called where something about it is told.
    pub(crate) fn name(&self) -> String {
        self.server.to_string()
    }

    fn request(&self, ask: &Ask) -> RequestBuilder {
        let address = format!("{}{}", self.server.as_str().trim_end_matches('/'), ask.path());
        let mut request = self.http.request(ask.method.clone(), address).header(AUTHORIZATION, self.bearer());
        for (name, value) in ask.headers() {
            request = request.header(name, value);
        }
        if let Some(body) = &ask.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        request
    }

    async fn try_once(&self, ask: &Ask) -> Result<Reply, Failed> {
        let response = self.request(ask).send().await.map_err(|error| self.failed(error, ask))?;
        let (status, wait) = (response.status(), retry_after(&response));
        let reply = Reply { status, body: self.read(response, ask).await? };
        let asks_for_time = wait.is_some() && status == StatusCode::SERVICE_UNAVAILABLE;
        if !asks_for_time && !reply.is_from_between() {
            return Ok(reply);
        }
        let again = ask.repeatable && wait.is_none_or(|pause| pause <= PAUSE_MAX);
        Err(Failed { error: self.no(&reply), again, pause: wait })
    }

    /// The no that a reply is.
    fn no(&self, reply: &Reply) -> ClientError {
        if reply.is_from_between() {
            let (server, status) = (self.server.to_string(), reply.status.as_u16());
            return ClientError::Between { server, status };
        }
        reply.problem()
    }

    async fn read(&self, mut response: Response, ask: &Ask) -> Result<Vec<u8>, Failed> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(error, ask))? {
            if body.len() + chunk.len() > REPLY_BYTES_MAX {
                let error = ClientError::unreadable("it does not end".to_owned());
                return Err(Failed { error, again: false, pause: None });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn failed(&self, source: reqwest::Error, ask: &Ask) -> Failed {
        let server = self.server.to_string();
        // The address would stand in it a second time.
        let source = source.without_url();
        if source.is_connect() || source.is_builder() {
            let again = source.is_connect();
            return Failed { error: ClientError::Unreachable { server, source }, again, pause: None };
        }
        Failed { error: ClientError::NoAnswer { server, source }, again: ask.repeatable, pause: None }
    }

    /// A key that cannot stand in a header opens nothing, and nothing is what is sent of it.
    fn bearer(&self) -> HeaderValue {
        let text = format!("Bearer {}", self.key.expose_secret());
        let mut value = HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("Bearer"));
        value.set_sensitive(true);
        value
    }
}

/// When the server says that it may be asked again.
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests;
