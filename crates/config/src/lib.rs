//! The operator's configuration of external systems: their addresses, and the name of each secret. The file contains no
//! secret. The caller passes a function that looks up a secret by its name, in the environment or in a secret store.

mod oidc;
mod rotating_secret;
#[cfg(feature = "aws")]
pub mod secrets;
mod server;
mod slack_notifier;

use std::collections::BTreeMap;
use std::sync::Arc;

use ::slack::{Pager, Slack};
use connectors::{BaseUrl, ConnectorSettings, Credential, github, model, servicenow, slack};
use domain::TenantId;
use engine::Notifier;
use secrecy::SecretString;
use serde::Deserialize;
use signing::Secrets;
use url::Url;

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
    servicenow: Option<System>,
    github: Option<System>,
    slack: Option<SlackConfig>,
    pagerduty: Option<PagerConfig>,
    #[serde(default)]
    models: BTreeMap<String, ModelConfig>,
    server: ServerConfig,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct System {
    base_url: String,
    user: Option<String>,
    password_env: Option<String>,
    token_env: Option<String>,
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelConfig {
    base_url: String,
    api: ModelApi,
    key_env: Option<String>,
    #[serde(default)]
    prices: BTreeMap<String, PriceConfig>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ModelApi {
    Bedrock,
    Completions,
}

/// In millionths of a US dollar per million tokens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceConfig {
    input: u64,
    output: u64,
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
        serde_saphyr::from_str(text).map_err(|error| ConfigError::Syntax(error.to_string()))
    }

    /// The settings of the tools.
    pub fn settings(&self, look_up: LookUp<'_>) -> Result<ConnectorSettings, ConfigError> {
        let system = |name: &str, system: &Option<System>| -> Result<_, ConfigError> {
            let Some(system) = system else { return Ok(None) };
            Ok(Some((base(name, &system.base_url)?, system.credential(name, look_up)?)))
        };
        Ok(ConnectorSettings {
            servicenow: system("servicenow", &self.servicenow)?
                .map(|(base, credential)| servicenow::ServiceNowSettings { base, credential }),
            github: system("github", &self.github)?
                .map(|(base, credential)| github::GitHubSettings { base, credential }),
            slack: self.slack.as_ref().map(|slack| slack.tool(look_up)).transpose()?,
            model: self.models(look_up)?,
        })
    }

    fn models(&self, look_up: LookUp<'_>) -> Result<Option<model::ModelSettings>, ConfigError> {
        if self.models.is_empty() {
            return Ok(None);
        }
        let provider =
            |(name, config): (&String, &ModelConfig)| Ok((name.clone(), config.provider(name, look_up)?));
        let providers = self.models.iter().map(provider).collect::<Result<_, ConfigError>>()?;
        Ok(Some(model::ModelSettings { providers }))
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
    pub fn slack_secrets(&self, look_up: LookUp<'_>) -> Result<Vec<(TenantId, Secrets)>, ConfigError> {
        let secrets = |config: &SlackInstallationConfig| {
            Ok((config.tenant.clone(), config.signing_secret.secrets("slack", look_up)?))
        };
        self.installations().map(secrets).collect()
    }

    fn installations(&self) -> impl Iterator<Item = &SlackInstallationConfig> {
        self.slack.iter().flat_map(|slack| &slack.installations)
    }
}

impl System {
    fn credential(&self, name: &str, look_up: LookUp<'_>) -> Result<Credential, ConfigError> {
        match (&self.user, &self.password_env, &self.token_env) {
            (Some(user), Some(password), None) => Ok(Credential::Basic {
                user: user.clone(),
                password: secret(name, "password_env", password, look_up)?,
            }),
            (None, None, Some(token)) => Ok(Credential::Bearer(secret(name, "token_env", token, look_up)?)),
            (None, None, None) => Ok(Credential::Anonymous),
            _ => Err(invalid(name, "set either `user` and `password_env`, or `token_env`")),
        }
    }
}

impl SlackConfig {
    fn tool(&self, look_up: LookUp<'_>) -> Result<slack::SlackToolSettings, ConfigError> {
        let credential = Credential::Bearer(secret("slack", "token_env", &self.token_env, look_up)?);
        Ok(slack::SlackToolSettings { base: base("slack", &self.base_url)?, credential })
    }
}

impl PagerConfig {
    fn client(&self, look_up: LookUp<'_>) -> Result<Pager, ConfigError> {
        let key = secret("pagerduty", "routing_key_env", &self.routing_key_env, look_up)?;
        Pager::new(&url("pagerduty", &self.base_url)?, key)
            .map_err(|error| invalid("pagerduty", &error.to_string()))
    }
}

impl ModelConfig {
    fn provider(&self, name: &str, look_up: LookUp<'_>) -> Result<model::Provider, ConfigError> {
        let credential = match &self.key_env {
            Some(key) => Credential::Bearer(secret(name, "key_env", key, look_up)?),
            None => Credential::Anonymous,
        };
        let price =
            |price: &PriceConfig| model::Price { input_microusd: price.input, output_microusd: price.output };
        Ok(model::Provider {
            base: base(name, &self.base_url)?,
            format: match self.api {
                ModelApi::Bedrock => model::ApiFormat::Bedrock,
                ModelApi::Completions => model::ApiFormat::Completions,
            },
            credential,
            prices: self.prices.iter().map(|(model, config)| (model.clone(), price(config))).collect(),
        })
    }
}

pub(crate) fn invalid(name: &str, why: &str) -> ConfigError {
    ConfigError::System { name: name.to_owned(), why: why.to_owned() }
}

fn base(name: &str, text: &str) -> Result<BaseUrl, ConfigError> {
    text.parse().map_err(|error| invalid(name, &format!("{error}")))
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
    use domain::Timestamp;

    fn config(text: &str) -> SystemsConfig {
        SystemsConfig::parse(text).unwrap()
    }

    #[test]
    fn missing_secret_names_its_variable() {
        let config = config("servicenow: { base_url: 'https://acme.example', token_env: SN_TOKEN }");
        let error = config.settings(&|_| None).err().unwrap().to_string();
        assert!(error.contains("servicenow") && error.contains("SN_TOKEN"), "{error}");
    }

    #[test]
    fn every_system_can_be_configured() {
        let config = config(
            "servicenow: { base_url: 'https://acme.example', user: svc, password_env: A }\n\
             github: { base_url: 'https://api.github.com', token_env: B }\n\
             slack: { token_env: C, channel: C0APPROVALS }\n\
             pagerduty: { routing_key_env: D }\n\
             models: { bedrock: { base_url: 'https://bedrock.example', api: bedrock, key_env: E,\n\
               prices: { some-model: { input: 3000000, output: 15000000 } } } }\n",
        );
        let settings = config.settings(&|_| Some("secret-secret-secret".to_owned())).unwrap();
        assert!(settings.servicenow.is_some() && settings.github.is_some() && settings.slack.is_some());
        assert!(config.notifier(&|_| Some("secret-secret-secret-secret-1234".to_owned())).unwrap().is_some());
        assert!(!format!("{config:?}").contains("secret-secret"));
    }

    #[test]
    fn unknown_field_is_rejected() {
        for text in [
            "servicenow: { base_url: x, tokn_env: y }",
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
