//! The discovery document of the identity provider.

use std::sync::Arc;

use domain::{Millis, Timestamp};
use serde_json::Value;
use tokio::sync::Mutex;
use url::Url;

use super::http::{ProviderClient, ProviderError};

/// The path of the discovery document.
const WELL_KNOWN: &str = ".well-known/openid-configuration";

/// The document rarely changes.
const DOCUMENT_TTL: Millis = Millis::mins(15);

/// The delay before another request after a failure. It is short, because users wait for the login page.
const RETRY_AFTER: Millis = Millis::secs(5);

/// The endpoints of the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::auth) struct Document {
    /// The authorization endpoint.
    pub(in crate::auth) authorization: Url,
    /// The token endpoint.
    pub(in crate::auth) token: Url,
    /// The key set.
    pub(super) jwks_url: Url,
    /// Whether the provider accepts the client secret only in the form, not in a header.
    pub(in crate::auth) secret_in_form: bool,
}

impl Document {
    /// Reads the document. The issuer in it must equal `issuer` exactly.
    fn read(document: &Value, issuer: &str) -> Result<Self, &'static str> {
        if document.get("issuer").and_then(Value::as_str) != Some(issuer) {
            return Err("the discovery document names another issuer");
        }
        let address = |name: &str| {
            let url: Option<Url> = document.get(name)?.as_str()?.parse().ok();
            // Otherwise an attacker on the network could read or replace the traffic.
            url.filter(http_client::is_safe)
        };
        let missing = "the discovery document lacks an endpoint with https";
        let methods = document.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
        let supports = |method: &str| {
            methods.is_some_and(|methods| methods.iter().any(|known| known.as_str() == Some(method)))
        };
        Ok(Self {
            authorization: address("authorization_endpoint").ok_or(missing)?,
            token: address("token_endpoint").ok_or(missing)?,
            jwks_url: address("jwks_uri").ok_or(missing)?,
            secret_in_form: supports("client_secret_post") && !supports("client_secret_basic"),
        })
    }
}

/// Fetches and caches the discovery document.
pub(super) struct Discovery {
    issuer: String,
    url: Url,
    client: ProviderClient,
    /// Locked during a request.
    cached: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    document: Option<(Arc<Document>, Timestamp)>,
    failed_at: Option<Timestamp>,
}

impl Discovery {
    /// None if the address of `issuer` is not safe.
    pub(super) fn new(issuer: &str, client: ProviderClient) -> Option<Self> {
        let url: Url = format!("{}/{WELL_KNOWN}", issuer.trim_end_matches('/')).parse().ok()?;
        let plain = url.query().is_none() && url.fragment().is_none();
        (plain && http_client::is_safe(&url)).then(|| Self {
            issuer: issuer.to_owned(),
            url,
            client,
            cached: Mutex::default(),
        })
    }

    /// The document. While the provider does not respond, the cached one.
    pub(super) async fn document(&self, now: Timestamp) -> Result<Arc<Document>, ProviderError> {
        let mut cached = self.cached.lock().await;
        if let Some((document, at)) = &cached.document
            && now < *at + DOCUMENT_TTL
        {
            return Ok(Arc::clone(document));
        }
        let fetched = match cached.failed_at.filter(|at| now < *at + RETRY_AFTER) {
            Some(_) => Err(ProviderError::RecentlyFailed),
            None => self.fetch().await,
        };
        match (fetched, &cached.document) {
            (Ok(document), _) => {
                let document = Arc::new(document);
                *cached = Cached { document: Some((Arc::clone(&document), now)), failed_at: None };
                Ok(document)
            }
            (Err(error), old) => {
                let old = old.as_ref().map(|(document, _)| Arc::clone(document));
                if !matches!(error, ProviderError::RecentlyFailed) {
                    cached.failed_at = Some(now);
                }
                old.ok_or(error)
            }
        }
    }

    async fn fetch(&self) -> Result<Document, ProviderError> {
        let document = self.client.get(self.url.clone()).await?;
        Document::read(&document, &self.issuer).map_err(ProviderError::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ISSUER: &str = "https://id.example.com/acme";

    fn document() -> Value {
        json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://id.example.com/authorize",
            "token_endpoint": "https://id.example.com/token",
            "jwks_uri": "https://keys.example.com/keys",
        })
    }

    #[test]
    fn document_needs_its_own_issuer_and_safe_urls() {
        assert_eq!(Document::read(&document(), ISSUER).unwrap().token.path(), "/token");
        assert!(Document::read(&document(), "https://id.example.com/acme/").is_err());
        for name in ["authorization_endpoint", "token_endpoint", "jwks_uri", "issuer"] {
            for value in
                [json!("http://id.example.com/x"), json!("javascript:alert(1)"), json!(7), json!(null)]
            {
                let mut document = document();
                document[name] = value;
                assert!(Document::read(&document, ISSUER).is_err(), "{document}");
            }
        }
    }

    #[test]
    fn secret_is_sent_in_the_header_by_default() {
        let in_form = |methods: Value| {
            let mut document = document();
            document["token_endpoint_auth_methods_supported"] = methods;
            Document::read(&document, ISSUER).unwrap().secret_in_form
        };
        assert!(in_form(json!(["client_secret_post"])));
        assert!(!in_form(json!(["client_secret_post", "client_secret_basic"])));
        assert!(!in_form(json!(null)));
    }

    #[test]
    fn issuer_must_be_a_safe_url() {
        for issuer in
            ["http://id.example.com", "id.example.com", "", "https://id.example.com?a=b", "file:///etc"]
        {
            assert!(Discovery::new(issuer, ProviderClient::new().unwrap()).is_none(), "{issuer}");
        }
        assert!(Discovery::new(ISSUER, ProviderClient::new().unwrap()).is_some());
        assert!(Discovery::new("http://127.0.0.1:8080", ProviderClient::new().unwrap()).is_some());
    }
}
