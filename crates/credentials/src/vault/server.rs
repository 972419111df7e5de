//! Requests to the server.

use std::path::Path;

use reqwest::header::HeaderValue;
use reqwest::{Client, Method, RequestBuilder};
use rustls::ClientConfig;
use secrecy::zeroize::Zeroizing;
use serde_json::Value;
use url::Url;

use super::{VaultConfig, VaultSetupError};
use crate::exchange::{Problem, Reply, SecretJson, exchange};

pub(super) struct Server {
    client: Client,
    /// Without a slash at its end.
    address: String,
}

/// A request, which can be sent again.
pub(super) struct Call {
    method: Method,
    /// Below `/v1/`.
    path: String,
    body: Option<Zeroizing<Vec<u8>>>,
}

impl Call {
    pub(super) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), body: None }
    }

    pub(super) fn with_body(method: Method, path: impl Into<String>, body: Value) -> Self {
        let body = Some(SecretJson::from(body).to_bytes());
        Self { method, path: path.into(), body }
    }
}

impl Server {
    pub(super) fn new(config: &VaultConfig) -> Result<Self, VaultSetupError> {
        let url = &config.address;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !http_client::is_safe(url) || !is_plain {
            return Err(VaultSetupError::Address);
        }
        let mut client = http_client::client();
        if let Some(path) = &config.ca_file {
            client = client.tls_backend_preconfigured(trusting(path)?);
        }
        let client = client.build().map_err(VaultSetupError::Client)?;
        Ok(Self { client, address: address(url) })
    }

    pub(super) async fn send(
        &self,
        call: &Call,
        namespace: Option<&str>,
        token: Option<&str>,
    ) -> Result<Reply, Problem> {
        let url = format!("{}/v1/{}", self.address, call.path);
        // An agent in front of Vault can require this header, which a browser does not send.
        let mut request = self.client.request(call.method.clone(), url).header("x-vault-request", "true");
        if let Some(namespace) = namespace {
            request = request.header("x-vault-namespace", namespace);
        }
        if let Some(token) = token {
            request = request.header("x-vault-token", sensitive(token)?);
        }
        if let Some(body) = &call.body {
            request = with_json(request, body);
        }
        exchange("Vault", request).await
    }
}

fn address(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

fn with_json(request: RequestBuilder, body: &[u8]) -> RequestBuilder {
    request.header("content-type", "application/json").body(body.to_vec())
}

fn sensitive(token: &str) -> Result<HeaderValue, Problem> {
    let invalid = |_| Problem::refused("the token of the login has invalid characters");
    let mut value = HeaderValue::from_str(token).map_err(invalid)?;
    value.set_sensitive(true);
    Ok(value)
}

/// TLS that trusts only the certificates in the file.
fn trusting(path: &Path) -> Result<ClientConfig, VaultSetupError> {
    let pem = std::fs::read_to_string(path);
    let pem = pem.map_err(|source| VaultSetupError::CaFile { path: path.to_owned(), source })?;
    http_client::config_with(Some(&pem), None).map_err(|_| VaultSetupError::Certificate(path.to_owned()))
}
