//! The operator's configuration of external systems: their addresses, and the name of each secret. The file contains no
//! secret. The caller passes a function that looks up a secret by its name, in the environment or in a secret store.

mod connections;
mod notifier;
mod oidc;
mod rotating_secret;
#[cfg(feature = "aws")]
pub mod secrets;
mod server;

use std::collections::BTreeMap;
use std::sync::Arc;

use connectors::OperatorConnections;
use credentials::{
    AwsSecrets, AwsSecretsConfig, LocalSecrets, Now, Secrets, Sources, VaultConfig, VaultContext, VaultSource,
};
use domain::connection::{ExpiringSecret, SecretStore};
use domain::{SecretRef, TenantId, Timestamp};
use engine::{ConnectionParts, Notifier};
use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use connections::{ConnectionConfig, NeededSecrets, TenantConfig};

#[cfg(feature = "aws")]
pub use credentials::SdkKeys;
pub use credentials::{AwsKeySource, NoAwsKeys};
pub use notifier::ConnectionNotifier;
pub use oidc::{ClaimsConfig, LoginConfig, OidcConfig, SigningAlgorithm};
pub use rotating_secret::RotatingSecret;
pub use server::{Scheme, ServerConfig, SourceConfig};

/// The size limit of a configuration file. A typical one has a few kilobytes.
pub const BYTES_MAX: usize = 64 * 1024;

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SystemsConfig {
    connections: Vec<ConnectionConfig>,
    tenants: BTreeMap<TenantId, TenantConfig>,
    vault: Option<VaultConfig>,
    aws_secrets: Option<AwsSecretsConfig>,
    /// The address of the console. Approval cards link to it.
    console_url: Option<String>,
    server: ServerConfig,
    /// Not part of the file. The configuration of a process without a file says nothing about the workers.
    #[serde(skip)]
    is_from_file: bool,
}

/// What the sources of secrets need from the process.
#[derive(Clone)]
pub struct ProcessContext {
    /// The AWS identity of the process.
    pub aws: Arc<dyn AwsKeySource>,
    /// Reads the time.
    pub now: Now,
}

impl ProcessContext {
    /// A process without an AWS identity.
    pub fn without_aws(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { aws: Arc::new(NoAwsKeys), now: Arc::new(now) }
    }
}

/// Looks up a secret by its name.
pub type LookUp<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why the configuration cannot be used. The texts contain no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Invalid YAML, or a missing or unknown field.
    #[error("{0}")]
    Syntax(String),
    #[error("`{name}` in the configuration is invalid: {why}")]
    System { name: String, why: String },
}

