//! How we reach others over the network.
//!
//! One configuration of TLS and one client of HTTP for everything that is ours, and one answer to where a secret may be sent.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use reqwest::{Client, ClientBuilder, redirect, retry};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use url::{Host, Url};

/// A host that takes longer to accept a connection is down.
const CONNECT_MAX: Duration = Duration::from_secs(5);

const USER_AGENT: &str = concat!("countersign/", env!("CARGO_PKG_VERSION"));

/// A client that goes where it is sent and nowhere else: through no proxy, along no redirect, and no second time unless
/// whoever uses it says so. How long an answer may take is theirs to say.
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

/// TLS with ring, trusting what the operating system trusts. The certificates are read once.
///
/// Without any root certificate on the machine, plain http still works, and every handshake fails.
pub fn config() -> ClientConfig {
    static CONFIG: LazyLock<ClientConfig> = LazyLock::new(read);
    CONFIG.clone()
}

#[expect(clippy::expect_used, reason = "ring has suites for both versions of TLS that are asked for")]
fn read() -> ClientConfig {
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows TLS 1.2 and 1.3")
    };
    builder()
        .with_platform_verifier()
        .unwrap_or_else(|_| builder().with_root_certificates(RootCertStore::empty()))
        .with_no_client_auth()
}

/// Whether a secret may be sent to `url`, and what comes from there believed: over TLS, or on this very machine.
pub fn is_safe(url: &Url) -> bool {
    let here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => url.has_host(),
        "http" => here,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_over_tls_or_stay_on_this_machine() {
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
