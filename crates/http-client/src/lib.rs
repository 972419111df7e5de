//! The outbound HTTP client.
//!
//! One TLS configuration and one client builder for all outbound calls, and one check of where secrets may be sent.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use reqwest::{Client, ClientBuilder, redirect, retry};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
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

#[expect(clippy::expect_used, reason = "ring supports TLS 1.2 and 1.3")]
fn read() -> ClientConfig {
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring supports TLS 1.2 and 1.3")
    };
    builder()
        .with_platform_verifier()
        .unwrap_or_else(|_| builder().with_root_certificates(RootCertStore::empty()))
        .with_no_client_auth()
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
}