impl SystemsConfig {
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        // An excerpt of the file could show a secret that was written in the place of a reference.
        let mut options = serde_saphyr::Options::default();
        options.with_snippet = false;
        let parsed: Self = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| ConfigError::Syntax(error.to_string()))?;
        Ok(Self { is_from_file: true, ..parsed })
    }

    /// The connections, and what the admins of each tenant may name. Fails for a named secret that does not exist.
    pub fn connections(&self, look_up: LookUp<'_>) -> Result<OperatorConnections, ConfigError> {
        self.operator_connections((NeededSecrets::Credentials, look_up))
    }

    fn operator_connections(
        &self,
        needed: (NeededSecrets, LookUp<'_>),
    ) -> Result<OperatorConnections, ConfigError> {
        connections::operator_connections(&self.connections, &self.tenants, needed)
    }

    /// The connections, for a process that executes no steps and has no secrets.
    pub fn connections_without_secrets(&self) -> Result<ConnectionParts, ConfigError> {
        let operator = Arc::new(self.operator_connections((NeededSecrets::None, &|_| None))?);
        Ok(ConnectionParts { operator, is_complete: self.is_from_file, ..ConnectionParts::default() })
    }

    /// The connections, with the sources of their secrets.
    pub fn connection_parts(
        &self,
        look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        process: ProcessContext,
    ) -> Result<ConnectionParts, ConfigError> {
        self.parts_with(NeededSecrets::Credentials, look_up, process)
    }

    /// The connections, for a process that receives requests from Slack. It needs the secrets of Slack alone.
    pub fn slack_connection_parts(
        &self,
        look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        process: ProcessContext,
    ) -> Result<ConnectionParts, ConfigError> {
        self.parts_with(NeededSecrets::Slack, look_up, process)
    }

    fn parts_with(
        &self,
        needed: NeededSecrets,
        look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        process: ProcessContext,
    ) -> Result<ConnectionParts, ConfigError> {
        let operator = Arc::new(self.operator_connections((needed, &look_up))?);
        let secrets = self.sources(LocalSecrets::new(look_up), process)?;
        Ok(ConnectionParts { operator, is_complete: self.is_from_file, secrets: Arc::new(secrets) })
    }

    fn sources(&self, local: LocalSecrets, process: ProcessContext) -> Result<Sources, ConfigError> {
        let local = Arc::new(local);
        let ProcessContext { aws, now } = process;
        let of_process: Secrets = Arc::clone(&local) as _;
        let mut sources = Sources::default().with([SecretStore::Env, SecretStore::File], &of_process);
        if let Some(config) = &self.vault {
            let context = VaultContext { local, aws: Arc::clone(&aws), now: Arc::clone(&now) };
            let vault = VaultSource::open(config.clone(), context);
            let vault = vault.map_err(|error| invalid("vault", &engine::error_chain(&error)))?;
            sources = sources.with([SecretStore::Vault], &(Arc::new(vault) as Secrets));
        }
        if let Some(config) = &self.aws_secrets {
            let aws =
                AwsSecrets::new(config.clone(), aws, now).map_err(|why| invalid("aws_secrets", &why))?;
            let stores = [SecretStore::AwsSm, SecretStore::AwsSsm];
            sources = sources.with(stores, &(Arc::new(aws) as Secrets));
        }
        Ok(sources)
    }

    pub fn server(&self) -> &ServerConfig {
        &self.server
    }

    /// The notifier of approvers.
    pub fn notifier(&self) -> Result<Notifier, ConfigError> {
        Ok(Some(Arc::new(ConnectionNotifier { console: self.console()? })))
    }

    /// The address of the console.
    pub fn console(&self) -> Result<Option<Url>, ConfigError> {
        let parse =
            |text: &String| Url::parse(text).map_err(|error| invalid("console_url", &error.to_string()));
        self.console_url.as_ref().map(parse).transpose()
    }

    /// The signing secrets of the Slack apps that the operator configured, by tenant: the current one and the previous one.
    pub fn slack_secret_names(
        &self,
    ) -> impl Iterator<Item = (&TenantId, &SecretRef, Option<&ExpiringSecret>)> {
        self.connections.iter().filter_map(ConnectionConfig::slack_secrets)
    }
}

pub(crate) fn invalid(name: &str, why: &str) -> ConfigError {
    ConfigError::System { name: name.to_owned(), why: why.to_owned() }
}

pub(crate) fn secret(
    name: &str,
    field: &str,
    from: &str,
    look_up: LookUp<'_>,
) -> Result<SecretString, ConfigError> {
    let missing = || invalid(name, &format!("`{field}` names {from}, which is not set"));
    look_up(from).map(SecretString::from).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> SystemsConfig {
        SystemsConfig::parse(text).unwrap()
    }

    #[test]
    fn console_address_is_checked() {
        assert!(config("console_url: 'https://countersign.acme.example'").notifier().is_ok());
        let error = config("console_url: countersign").console().unwrap_err().to_string();
        assert!(error.contains("console_url"), "{error}");
    }

    #[test]
    fn unknown_field_is_rejected() {
        for text in [
            "servicenow: { base_url: x }",
            "slack: { token_env: A, channel: C0 }",
            "pagerduty: { routing_key_env: A }",
            "connections: [ { name: a, kind: github, base_url: 'https://a', enviroment: dev } ]",
            "connections: [ { name: a, kind: slack, base_url: 'https://a', options: { chanel: C0 } } ]",
        ] {
            assert!(SystemsConfig::parse(text).is_err(), "{text}");
        }
    }
}
