//! One request on one new connection, and the reply to it.
//!
//! What matters is how far it got: as long as no connection stands, nothing can have been sent, and from
//! then on everything may have been. There is no pool, no proxy, no redirect and no silent second try, so
//! that the one is told from the other by where the error came from.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, RequestBuilder, Response};
use rustls::ClientConfig;
use tokio::time::{Instant, timeout_at};

use super::reply::{Body, Reply};

/// What later steps can work with; larger things belong into a file store, by pointer.
pub(crate) const REPLY_BYTES_MAX: usize = 1024 * 1024;

/// A host that takes longer to accept a connection is down.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How far a request got.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// No connection came to stand, so nothing was sent.
    NotSent(String),
    /// It may have been sent; no reply came.
    NoReply(String),
    /// A reply came.
    Replied(Reply),
}

/// How a request gets there.
#[derive(Debug)]
pub(crate) struct Route<'a> {
    /// The only addresses to connect to.
    pub(crate) addresses: Vec<SocketAddr>,
    /// How to speak TLS.
    pub(crate) tls: &'a ClientConfig,
    /// It must be over by then.
    pub(crate) deadline: Instant,
}

/// Sends the request that `build` makes, once.
pub(crate) async fn exchange(
    route: Route<'_>,
    build: impl FnOnce(&Client) -> RequestBuilder + Send,
) -> Exchange {
    let deadline = route.deadline;
    let sending = match client(route) {
        Ok(client) => build(&client).send(),
        Err(error) => return Exchange::NotSent(innermost(&error)),
    };
    match timeout_at(deadline, sending).await {
        Ok(Ok(response)) => Exchange::Replied(read(response, deadline).await),
        // A builder error is found before anybody is called: a URL that one library takes and another does not.
        Ok(Err(error)) if error.is_connect() || error.is_builder() => Exchange::NotSent(innermost(&error)),
        Ok(Err(error)) => Exchange::NoReply(innermost(&error)),
        Err(_) => Exchange::NoReply("no reply in time".to_owned()),
    }
}

fn client(route: Route<'_>) -> reqwest::Result<Client> {
    http_client::client()
        .pool_max_idle_per_host(0)
        .connect_timeout(connect_time(route.deadline))
        .dns_resolver(Arc::new(Pinned(route.addresses)))
        .tls_backend_preconfigured(route.tls.clone())
        .build()
}

/// Shorter than what is left, so that running out of time means: while waiting for the reply.
fn connect_time(deadline: Instant) -> Duration {
    let left = deadline.saturating_duration_since(Instant::now());
    (left / 4 * 3).min(CONNECT_MAX)
}

/// Answers every question with the addresses that were found and judged before.
struct Pinned(Vec<SocketAddr>);

impl Resolve for Pinned {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

async fn read(response: Response, deadline: Instant) -> Reply {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = if status.is_success() { read_body(response, deadline).await } else { Body::Unread };
    Reply { status, headers, body }
}

async fn read_body(mut response: Response, deadline: Instant) -> Body {
    let mut bytes = Vec::new();
    loop {
        match timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
            Ok(Ok(None)) => return Body::Whole(bytes),
            Ok(Err(_)) | Err(_) => return Body::BrokenOff,
        }
        if bytes.len() > REPLY_BYTES_MAX {
            return Body::TooLong;
        }
    }
}

/// The cause at the bottom. What stands above it, reqwest's own error, repeats the URL, query and all.
fn innermost(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else { return "the request could not be made".to_owned() };
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

    // Made once with openssl: P-256, signed by itself, for `shop.invalid` only, good from 2020 to 2120. The key
    // is no secret, because nothing but these tests trusts the certificate.
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

    /// Asks a server that proves itself as `shop.invalid`, by the name `host`; also what the server saw.
    async fn ask(host: &str) -> (Exchange, Option<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(serve_once(listener));
        let url = format!("https://{host}:{}/", address.port());
        let deadline = Instant::now() + Duration::from_secs(20);
        let route = Route { addresses: vec![address], tls: &client_tls(), deadline };
        (exchange(route, |client| client.get(url)).await, served.await.unwrap())
    }

    /// The name asked for in the handshake and the request's head, if the handshake came to an end.
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
    async fn a_pinned_host_still_proves_its_name() {
        let (exchange, seen) = ask("shop.invalid").await;
        assert!(
            matches!(exchange, Exchange::Replied(reply) if matches!(&reply.body, Body::Whole(b) if b == b"ok"))
        );
        let seen = seen.unwrap();
        assert!(seen.starts_with("shop.invalid GET / HTTP/1.1\r\n"), "{seen}");
        assert!(seen.contains("host: shop.invalid:"), "{seen}");
    }

    #[tokio::test]
    async fn a_host_that_proves_another_name_is_sent_nothing() {
        let (exchange, seen) = ask("bank.invalid").await;
        assert!(matches!(&exchange, Exchange::NotSent(why) if why.contains("certificate")), "{exchange:?}");
        assert_eq!(seen, None);
    }
}
