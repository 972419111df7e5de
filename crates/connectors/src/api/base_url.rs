use std::fmt;
use std::str::FromStr;

use url::{Position, Url};

/// The base URL of an API: `https://acme.service-now.com`, `https://github.example.com/api/v3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

/// The errors do not repeat the text, because it may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBaseUrl {
    #[error("the base URL is not a URL")]
    Syntax,
    #[error("the base URL must begin with `http://` or `https://` and a host")]
    Scheme,
    #[error(
        "the base URL must consist of scheme, host, port and path; remove credentials, query and fragment"
    )]
    Extra,
}

impl BaseUrl {
    /// As a URL.
    pub fn url(&self) -> &Url {
        &self.0
    }

    pub(super) fn host(&self) -> &str {
        &self.0[Position::BeforeHost..Position::AfterPort]
    }

    /// The URL of `path`, which starts with a slash and may have a query.
    pub(crate) fn with_path(&self, path: &str) -> String {
        format!("{}{path}", self.0.as_str().trim_end_matches('/'))
    }

    /// Whether `url` has the scheme, host and port of the base URL, and a path below its path.
    pub(crate) fn contains(&self, url: &Url) -> bool {
        let own = self.0.path().trim_end_matches('/');
        let below = url.path().strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let without_user = url.username().is_empty() && url.password().is_none();
        self.0.origin() == url.origin() && below && without_user && !has_encoded_dots(url.path())
    }

    /// Whether a credential may be sent: the connection uses TLS, or stays on this machine.
    pub fn may_carry_secrets(&self) -> bool {
        http_client::is_safe(&self.0)
    }

    /// Appends `path` and `query`, with every part escaped.
    pub(crate) fn join(&self, path: &[String], query: &[(&'static str, String)]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }
}

/// Whether a server that decodes the path could leave the path of the base URL. `Url` resolves plain and encoded dot
/// segments, but not those with an encoded slash or backslash.
fn has_encoded_dots(path: &str) -> bool {
    let path = path.to_ascii_lowercase().replace("%2e", ".");
    let separators = path.replace("%2f", "/").replace("%5c", "/").replace('\\', "/");
    separators.split('/').any(|segment| segment == "..")
}

impl FromStr for BaseUrl {
    type Err = InvalidBaseUrl;

    fn from_str(text: &str) -> Result<Self, InvalidBaseUrl> {
        let url = Url::parse(text).map_err(|_| InvalidBaseUrl::Syntax)?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(InvalidBaseUrl::Scheme);
        }
        let extra = url.query().is_some() || url.fragment().is_some();
        if extra || !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidBaseUrl::Extra);
        }
        Ok(Self(url))
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_segments_are_escaped() {
        let base: BaseUrl = "https://ghe.example:8443/api/v3/".parse().unwrap();
        let joined = base.join(&["a/b".to_owned(), "ü?".to_owned()], &[("q", "x&y=z".to_owned())]);
        assert_eq!(joined.as_str(), "https://ghe.example:8443/api/v3/a%2Fb/%C3%BC%3F?q=x%26y%3Dz");
        assert_eq!(base.host(), "ghe.example:8443");
    }

    #[test]
    fn url_outside_the_base_is_recognized() {
        let base: BaseUrl = "https://api.example/v1".parse().unwrap();
        let contains = |url: &str| base.contains(&Url::parse(url).unwrap());
        for good in
            ["https://api.example/v1", "https://api.example/v1/a?b=/../c", "https://api.example:443/v1/"]
        {
            assert!(contains(good), "{good}");
        }
        for bad in [
            "http://api.example/v1/a",
            "https://api.example:8443/v1/a",
            "https://api.example.evil/v1/a",
            "https://api.example/v10",
            "https://api.example/v1/../admin",
            "https://api.example/v1/%2e%2e/admin",
            "https://api.example/v1/..%2fadmin",
            "https://api.example/v1/%2E%2E%5Cadmin",
            "https://user@api.example/v1/a",
        ] {
            assert!(!contains(bad), "{bad}");
        }
        assert_eq!(base.with_path("/a?b=c"), "https://api.example/v1/a?b=c");
    }

    #[test]
    fn base_url_error_does_not_repeat_credentials() {
        for bad in ["nonsense", "file:///etc", "https://u:hunter2@a/", "https://a/?k=hunter2", "https://a/#f"]
        {
            let error = bad.parse::<BaseUrl>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
