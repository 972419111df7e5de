//! Sends one request on a new connection and reads the reply.
//!
//! The error must tell whether the request may have been sent: before a connection is established nothing was sent,
//! afterwards everything may have been. So there is no connection pool, no proxy, no redirect and no automatic retry.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, RequestBuilder, Response};
use rustls::ClientConfig;
use tokio::time::{Instant, timeout_at};

use crate::trace::add_trace_header;

use super::excerpt::{BodyStart, EXCERPT_BYTES_MAX, excerpt};
use super::reply::{Body, Reply};

/// Store larger replies in a file store and pass a reference.
pub(crate) const REPLY_BYTES_MAX: usize = 1024 * 1024;

/// A host that takes longer to accept a connection counts as down.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The status decides the outcome, so its body must not delay it for long.
const EXCERPT_MAX: Duration = Duration::from_secs(2);

/// How far a request got.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// No connection was established, so nothing was sent.
    NotSent(String),
    /// The request may have been sent; no reply arrived.
    NoReply(String),
    Replied(Reply),
}

#[derive(Debug)]
pub(crate) struct Route<'a> {
    /// The addresses that the guard admitted; no others are used.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) tls: &'a ClientConfig,
    pub(crate) deadline: Instant,
    /// Values that must not appear in an error message, although the reply may repeat them.
    pub(crate) secrets: &'a [String],
}

pub(crate) async fn exchange(
    route: Route<'_>,
    build: impl FnOnce(&Client) -> RequestBuilder + Send,
) -> Exchange {
    let (deadline, secrets) = (route.deadline, route.secrets);
    let sending = match client(route) {
        Ok(client) => add_trace_header(build(&client)).send(),
        Err(error) => return Exchange::NotSent(root_cause(&error)),
    };
    match timeout_at(deadline, sending).await {
        Ok(Ok(response)) => Exchange::Replied(read_reply(response, deadline, secrets).await),
        // A builder error occurs before anything is sent, for example if two libraries disagree about a URL.
        Ok(Err(error)) if error.is_connect() || error.is_builder() => Exchange::NotSent(root_cause(&error)),
        Ok(Err(error)) => Exchange::NoReply(root_cause(&error)),
        Err(_) => Exchange::NoReply("no reply in time".to_owned()),
    }
}

fn client(route: Route<'_>) -> reqwest::Result<Client> {
    http_client::client()
        .pool_max_idle_per_host(0)
        .connect_timeout(connect_time(route.deadline))
        .dns_resolver(Arc::new(PinnedResolver(route.addresses)))
        .tls_backend_preconfigured(route.tls.clone())
        .build()
}

/// Shorter than the time left, so that a timeout of the whole request happens while waiting for the reply.
fn connect_time(deadline: Instant) -> Duration {
    let left = deadline.saturating_duration_since(Instant::now());
    (left / 4 * 3).min(CONNECT_MAX)
}

/// Resolves every name to the addresses that the guard admitted.
struct PinnedResolver(Vec<SocketAddr>);

impl Resolve for PinnedResolver {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

async fn read_reply(response: Response, deadline: Instant, secrets: &[String]) -> Reply {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = if status.is_success() {
        read_body(response, deadline).await
    } else {
        let start = read_start(response, deadline.min(Instant::now() + EXCERPT_MAX)).await;
        Body::Excerpt(excerpt(&start, secrets))
    };
    Reply { status, headers, body }
}

/// The start of the body, as far as it arrives in time.
async fn read_start(mut response: Response, until: Instant) -> BodyStart {
    let mut bytes = Vec::new();
    while bytes.len() < EXCERPT_BYTES_MAX {
        match timeout_at(until, response.chunk()).await {
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
            Ok(Ok(None)) => return BodyStart { bytes, is_whole: true },
            Ok(Err(_)) | Err(_) => break,
        }
    }
    BodyStart { bytes, is_whole: false }
}

async fn read_body(mut response: Response, deadline: Instant) -> Body {
    let mut bytes = Vec::new();
    loop {
        match timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
            Ok(Ok(None)) => return Body::Whole(bytes),
            Ok(Err(_)) | Err(_) => return Body::Incomplete,
        }
        if bytes.len() > REPLY_BYTES_MAX {
            return Body::TooLong;
        }
    }
}

/// The innermost cause. The outer reqwest error repeats the URL with its query.
fn root_cause(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else { return "the request could not be built".to_owned() };
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{RootCertStore, ServerConfig};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    // Self-signed P-256 certificate for `shop.invalid`, valid from 2020 to 2120. The key is not secret: only these
    // tests trust the certificate.
    const CERTIFICATE: &[u8] = include_bytes!("../../tests/tls/certificate.der");
    const KEY: &[u8] = include_bytes!("../../tests/tls/key.der");

    fn server_tls() -> TlsAcceptor {
        let key = PrivateKeyDer::try_from(KEY).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    fn client_tls() -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(CERTIFICATE)).unwrap();
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// Sends a request for `host` to a server with a certificate for `shop.invalid`. Also returns what the server saw.
    async fn send(host: &str) -> (Exchange, Option<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(serve_once(listener));
        let url = format!("https://{host}:{}/", address.port());
        let deadline = Instant::now() + Duration::from_secs(20);
        let route = Route { addresses: vec![address], tls: &client_tls(), deadline, secrets: &[] };
        (exchange(route, |client| client.get(url)).await, served.await.unwrap())
    }

    /// The SNI name and the request's head, if the handshake completed.
    async fn serve_once(listener: TcpListener) -> Option<String> {
        let (stream, _) = listener.accept().await.ok()?;
        let mut stream = server_tls().accept(stream).await.ok()?;
        let name = stream.get_ref().1.server_name()?.to_owned();
        let mut head = vec![0; 4096];
        let read = stream.read(&mut head).await.ok().filter(|read| *read > 0)?;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.ok()?;
        stream.shutdown().await.ok()?;
        Some(format!("{name} {}", String::from_utf8_lossy(&head[..read])))
    }

    #[tokio::test]
    async fn pinned_host_must_prove_its_name() {
        let (exchange, received) = send("shop.invalid").await;
        assert!(
            matches!(exchange, Exchange::Replied(reply) if matches!(&reply.body, Body::Whole(b) if b == b"ok"))
        );
        let received = received.unwrap();
        assert!(received.starts_with("shop.invalid GET / HTTP/1.1\r\n"), "{received}");
        assert!(received.contains("host: shop.invalid:"), "{received}");
    }

    #[tokio::test]
    async fn wrong_certificate_name_sends_nothing() {
        let (exchange, received) = send("bank.invalid").await;
        assert!(matches!(&exchange, Exchange::NotSent(why) if why.contains("certificate")), "{exchange:?}");
        assert_eq!(received, None);
    }
}
