//! Who we are to an API.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::Failure;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use crate::absent::NOT_CONFIGURED;

/// What proves who we are. It never shows itself.
#[derive(Debug, Clone)]
pub enum Credential {
    /// Nothing: some servers in one's own network ask for nothing.
    Nobody,
    /// A user name and a password.
    Basic {
        /// The user name.
        user: String,
        /// The password.
        password: SecretString,
    },
    /// A token.
    Bearer(SecretString),
}

impl Credential {
    /// The value of `Authorization`.
    pub(super) fn header(&self) -> Result<Option<HeaderValue>, Failure> {
        let text = match self {
            Self::Nobody => return Ok(None),
            Self::Basic { user, password } => {
                let pair = format!("{user}:{}", password.expose_secret());
                format!("Basic {}", BASE64_STANDARD.encode(pair))
            }
            Self::Bearer(token) => format!("Bearer {}", token.expose_secret()),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            Failure::new(NOT_CONFIGURED, "the credential holds a character that no header may hold")
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_becomes_one_sensitive_header() {
        let basic = Credential::Basic { user: "ada".to_owned(), password: "hunter2".into() };
        let header = basic.header().unwrap().unwrap();
        assert_eq!(header.to_str().unwrap(), "Basic YWRhOmh1bnRlcjI=");
        assert!(header.is_sensitive());
        assert!(Credential::Nobody.header().unwrap().is_none());
    }

    #[test]
    fn a_credential_shows_itself_neither_in_debug_nor_in_errors() {
        for credential in [
            Credential::Basic { user: "ada".to_owned(), password: "hunter2".into() },
            Credential::Bearer("hunter2\r\nx: y".into()),
        ] {
            assert!(!format!("{credential:?} {:?}", credential.header()).contains("hunter2"));
        }
        assert!(Credential::Bearer("a\nb".into()).header().is_err());
    }
}
