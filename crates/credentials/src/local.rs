//! Secrets that the process itself can read: named ones, from its environment or its secrets file, and local files.

use std::path::Path;

use async_trait::async_trait;
use domain::connection::SecretStore;
use domain::{SecretRef, TenantId};
use secrecy::zeroize::Zeroizing;

use crate::exchange::select;
use crate::{FetchedSecret, LockedSecret, SecretError, SecretSource};

/// The largest secret: a certificate chain with its key has about ten kilobytes.
const BYTES_MAX: u64 = 64 * 1024;

/// Looks up a named secret.
pub type LookUp = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The sources `env://` and `file://`.
pub struct LocalSecrets {
    look_up: LookUp,
}

impl LocalSecrets {
    /// `look_up` finds a named secret, for example in the environment.
    pub fn new(look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { look_up: Box::new(look_up) }
    }

    /// A secret of the operator, such as the one that a login to a store needs.
    pub(crate) async fn read(&self, secret: &SecretRef) -> Result<LockedSecret, SecretError> {
        let text = match secret.store() {
            SecretStore::Env => {
                let found = (self.look_up)(secret.path()).filter(|text| !text.is_empty());
                found.ok_or_else(|| SecretError::refused(secret, format!("{} is not set", secret.path())))?
            }
            SecretStore::File => read(secret).await?,
            SecretStore::Vault | SecretStore::AwsSm | SecretStore::AwsSsm => return Err(elsewhere(secret)),
        };
        select(secret, Zeroizing::new(text)).map_err(|problem| problem.of(secret))
    }
}

#[async_trait]
impl SecretSource for LocalSecrets {
    fn check(&self, _: &TenantId, secret: &SecretRef) -> Result<(), SecretError> {
        if secret.store().is_operators() { Ok(()) } else { Err(elsewhere(secret)) }
    }

    async fn fetch(&self, _: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, SecretError> {
        Ok(FetchedSecret::new(secret, self.read(secret).await?, None))
    }
}

fn elsewhere(secret: &SecretRef) -> SecretError {
    SecretError::refused(secret, format!("{}:// is not a local store", secret.store()))
}

/// The text of the file, without the line break at its end.
async fn read(secret: &SecretRef) -> Result<String, SecretError> {
    let path = Path::new(secret.path());
    let refused = |error: std::io::Error| SecretError::refused(secret, error.kind().to_string());
    let metadata = tokio::fs::metadata(path).await.map_err(refused)?;
    if !metadata.is_file() || metadata.len() > BYTES_MAX {
        return Err(SecretError::refused(
            secret,
            format!("it is no regular file of at most {BYTES_MAX} bytes"),
        ));
    }
    let mut text = tokio::fs::read_to_string(path).await.map_err(refused)?;
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;

    async fn fetch(reference: &str) -> Result<String, String> {
        let local =
            LocalSecrets::new(|name| (name == "TOKEN").then(|| r#"{"a": "hunter2", "n": 1}"#.to_owned()));
        let fetched = local.fetch(&"acme".parse().unwrap(), &reference.parse().unwrap()).await;
        fetched.map(|fetched| fetched.value.expose_secret().to_owned()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn named_secret_is_found_by_name_and_field() {
        assert_eq!(fetch("env://TOKEN#a").await.as_deref(), Ok("hunter2"));
        for (reference, why) in [
            ("env://TOKEN#n", "the field is not a string"),
            ("env://TOKEN#b", "it has no such field"),
            ("env://OTHER", "OTHER is not set"),
            ("vault://kv/a#b", "vault:// is not a local store"),
        ] {
            let error = fetch(reference).await.unwrap_err();
            assert!(
                error.contains(why) && error.contains(reference) && !error.contains("hunter2"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn file_is_read_again_at_each_fetch() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reference = format!("file://{}", file.path().display());
        for text in ["hunter2", "rotated"] {
            std::fs::write(file.path(), format!("{text}\n")).unwrap();
            assert_eq!(fetch(&reference).await.as_deref(), Ok(text));
        }
        let error = fetch("file:///nonexistent/secret").await.unwrap_err();
        assert!(error.contains("entity not found"), "{error}");
    }
}
