//! TLS with a private certificate authority.

use std::net::SocketAddr;
use std::sync::Arc;

use credentials::VaultSource;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::kit::{KV, approle, config, context, fetch, outage, value, vault};

// Self-signed P-256 certificate for `localhost`, valid from 2020 to 2120. The key is not secret: only this test trusts
// the certificate.
const CERTIFICATE: &[u8] = include_bytes!("../tls/certificate.pem");
const KEY: &[u8] = include_bytes!("../tls/key.der");

/// A port that accepts TLS and passes the bytes on to `server`.
async fn with_tls(server: SocketAddr) -> u16 {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::try_from(KEY).unwrap())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut client) = acceptor.accept(stream).await else { return };
                let Ok(mut server) = TcpStream::connect(server).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn private_authority_is_trusted_if_configured() {
    let (vault, _) = vault().await;
    let port = with_tls(vault.url().strip_prefix("http://").unwrap().parse().unwrap()).await;
    let ca_file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/certificate.pem");
    let open = |host: &str, other| {
        VaultSource::open(config(&format!("https://{host}:{port}"), &approle(), &other), context()).unwrap()
    };
    assert_eq!(value(&open("localhost", json!({ "ca_file": ca_file })), KV).await, "hunter2");
    let seen = vault.requests().len();
    for (host, other) in [("localhost", json!({})), ("127.0.0.1", json!({ "ca_file": ca_file }))] {
        let why = outage(fetch(&open(host, other), KV).await);
        assert!(why.contains("certificate"), "{why}");
    }
    assert_eq!(vault.requests().len(), seen, "nothing is sent to a server that proves no name");
}
