use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::Failure;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use crate::not_configured::NOT_CONFIGURED;

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
}

impl Credential {
    /// The texts that must not appear in an error message, although a reply may repeat them.
    pub(super) fn secrets(&self) -> Vec<String> {
        match self {
            Self::Anonymous => Vec::new(),
            Self::Basic { user, password } => {
                let pair = format!("{user}:{}", password.expose_secret());
                vec![BASE64_STANDARD.encode(pair), password.expose_secret().to_owned()]
            }
            Self::Bearer(token) => vec![token.expose_secret().to_owned()],
        }
    }

    /// The value of the `Authorization` header.
    pub(super) fn header(&self) -> Result<Option<HeaderValue>, Failure> {
        let text = match self {
            Self::Anonymous => return Ok(None),
            Self::Basic { user, password } => {
                let pair = format!("{user}:{}", password.expose_secret());
                format!("Basic {}", BASE64_STANDARD.encode(pair))
            }
            Self::Bearer(token) => format!("Bearer {}", token.expose_secret()),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            Failure::new(
                NOT_CONFIGURED,
                "the credential contains a character that is not allowed in a header",
            )
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_becomes_one_sensitive_header() {
        let basic = Credential::Basic { user: "ada".to_owned(), password: "hunter2".into() };
        let header = basic.header().unwrap().unwrap();
        assert_eq!(header.to_str().unwrap(), "Basic YWRhOmh1bnRlcjI=");
        assert!(header.is_sensitive());
        assert!(Credential::Anonymous.header().unwrap().is_none());
    }

    #[test]
    fn debug_and_errors_do_not_show_the_credential() {
        for credential in [
            Credential::Basic { user: "ada".to_owned(), password: "hunter2".into() },
            Credential::Bearer("hunter2\r\nx: y".into()),
        ] {
            assert!(!format!("{credential:?} {:?}", credential.header()).contains("hunter2"));
        }
        assert!(Credential::Bearer("a\nb".into()).header().is_err());
    }
}
