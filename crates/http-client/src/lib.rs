//! The outbound HTTP client.
//!
//! One TLS configuration and one client builder for all outbound calls, and one check of where secrets may be sent.

pub mod sigv4;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use reqwest::{Client, ClientBuilder, redirect, retry};
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use url::{Host, Url};

/// A host that takes longer to accept a connection is treated as down.
const CONNECT_MAX: Duration = Duration::from_secs(5);

const USER_AGENT: &str = concat!("countersign/", env!("CARGO_PKG_VERSION"));

/// A client without proxies, redirects or retries. The caller sets the response timeout.
pub fn client() -> ClientBuilder {
    Client::builder()
        .user_agent(USER_AGENT)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        .retry(retry::never())
        .connect_timeout(CONNECT_MAX)
        .tls_backend_preconfigured(config())
}

/// TLS with ring and the root certificates of the operating system, which are read once.
///
/// On a machine without root certificates plain HTTP works and every TLS handshake fails.
pub fn config() -> ClientConfig {
    static CONFIG: LazyLock<ClientConfig> = LazyLock::new(read);
    CONFIG.clone()
}

fn read() -> ClientConfig {
    with_platform_roots().with_no_client_auth()
}

#[expect(clippy::expect_used, reason = "ring supports TLS 1.2 and 1.3")]
fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports TLS 1.2 and 1.3")
}

fn with_platform_roots() -> ConfigBuilder<ClientConfig, WantsClientCert> {
    builder()
        .with_platform_verifier()
        .unwrap_or_else(|_| builder().with_root_certificates(RootCertStore::empty()))
}

/// Why PEM text cannot be used. The messages do not repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPem {
    #[error("there is no valid certificate in PEM format")]
    Certificate,
    #[error("there is no private key in PEM format, or it does not belong to the certificate")]
    PrivateKey,
}

/// A client certificate with its private key, both in PEM.
#[derive(Debug, Clone)]
pub struct ClientIdentity {
    pub certificate: String,
    pub private_key: SecretString,
}

/// The configuration with these root certificates in place of those of the operating system, and this client certificate.
pub fn config_with(
    roots: Option<&str>,
    identity: Option<&ClientIdentity>,
) -> Result<ClientConfig, InvalidPem> {
    if roots.is_none() && identity.is_none() {
        return Ok(config());
    }
    let builder = match roots {
        Some(pem) => builder().with_root_certificates(root_store(pem)?),
        None => with_platform_roots(),
    };
    let Some(ClientIdentity { certificate, private_key }) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let key = PrivateKeyDer::from_pem_slice(private_key.expose_secret().as_bytes());
    let key = key.map_err(|_| InvalidPem::PrivateKey)?;
    builder.with_client_auth_cert(certificates(certificate)?, key).map_err(|_| InvalidPem::PrivateKey)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, InvalidPem> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    certificates.ok().filter(|found| !found.is_empty()).ok_or(InvalidPem::Certificate)
}

fn root_store(pem: &str) -> Result<RootCertStore, InvalidPem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|_| InvalidPem::Certificate)?;
    }
    Ok(roots)
}

/// Whether `url` may receive secrets and be trusted: it uses TLS, or is on this machine.
pub fn is_safe(url: &Url) -> bool {
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => url.has_host(),
        "http" => is_loopback,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use rustls::ServerConfig;
    use rustls::server::WebPkiClientVerifier;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsAcceptor;

    #[test]
    fn secrets_require_tls_or_loopback() {
        for good in ["https://slack.com", "http://127.0.0.1:80", "http://localhost:1", "http://[::1]:2"] {
            assert!(is_safe(&good.parse().unwrap()), "{good}");
        }
        for bad in [
            "http://slack.com",
            "ftp://127.0.0.1",
            "http://localhost.evil.example",
            "http://127.0.0.1.nip.io",
        ] {
            assert!(!is_safe(&bad.parse().unwrap()), "{bad}");
        }
    }

    // Self-signed P-256 certificate for `localhost`, valid from 2020 to 2120. The key is not secret: only tests trust the
    // certificate.
    const CERTIFICATE: &str = include_str!("../../credentials/tests/tls/certificate.pem");
    const KEY: &[u8] = include_bytes!("../../credentials/tests/tls/key.der");

    fn identity() -> ClientIdentity {
        let key = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            BASE64_STANDARD.encode(KEY)
        );
        ClientIdentity { certificate: CERTIFICATE.to_owned(), private_key: key.into() }
    }

    /// A server that requires the client certificate; returns the status, if there is one.
    async fn get(config: ClientConfig) -> Option<u16> {
        let roots = Arc::new(root_store(CERTIFICATE).unwrap());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build().unwrap();
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(CERTIFICATE).unwrap(), PrivateKeyDer::try_from(KEY).unwrap())
            .unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = async move {
            let (stream, _) = listener.accept().await.ok()?;
            let mut stream = TlsAcceptor::from(Arc::new(server)).accept(stream).await.ok()?;
            let length = stream.read(&mut [0; 4096]).await.ok()?;
            assert!(length > 0, "a request");
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .await
                .ok()?;
            stream.shutdown().await.ok()
        };
        let client = client().tls_backend_preconfigured(config).build().unwrap();
        let sent = client.get(format!("https://localhost:{port}/")).send();
        let (_, sent) = tokio::join!(serve, sent);
        sent.ok().map(|reply| reply.status().as_u16())
    }

    #[tokio::test]
    async fn client_certificate_and_private_authority_are_used() {
        assert_eq!(get(config_with(Some(CERTIFICATE), Some(&identity())).unwrap()).await, Some(200));
        assert_eq!(get(config_with(Some(CERTIFICATE), None).unwrap()).await, None, "no client certificate");
        assert_eq!(get(config_with(None, Some(&identity())).unwrap()).await, None, "an unknown authority");
    }

    #[test]
    fn invalid_pem_is_refused() {
        assert_eq!(config_with(Some("hunter2"), None).unwrap_err(), InvalidPem::Certificate);
        let no_key = ClientIdentity { private_key: "hunter2".into(), ..identity() };
        assert_eq!(config_with(None, Some(&no_key)).unwrap_err(), InvalidPem::PrivateKey);
        assert!(!format!("{no_key:?}").contains("hunter2"));
    }
}
