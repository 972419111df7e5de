//! Where an API is.

use std::fmt;
use std::str::FromStr;

use url::{Position, Url};

/// The base URL of an API: `https://acme.service-now.com`, `https://github.example.com/api/v3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base(Url);

/// Why a text is no base URL. The text is not repeated: somebody may have put a password into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBase {
    /// Not a URL.
    #[error("the base URL is not a URL")]
    Syntax,
    /// Neither http nor https, or without a host.
    #[error("the base URL must begin with `http://` or `https://` and a host")]
    Scheme,
    /// A name or password before the host, a query or a fragment.
    #[error("the base URL must be scheme, host, port and path alone, without credentials or a query")]
    Extra,
}

impl Base {
    pub(super) fn url(&self) -> &Url {
        &self.0
    }

    pub(super) fn host(&self) -> &str {
        &self.0[Position::BeforeHost..Position::AfterPort]
    }

    /// The URL of `path` with `query`, each part escaped.
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

impl FromStr for Base {
    type Err = InvalidBase;

    fn from_str(text: &str) -> Result<Self, InvalidBase> {
        let url = Url::parse(text).map_err(|_| InvalidBase::Syntax)?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(InvalidBase::Scheme);
        }
        let extra = url.query().is_some() || url.fragment().is_some();
        if extra || !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidBase::Extra);
        }
        Ok(Self(url))
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_joined_segment_by_segment_and_escaped() {
        let base: Base = "https://ghe.example:8443/api/v3/".parse().unwrap();
        let joined = base.join(&["a/b".to_owned(), "ü?".to_owned()], &[("q", "x&y=z".to_owned())]);
        assert_eq!(joined.as_str(), "https://ghe.example:8443/api/v3/a%2Fb/%C3%BC%3F?q=x%26y%3Dz");
        assert_eq!(base.host(), "ghe.example:8443");
    }

    #[test]
    fn a_base_url_holds_no_credentials_and_an_error_does_not_repeat_them() {
        for bad in ["nonsense", "file:///etc", "https://u:hunter2@a/", "https://a/?k=hunter2", "https://a/#f"]
        {
            let error = bad.parse::<Base>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
