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
    pub(super) fn url(&self) -> &Url {
        &self.0
    }

    pub(super) fn host(&self) -> &str {
        &self.0[Position::BeforeHost..Position::AfterPort]
    }

    /// Appends `path` and `query`, with every part escaped.
    pub(super) fn join(&self, path: &[String], query: &[(&'static str, String)]) -> Url {
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
    fn base_url_error_does_not_repeat_credentials() {
        for bad in ["nonsense", "file:///etc", "https://u:hunter2@a/", "https://a/?k=hunter2", "https://a/#f"]
        {
            let error = bad.parse::<BaseUrl>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
