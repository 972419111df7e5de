use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::{Failure, Timestamp};
use http_client::sigv4::{AwsKeys, SigningScope, UnsignedRequest, sign};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use crate::connection::NOT_CONNECTED;

/// The credential for one API. Neither `Debug` nor errors show it.
#[derive(Debug, Clone)]
pub enum Credential {
    /// No credential in the requests: for servers in the operator's own network, and with a client certificate.
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
    /// Signs each request for AWS.
    AwsSigv4 {
        keys: AwsKeys,
        region: String,
        service: String,
        at: Timestamp,
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
            Self::AwsSigv4 { keys, .. } => {
                let secrets = [Some(&keys.secret_access_key), keys.session_token.as_ref()];
                secrets.into_iter().flatten().map(|secret| secret.expose_secret().to_owned()).collect()
            }
        }
    }

    /// The headers that authenticate `request`.
    pub(crate) fn headers(
        &self,
        request: UnsignedRequest<'_>,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
        let pair = match self {
            Self::Anonymous => return Ok(Vec::new()),
            Self::Basic { user, password } => {
                let pair = format!("{user}:{}", password.expose_secret());
                (AUTHORIZATION, format!("Basic {}", BASE64_STANDARD.encode(pair)))
            }
            Self::Bearer(token) => (AUTHORIZATION, format!("Bearer {}", token.expose_secret())),
            Self::Header { name, value } => (header_name(name)?, value.expose_secret().to_owned()),
            Self::AwsSigv4 { keys, region, service, at } => {
                let time = at.to_string().replace(['-', ':'], "");
                let signed = sign(SigningScope { region, service, time: &time }, keys, request);
                let sensitive =
                    |(name, value): (String, String)| Ok((header_name(&name)?, sensitive(&value)?));
                return signed.into_iter().map(sensitive).collect();
            }
        };
        Ok(vec![(pair.0, sensitive(&pair.1)?)])
    }
}

fn header_name(name: &str) -> Result<HeaderName, Failure> {
    name.parse().map_err(|_| Failure::new(NOT_CONNECTED, "the connection names an invalid header"))
}

fn sensitive(text: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        Failure::new(NOT_CONNECTED, "the credential contains a character that is not allowed in a header")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(credential: &Credential) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
        let url = "https://api.example/v1".parse().unwrap();
        credential.headers(UnsignedRequest { method: "GET", url: &url, headers: &[], body: b"" })
    }

    fn only_header(credential: &Credential) -> (HeaderName, HeaderValue) {
        let [header] = headers(credential).unwrap().try_into().unwrap();
        header
    }

    #[test]
    fn credential_becomes_one_sensitive_header() {
        let basic = Credential::Basic { user: "ada".to_owned(), password: "hunter2".into() };
        let (name, header) = only_header(&basic);
        assert_eq!(name, AUTHORIZATION);
        assert_eq!(header.to_str().unwrap(), "Basic YWRhOmh1bnRlcjI=");
        assert!(header.is_sensitive());
        let keyed = Credential::Header { name: "X-Api-Key".to_owned(), value: "hunter2".into() };
        let (name, header) = only_header(&keyed);
        assert_eq!((name.as_str(), header.to_str().unwrap()), ("x-api-key", "hunter2"));
        assert!(header.is_sensitive());
        assert!(headers(&Credential::Anonymous).unwrap().is_empty());
    }

    #[test]
    fn debug_and_errors_do_not_show_the_credential() {
        for credential in [
            Credential::Basic { user: "ada".to_owned(), password: "hunter2".into() },
            Credential::Bearer("hunter2\r\nx: y".into()),
            Credential::Header { name: "bad name".to_owned(), value: "hunter2".into() },
        ] {
            assert!(!format!("{credential:?} {:?}", headers(&credential)).contains("hunter2"));
        }
        assert!(headers(&Credential::Bearer("a\nb".into())).is_err());
    }
}
