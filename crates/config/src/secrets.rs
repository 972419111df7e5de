//! The secrets of a function: one JSON object of names and values, from Secrets Manager or, on a laptop, from a
//! file. Nothing of it stands in any error.

use std::collections::BTreeMap;

use aws_sdk_secretsmanager::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_secretsmanager::{Client, Config};
use secrecy::{ExposeSecret as _, SecretString};

/// What a name begins with that is a path.
const FILE: &str = "file:";

/// Secrets by name. `Debug` shows none of them.
#[derive(Debug, Clone, Default)]
pub struct Named(BTreeMap<String, SecretString>);

/// Why there are no secrets.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("read the secrets in {path}")]
    Read {
        /// Which one.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Secrets Manager does not give it.
    #[error("fetch the secret {name}: {why}")]
    Fetch {
        /// Which one.
        name: String,
        /// Why not.
        why: String,
    },
    /// It is not an object of names and texts.
    #[error("the secret is not a JSON object of names and texts")]
    Shape,
}

impl Named {
    /// The secrets under `name` in Secrets Manager, or in the file after `file:`.
    pub async fn open(name: &str, config: impl Into<Config>) -> Result<Self, SecretError> {
        match name.strip_prefix(FILE) {
            Some(path) => {
                let failed = |source| SecretError::Read { path: path.to_owned(), source };
                Self::parse(&std::fs::read_to_string(path).map_err(failed)?)
            }
            None => Self::fetch(name, &Client::from_conf(config.into())).await,
        }
    }

    async fn fetch(name: &str, client: &Client) -> Result<Self, SecretError> {
        let failed = |why: String| SecretError::Fetch { name: name.to_owned(), why };
        let got = client.get_secret_value().secret_id(name).send().await;
        let got = got.map_err(|error| failed(told(&error)))?;
        Self::parse(got.secret_string().ok_or(SecretError::Shape)?)
    }

    fn parse(text: &str) -> Result<Self, SecretError> {
        let values: BTreeMap<String, String> = serde_json::from_str(text).map_err(|_| SecretError::Shape)?;
        Ok(Self(values.into_iter().map(|(name, value)| (name, value.into())).collect()))
    }

    /// The secret under `name`, if there is one.
    pub fn look_up(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|secret| secret.expose_secret().to_owned()).filter(|secret| !secret.is_empty())
    }
}

/// What `error` says, in words that hold nothing of the answer: the SDK shows all of one that it could not read, and that
/// may be the secret.
fn told<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> String {
    match error {
        SdkError::ServiceError(refused) => {
            let no = refused.err();
            format!("{}: {}", no.code().unwrap_or("refused"), no.message().unwrap_or("no reason is given"))
        }
        SdkError::TimeoutError(_) => "no answer in time".to_owned(),
        SdkError::DispatchFailure(_) => "Secrets Manager cannot be reached, or broke off".to_owned(),
        SdkError::ResponseError(_) => "the answer cannot be read".to_owned(),
        _ => "the request could not be made".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_by_its_name() {
        let named = Named::parse(r#"{"A":"one secret","B":""}"#).unwrap();
        assert_eq!(named.look_up("A").as_deref(), Some("one secret"));
        assert_eq!((named.look_up("B"), named.look_up("C")), (None, None));
    }

    #[test]
    fn no_secret_stands_in_an_error_or_in_debug() {
        for text in ["hunter2", r#"{"A":["hunter2"]}"#, r#"{"A":"hunter2""#, r#"["hunter2"]"#] {
            let error = Named::parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
        let named = Named::parse(r#"{"A":"hunter2"}"#).unwrap();
        assert!(!format!("{named:?}").contains("hunter2"));
    }
}
