use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::Failure;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use crate::connection::NOT_CONNECTED;

/// The credential for one API. Neither `Debug` nor errors show it.
#[derive(Debug, Clone)]
pub enum Credential {
    /// No credential, for servers in the operator's own network.
    Anonymous,
    Basic {
        user: String,
        password: SecretString,
    },
    Bearer(SecretString),
    /// A header with a key, such as `x-api-key`.
    Header {
        name: String,
        value: SecretString,
    },
}

impl Credential {
    /// The texts that must not appear in an error message, although a reply may repeat them.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match self {
            Self::Anonymous => Vec::new(),
            Self::Basic { user, password } => {
                let pair = format!("{user}:{}", password.expose_secret());
                vec![BASE64_STANDARD.encode(pair), password.expose_secret().to_owned()]
            }
            Self::Bearer(secret) | Self::Header { value: secret, .. } => {
                vec![secret.expose_secret().to_owned()]
            }
        }
    }

    /// The header that authenticates a request.
    pub(crate) fn header(&self) -> Result<Option<(HeaderName, HeaderValue)>, Failure> {
        let (name, text) = match self {
            Self::Anonymous => return Ok(None),
            Self::Basic { user, password } => {
                let pair = format!("{user}:{}", password.expose_secret());
                (AUTHORIZATION, format!("Basic {}", BASE64_STANDARD.encode(pair)))
            }
            Self::Bearer(token) => (AUTHORIZATION, format!("Bearer {}", token.expose_secret())),
            Self::Header { name, value } => {
                let invalid = |_| Failure::new(NOT_CONNECTED, "the connection names an invalid header");
                (name.parse().map_err(invalid)?, value.expose_secret().to_owned())
            }
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            Failure::new(NOT_CONNECTED, "the credential contains a character that is not allowed in a header")
        })?;
        value.set_sensitive(true);
        Ok(Some((name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_becomes_one_sensitive_header() {
        let basic = Credential::Basic { user: "ada".to_owned(), password: "hunter2".into() };
        let (name, header) = basic.header().unwrap().unwrap();
        assert_eq!(name, AUTHORIZATION);
        assert_eq!(header.to_str().unwrap(), "Basic YWRhOmh1bnRlcjI=");
        assert!(header.is_sensitive());
        let keyed = Credential::Header { name: "X-Api-Key".to_owned(), value: "hunter2".into() };
        let (name, header) = keyed.header().unwrap().unwrap();
        assert_eq!((name.as_str(), header.to_str().unwrap()), ("x-api-key", "hunter2"));
        assert!(header.is_sensitive());
        assert!(Credential::Anonymous.header().unwrap().is_none());
    }

    #[test]
    fn debug_and_errors_do_not_show_the_credential() {
        for credential in [
            Credential::Basic { user: "ada".to_owned(), password: "hunter2".into() },
            Credential::Bearer("hunter2\r\nx: y".into()),
            Credential::Header { name: "bad name".to_owned(), value: "hunter2".into() },
        ] {
            assert!(!format!("{credential:?} {:?}", credential.header()).contains("hunter2"));
        }
        assert!(Credential::Bearer("a\nb".into()).header().is_err());
    }
}
