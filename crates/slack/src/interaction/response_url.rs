//! The response URL of a click.
//!
//! Slack sends it in the signed payload. It is checked nevertheless, so that a leaked signing secret cannot make the
//! service post to arbitrary hosts.

use std::fmt;

use url::Url;

use super::InvalidInteraction;

/// The only origin that a response URL may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseOrigin {
    origin: url::Origin,
}

impl ResponseOrigin {
    #[expect(clippy::expect_used, reason = "the address is a constant")]
    pub fn slack() -> Self {
        let url = Url::parse("https://hooks.slack.com").expect("a valid URL");
        Self { origin: url.origin() }
    }

    /// The origin of a fake Slack.
    pub fn at(base_url: &Url) -> Self {
        Self { origin: base_url.origin() }
    }

    /// Parses a response URL and checks its origin.
    pub(super) fn parse_url(&self, text: &str) -> Result<ResponseUrl, InvalidInteraction> {
        let url = Url::parse(text).map_err(|_| InvalidInteraction::ResponseUrl)?;
        let has_credentials = !url.username().is_empty() || url.password().is_some();
        if has_credentials || !http_client::is_safe(&url) || url.origin() != self.origin {
            return Err(InvalidInteraction::ResponseUrl);
        }
        Ok(ResponseUrl(url))
    }
}

/// A URL that lets its holder reply to a click, so `Debug` does not show it.
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
