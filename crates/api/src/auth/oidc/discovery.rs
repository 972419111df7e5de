//! What the provider says of itself: where people log in, where codes are exchanged, where its keys are.

use std::sync::Arc;

use domain::{Millis, Timestamp};
use serde_json::Value;
use tokio::sync::Mutex;
use url::Url;

use super::http::{Line, Unreachable};

/// Where a provider says it.
const WELL_KNOWN: &str = ".well-known/openid-configuration";

/// It changes when a provider moves, which takes weeks.
const LASTS: Millis = Millis::mins(15);

/// A provider that did not answer is asked again after so long: people wait at the login page.
const ASK_AGAIN_AFTER: Millis = Millis::secs(5);

/// Where the provider is spoken to about what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::auth) struct Document {
    /// Where people log in.
    pub(in crate::auth) authorization: Url,
    /// Where a code is exchanged for tokens.
    pub(in crate::auth) token: Url,
    /// Where its keys are.
    pub(super) key_set: Url,
    /// Whether it wants our secret in the form, and takes it in no header.
    pub(in crate::auth) takes_the_secret_in_the_form: bool,
}

impl Document {
    /// What `said` says, if `issuer` says it, to the letter.
    fn read(said: &Value, issuer: &str) -> Result<Self, &'static str> {
        if said.get("issuer").and_then(Value::as_str) != Some(issuer) {
            return Err("what the identity provider says of itself names another issuer");
        }
        let address = |name: &str| {
            let url: Option<Url> = said.get(name)?.as_str()?.parse().ok();
            // Else somebody on the way could read or exchange what is sent there.
            url.filter(http_client::is_safe)
        };
        let missing = "what the identity provider says of itself lacks an address with https";
        let ways = said.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
        let takes = |way: &str| ways.is_some_and(|ways| ways.iter().any(|known| known.as_str() == Some(way)));
        Ok(Self {
            authorization: address("authorization_endpoint").ok_or(missing)?,
            token: address("token_endpoint").ok_or(missing)?,
            key_set: address("jwks_uri").ok_or(missing)?,
            takes_the_secret_in_the_form: takes("client_secret_post") && !takes("client_secret_basic"),
        })
    }
}

/// Asks the provider about itself, now and then.
pub(super) struct Discovery {
    issuer: String,
    url: Url,
    line: Line,
    /// Held by whoever asks.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    document: Option<(Arc<Document>, Timestamp)>,
    failed_at: Option<Timestamp>,
}

impl Discovery {
    /// What `issuer` says of itself; nothing, if anybody on the way could say it.
    pub(super) fn new(issuer: &str, line: Line) -> Option<Self> {
        let url: Url = format!("{}/{WELL_KNOWN}", issuer.trim_end_matches('/')).parse().ok()?;
        let plain = url.query().is_none() && url.fragment().is_none();
        (plain && http_client::is_safe(&url)).then(|| Self {
            issuer: issuer.to_owned(),
            url,
            line,
            known: Mutex::default(),
        })
    }

    /// What the provider says of itself. While it does not answer, what it said last.
    pub(super) async fn document(&self, now: Timestamp) -> Result<Arc<Document>, Unreachable> {
        let mut known = self.known.lock().await;
        if let Some((document, at)) = &known.document
            && now < *at + LASTS
        {
            return Ok(Arc::clone(document));
        }
        let asked = match known.failed_at.filter(|at| now < *at + ASK_AGAIN_AFTER) {
            Some(_) => Err(Unreachable::Lately),
            None => self.ask().await,
        };
        match (asked, &known.document) {
            (Ok(document), _) => {
                let document = Arc::new(document);
                *known = Known { document: Some((Arc::clone(&document), now)), failed_at: None };
                Ok(document)
            }
            (Err(error), old) => {
                let old = old.as_ref().map(|(document, _)| Arc::clone(document));
                if !matches!(error, Unreachable::Lately) {
                    known.failed_at = Some(now);
                }
                old.ok_or(error)
            }
        }
    }

    async fn ask(&self) -> Result<Document, Unreachable> {
        let said = self.line.get(self.url.clone()).await?;
        Document::read(&said, &self.issuer).map_err(Unreachable::Says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ISSUER: &str = "https://id.example.com/acme";

    fn said() -> Value {
        json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://id.example.com/authorize",
            "token_endpoint": "https://id.example.com/token",
            "jwks_uri": "https://keys.example.com/keys",
        })
    }

    #[test]
    fn a_provider_speaks_for_itself_alone_and_names_addresses_that_are_safe() {
        assert_eq!(Document::read(&said(), ISSUER).unwrap().token.path(), "/token");
        assert!(Document::read(&said(), "https://id.example.com/acme/").is_err());
        for name in ["authorization_endpoint", "token_endpoint", "jwks_uri", "issuer"] {
            for value in
                [json!("http://id.example.com/x"), json!("javascript:alert(1)"), json!(7), json!(null)]
            {
                let mut said = said();
                said[name] = value;
                assert!(Document::read(&said, ISSUER).is_err(), "{said}");
            }
        }
    }

    #[test]
    fn our_secret_goes_into_a_header_unless_only_the_form_will_do() {
        let in_the_form = |ways: Value| {
            let mut said = said();
            said["token_endpoint_auth_methods_supported"] = ways;
            Document::read(&said, ISSUER).unwrap().takes_the_secret_in_the_form
        };
        assert!(in_the_form(json!(["client_secret_post"])));
        assert!(!in_the_form(json!(["client_secret_post", "client_secret_basic"])));
        assert!(!in_the_form(json!(null)));
    }

    #[test]
    fn an_issuer_is_an_address_that_is_safe() {
        for issuer in
            ["http://id.example.com", "id.example.com", "", "https://id.example.com?a=b", "file:///etc"]
        {
            assert!(Discovery::new(issuer, Line::new().unwrap()).is_none(), "{issuer}");
        }
        assert!(Discovery::new(ISSUER, Line::new().unwrap()).is_some());
        assert!(Discovery::new("http://127.0.0.1:8080", Line::new().unwrap()).is_some());
    }
}
