//! The secrets of a process: a JSON object of names and values, from AWS Secrets Manager or from a local file. No error
//! contains a secret.

use std::collections::BTreeMap;

use aws_sdk_secretsmanager::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_secretsmanager::{Client, Config};
use secrecy::{ExposeSecret as _, SecretString};

/// The prefix of a path to a local file.
const FILE_PREFIX: &str = "file:";

/// Secrets by name. `Debug` output contains no secret.
#[derive(Debug, Clone, Default)]
pub struct SecretMap(BTreeMap<String, SecretString>);

#[derive(Debug, thiserror::Error)]
pub enum SecretMapError {
    #[error("cannot read the secrets in {path}")]
    Read {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot fetch the secret {name} from Secrets Manager: {why}")]
    Fetch { name: String, why: String },
    #[error("cannot parse the secret: expected a JSON object of names and strings")]
    Shape,
}

impl SecretMap {
    /// The secrets under `name` in Secrets Manager, or in the file after `file:`.
    pub async fn open(name: &str, config: impl Into<Config>) -> Result<Self, SecretMapError> {
        match name.strip_prefix(FILE_PREFIX) {
            Some(path) => {
                let failed = |source| SecretMapError::Read { path: path.to_owned(), source };
                Self::parse(&std::fs::read_to_string(path).map_err(failed)?)
            }
            None => Self::fetch(name, &Client::from_conf(config.into())).await,
        }
    }

    async fn fetch(name: &str, client: &Client) -> Result<Self, SecretMapError> {
        let failed = |why: String| SecretMapError::Fetch { name: name.to_owned(), why };
        let got = client.get_secret_value().secret_id(name).send().await;
        let got = got.map_err(|error| failed(reason(&error)))?;
        Self::parse(got.secret_string().ok_or(SecretMapError::Shape)?)
    }

    fn parse(text: &str) -> Result<Self, SecretMapError> {
        let values: BTreeMap<String, String> =
            serde_json::from_str(text).map_err(|_| SecretMapError::Shape)?;
        Ok(Self(values.into_iter().map(|(name, value)| (name, value.into())).collect()))
    }

    pub fn look_up(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|secret| secret.expose_secret().to_owned()).filter(|secret| !secret.is_empty())
    }
}

/// The reason without any part of the response: for a response that it cannot parse, the SDK's own text contains the
/// response, and so possibly the secret.
fn reason<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> String {
    match error {
        SdkError::ServiceError(context) => {
            let error = context.err();
            format!(
                "{}: {}",
                error.code().unwrap_or("unknown error"),
                error.message().unwrap_or("no message")
            )
        }
        SdkError::TimeoutError(_) => "the request timed out".to_owned(),
        SdkError::DispatchFailure(_) => "the connection failed".to_owned(),
        SdkError::ResponseError(_) => "the response cannot be parsed".to_owned(),
        _ => "the request cannot be built".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_up_finds_a_secret_by_name() {
        let secrets = SecretMap::parse(r#"{"A":"one secret","B":""}"#).unwrap();
        assert_eq!(secrets.look_up("A").as_deref(), Some("one secret"));
        assert_eq!((secrets.look_up("B"), secrets.look_up("C")), (None, None));
    }

    #[test]
    fn errors_and_debug_contain_no_secret() {
        for text in ["hunter2", r#"{"A":["hunter2"]}"#, r#"{"A":"hunter2""#, r#"["hunter2"]"#] {
            let error = SecretMap::parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
        let secrets = SecretMap::parse(r#"{"A":"hunter2"}"#).unwrap();
        assert!(!format!("{secrets:?}").contains("hunter2"));
    }
}
