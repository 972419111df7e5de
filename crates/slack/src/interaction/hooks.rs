//! Where an answer to a click may be sent.
//!
//! The address comes with the click. It is Slack's word under Slack's signature, and is checked all the same:
//! a leaked signing secret must not turn us into somebody who posts wherever he is told.

use std::fmt;

use url::Url;

use super::InvalidInteraction;

/// The host that answers may be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hooks {
    origin: url::Origin,
}

impl Hooks {
    /// Slack's own.
    #[expect(clippy::expect_used, reason = "the address is a constant")]
    pub fn slack() -> Self {
        let url = Url::parse("https://hooks.slack.com").expect("a URL");
        Self { origin: url.origin() }
    }

    /// Those of a Slack that stands at `base_url`, for tests and a laptop.
    pub fn at(base_url: &Url) -> Self {
        Self { origin: base_url.origin() }
    }

    /// `text` as an address, if it leads there.
    pub(super) fn admit(&self, text: &str) -> Result<ResponseUrl, InvalidInteraction> {
        let url = Url::parse(text).map_err(|_| InvalidInteraction::ResponseUrl)?;
        let named = !url.username().is_empty() || url.password().is_some();
        if named || !http_client::is_safe(&url) || url.origin() != self.origin {
            return Err(InvalidInteraction::ResponseUrl);
        }
        Ok(ResponseUrl(url))
    }
}

/// An address that whoever knows it can answer a click with; so `Debug` does not tell it.
#[derive(Clone, PartialEq, Eq)]
pub struct ResponseUrl(Url);

impl ResponseUrl {
    pub(crate) fn url(&self) -> &Url {
        &self.0
    }
}

impl fmt::Debug for ResponseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseUrl(..)")
    }
}
