//! The operator's configuration of external systems: their addresses, and the name of each secret. The file contains no
//! secret. The caller passes a function that looks up a secret by its name, in the environment or in a secret store.

mod connections;
mod oidc;
mod rotating_secret;
#[cfg(feature = "aws")]
pub mod secrets;
mod server;
mod slack_notifier;

use std::collections::BTreeMap;
use std::sync::Arc;

use ::slack::{Pager, Slack};
use connectors::OperatorConnections;
use credentials::{
    AwsKeySource, AwsSecrets, AwsSecretsConfig, LocalSecrets, NoAwsKeys, Now, Secrets, Sources, VaultConfig,
    VaultContext, VaultSource,
};
use domain::connection::SecretStore;
use domain::{TenantId, Timestamp};
use engine::{ConnectionParts, Notifier};
use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use connections::{ConnectionConfig, TenantConfig};

pub use oidc::{ClaimsConfig, LoginConfig, OidcConfig, SigningAlgorithm};
pub use rotating_secret::RotatingSecret;
pub use server::{Scheme, ServerConfig, SourceConfig};
pub use slack_notifier::SlackNotifier;

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
    slack: Option<SlackConfig>,
    pagerduty: Option<PagerConfig>,
    server: ServerConfig,
    /// Not part of the file. The configuration of a process without a file says nothing about the workers.
    #[serde(skip)]
    is_from_file: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlackConfig {
    #[serde(default = "slack_com")]
    base_url: String,
    token_env: String,
    /// The channel for approval requests.
    channel: String,
    /// The address of the console. A card that is too long for Slack links to it.
    console_url: Option<String>,
    /// The signing secret of each tenant's Slack app. Read only where Slack requests are received.
    #[serde(default)]
    installations: Vec<SlackInstallationConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlackInstallationConfig {
    tenant: TenantId,
    #[serde(flatten)]
    signing_secret: RotatingSecret,
}

fn slack_com() -> String {
    "https://slack.com/api".to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PagerConfig {
    #[serde(default = "pagerduty_com")]
    base_url: String,
    routing_key_env: String,
}

fn pagerduty_com() -> String {
    ::slack::pager::PAGERDUTY.to_owned()
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
        connections::operator_connections(&self.connections, &self.tenants, look_up)
    }

    /// The connections, for a process that executes no steps and has no secrets.
    pub fn connections_without_secrets(&self) -> Result<ConnectionParts, ConfigError> {
        let operator = Arc::new(self.connections(&|_| Some("not needed".to_owned()))?);
        Ok(ConnectionParts { operator, is_complete: self.is_from_file, ..ConnectionParts::default() })
    }

    /// The connections, with the sources of their secrets.
    pub fn connection_parts(
        &self,
        look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        process: ProcessContext,
    ) -> Result<ConnectionParts, ConfigError> {
        let operator = Arc::new(self.connections(&look_up)?);
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

    /// The notifier for approval requests.
    pub fn notifier(&self, look_up: LookUp<'_>) -> Result<Notifier, ConfigError> {
        Ok(self.slack(look_up)?.map(|slack| Arc::new(SlackNotifier(slack)) as _))
    }

    /// The Slack client, if Slack is configured.
    pub fn slack(&self, look_up: LookUp<'_>) -> Result<Option<Slack>, ConfigError> {
        let Some(config) = &self.slack else { return Ok(None) };
        let settings = ::slack::client::SlackClientSettings {
            base_url: url("slack", &config.base_url)?,
            token: secret("slack", "token_env", &config.token_env, look_up)?,
            channel: config.channel.clone(),
        };
        let slack = Slack::new(settings).map_err(|error| invalid("slack", &error.to_string()))?;
        let slack = match &config.console_url {
            Some(console) => slack.with_console(url("slack", console)?),
            None => slack,
        };
        Ok(Some(match &self.pagerduty {
            Some(pager) => slack.with_pager(pager.client(look_up)?),
            None => slack,
        }))
    }

    /// The names of each tenant's Slack signing secrets.
    pub fn slack_secret_names(&self) -> impl Iterator<Item = (&TenantId, &RotatingSecret)> {
        self.installations().map(|installation| (&installation.tenant, &installation.signing_secret))
    }

    /// Each tenant's Slack signing secrets.
    pub fn slack_secrets(
        &self,
        look_up: LookUp<'_>,
    ) -> Result<Vec<(TenantId, signing::Secrets)>, ConfigError> {
        let secrets = |config: &SlackInstallationConfig| {
            Ok((config.tenant.clone(), config.signing_secret.secrets("slack", look_up)?))
        };
        self.installations().map(secrets).collect()
    }

    fn installations(&self) -> impl Iterator<Item = &SlackInstallationConfig> {
        self.slack.iter().flat_map(|slack| &slack.installations)
    }
}

impl PagerConfig {
    fn client(&self, look_up: LookUp<'_>) -> Result<Pager, ConfigError> {
        let key = secret("pagerduty", "routing_key_env", &self.routing_key_env, look_up)?;
        Pager::new(&url("pagerduty", &self.base_url)?, key)
            .map_err(|error| invalid("pagerduty", &error.to_string()))
    }
}

pub(crate) fn invalid(name: &str, why: &str) -> ConfigError {
    ConfigError::System { name: name.to_owned(), why: why.to_owned() }
}

fn url(name: &str, text: &str) -> Result<Url, ConfigError> {
    Url::parse(text).map_err(|error| invalid(name, &error.to_string()))
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
    fn slack_and_pagerduty_can_be_configured() {
        let config =
            config("slack: { token_env: C, channel: C0APPROVALS }\npagerduty: { routing_key_env: D }\n");
        assert!(config.notifier(&|_| Some("secret-secret-secret-secret-1234".to_owned())).unwrap().is_some());
        assert!(!format!("{config:?}").contains("secret-secret"));
    }

    #[test]
    fn unknown_field_is_rejected() {
        for text in [
            "servicenow: { base_url: x }",
            "connections: [ { name: a, kind: github, base_url: 'https://a', enviroment: dev } ]",
            "slack: { token_env: A, channel: C0, installations: [ { tenant: acme, secret_env: B, untill: C } ] }",
            "slack: { token_env: A, channel: C0, installations: [ { tenant: acme, secret_env: B, previous: { until: today, secret_env: C } } ] }",
        ] {
            assert!(SystemsConfig::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_tenant_has_its_own_slack_secret() {
        let config = config(
            "slack: { token_env: A, channel: C0APPROVALS, installations: [ { tenant: acme, secret_env: B }, \
             { tenant: umbrella, secret_env: C, previous: { secret_env: D, until: 2030-01-01T00:00:00Z } } ] }",
        );
        let secrets = config.slack_secrets(&|name| Some(format!("the signing secret {name}"))).unwrap();
        let tenants: Vec<_> = secrets.iter().map(|(tenant, _)| tenant.as_str()).collect();
        assert_eq!(tenants, ["acme", "umbrella"]);
        let now = Timestamp(0);
        assert!(secrets[1].1.matches("the signing secret C", now));
        assert!(secrets[1].1.matches("the signing secret D", now));
        assert!(!secrets[0].1.matches("the signing secret C", now));
    }
}
