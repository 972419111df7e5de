//! What the operator tells us about the systems outside: where they are, and by which name each secret is
//! found. The text holds no secret itself, and this crate reads none: whoever asks hands in a way to look one
//! up by its name, be it the environment or a secret store.

mod oidc;
mod rotating;
#[cfg(feature = "aws")]
pub mod secrets;
mod server;
mod shows;

use std::collections::BTreeMap;
use std::sync::Arc;

use ::slack::{Pager, Slack};
use connectors::{Base, Credential, Settings, github, model, servicenow, slack};
use domain::TenantId;
use engine::Showing;
use secrecy::SecretString;
use serde::Deserialize;
use signing::Secrets;
use url::Url;

pub use oidc::{ClaimsConfig, LoginConfig, OidcConfig, SigningAlgorithm};
pub use rotating::Rotating;
pub use server::{Scheme, ServerConfig, SourceConfig};
pub use shows::InSlack;

/// A configuration is a page.
pub const BYTES_MAX: usize = 64 * 1024;

/// The systems outside.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Systems {
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
    base: String,
    user: Option<String>,
    password_env: Option<String>,
    token_env: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlackConfig {
    #[serde(default = "slack_com")]
    base: String,
    token_env: String,
    /// Where requests for approval are shown.
    channel: String,
    /// Whose clicks come in, and what each tenant's Slack signs with. Only the door looks at it.
    #[serde(default)]
    doors: Vec<SlackInstallationConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlackInstallationConfig {
    tenant: TenantId,
    #[serde(flatten)]
    signed_with: Rotating,
}

fn slack_com() -> String {
    "https://slack.com/api".to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PagerConfig {
    #[serde(default = "pagerduty_com")]
    base: String,
    routing_key_env: String,
}

fn pagerduty_com() -> String {
    ::slack::pager::PAGERDUTY.to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelConfig {
    base: String,
    shape: ModelShape,
    key_env: Option<String>,
    #[serde(default)]
    prices: BTreeMap<String, PriceConfig>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ModelShape {
    Bedrock,
    Completions,
}

/// In millionths of a US dollar for a million tokens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceConfig {
    input: u64,
    output: u64,
}

/// Looks a secret up by its name.
pub type LookUp<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why the systems cannot be used as they are described. No secret stands in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSystems {
    /// Not YAML, or not what is asked for.
    #[error("{0}")]
    Text(String),
    /// One of them cannot be used.
    #[error("`{name}` in the configuration cannot be used: {why}")]
    System {
        /// Which one.
        name: String,
        /// Why not.
        why: String,
    },
}

impl Systems {
    /// Reads a description.
    pub fn parse(text: &str) -> Result<Self, InvalidSystems> {
        serde_saphyr::from_str(text).map_err(|error| InvalidSystems::Text(error.to_string()))
    }

    /// What the tools need.
    pub fn settings(&self, look_up: LookUp<'_>) -> Result<Settings, InvalidSystems> {
        let system = |name: &str, system: &Option<System>| -> Result<_, InvalidSystems> {
            let Some(system) = system else { return Ok(None) };
            Ok(Some((base(name, &system.base)?, system.credential(name, look_up)?)))
        };
        Ok(Settings {
            servicenow: system("servicenow", &self.servicenow)?
                .map(|(base, credential)| servicenow::Settings { base, credential }),
            github: system("github", &self.github)?
                .map(|(base, credential)| github::Settings { base, credential }),
            slack: self.slack.as_ref().map(|slack| slack.tool(look_up)).transpose()?,
            model: self.models(look_up)?,
        })
    }

    fn models(&self, look_up: LookUp<'_>) -> Result<Option<model::Settings>, InvalidSystems> {
        if self.models.is_empty() {
            return Ok(None);
        }
        let provider =
            |(name, config): (&String, &ModelConfig)| Ok((name.clone(), config.provider(name, look_up)?));
        let providers = self.models.iter().map(provider).collect::<Result<_, InvalidSystems>>()?;
        Ok(Some(model::Settings { providers }))
    }

    /// What a server is told.
    pub fn server(&self) -> &ServerConfig {
        &self.server
    }

    /// Who shows people what they are asked.
    pub fn showing(&self, look_up: LookUp<'_>) -> Result<Showing, InvalidSystems> {
        Ok(self.slack(look_up)?.map(|slack| Arc::new(InSlack(slack)) as _))
    }

    /// Slack, if there is one.
    pub fn slack(&self, look_up: LookUp<'_>) -> Result<Option<Slack>, InvalidSystems> {
        let Some(config) = &self.slack else { return Ok(None) };
        let settings = ::slack::client::Settings {
            base_url: url("slack", &config.base)?,
            token: secret("slack", "token_env", &config.token_env, look_up)?,
            channel: config.channel.clone(),
        };
        let slack = Slack::new(settings).map_err(|error| wrong("slack", &error.to_string()))?;
        Ok(Some(match &self.pagerduty {
            Some(pager) => slack.with_pager(pager.client(look_up)?),
            None => slack,
        }))
    }

    /// The names of the secrets that each tenant's Slack signs with.
    pub fn slack_secret_names(&self) -> impl Iterator<Item = (&TenantId, &Rotating)> {
        self.slack.iter().flat_map(|slack| &slack.doors).map(|door| (&door.tenant, &door.signed_with))
    }

    /// What the Slack of each tenant signs its clicks with.
    pub fn slack_secrets(&self, look_up: LookUp<'_>) -> Result<Vec<(TenantId, Secrets)>, InvalidSystems> {
        let doors = self.slack.iter().flat_map(|slack| &slack.doors);
        doors.map(|door| Ok((door.tenant.clone(), door.signed_with.secrets("slack", look_up)?))).collect()
    }
}

impl System {
    fn credential(&self, name: &str, look_up: LookUp<'_>) -> Result<Credential, InvalidSystems> {
        match (&self.user, &self.password_env, &self.token_env) {
            (Some(user), Some(password), None) => Ok(Credential::Basic {
                user: user.clone(),
                password: secret(name, "password_env", password, look_up)?,
            }),
            (None, None, Some(token)) => Ok(Credential::Bearer(secret(name, "token_env", token, look_up)?)),
            (None, None, None) => Ok(Credential::Nobody),
            _ => Err(wrong(name, "give either `user` and `password_env`, or `token_env`")),
        }
    }
}

impl SlackConfig {
    fn tool(&self, look_up: LookUp<'_>) -> Result<slack::Settings, InvalidSystems> {
        let credential = Credential::Bearer(secret("slack", "token_env", &self.token_env, look_up)?);
        Ok(slack::Settings { base: base("slack", &self.base)?, credential })
    }
}

impl PagerConfig {
    fn client(&self, look_up: LookUp<'_>) -> Result<Pager, InvalidSystems> {
        let key = secret("pagerduty", "routing_key_env", &self.routing_key_env, look_up)?;
        Pager::new(&url("pagerduty", &self.base)?, key)
            .map_err(|error| wrong("pagerduty", &error.to_string()))
    }
}

impl ModelConfig {
    fn provider(&self, name: &str, look_up: LookUp<'_>) -> Result<model::Provider, InvalidSystems> {
        let credential = match &self.key_env {
            Some(key) => Credential::Bearer(secret(name, "key_env", key, look_up)?),
            None => Credential::Nobody,
        };
        let price =
            |price: &PriceConfig| model::Price { input_microusd: price.input, output_microusd: price.output };
        Ok(model::Provider {
            base: base(name, &self.base)?,
            shape: match self.shape {
                ModelShape::Bedrock => model::Shape::Bedrock,
                ModelShape::Completions => model::Shape::Completions,
            },
            credential,
            prices: self.prices.iter().map(|(model, config)| (model.clone(), price(config))).collect(),
        })
    }
}

pub(crate) fn wrong(name: &str, why: &str) -> InvalidSystems {
    InvalidSystems::System { name: name.to_owned(), why: why.to_owned() }
}

fn base(name: &str, text: &str) -> Result<Base, InvalidSystems> {
    text.parse().map_err(|error| wrong(name, &format!("{error}")))
}

fn url(name: &str, text: &str) -> Result<Url, InvalidSystems> {
    Url::parse(text).map_err(|error| wrong(name, &error.to_string()))
}

pub(crate) fn secret(
    name: &str,
    field: &str,
    from: &str,
    look_up: LookUp<'_>,
) -> Result<SecretString, InvalidSystems> {
    let missing = || wrong(name, &format!("`{field}` names {from}, which is not set"));
    look_up(from).map(SecretString::from).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Timestamp;

    fn config(text: &str) -> Systems {
        Systems::parse(text).unwrap()
    }

    #[test]
    fn a_secret_that_is_not_set_is_named_by_its_variable() {
        let config = config("servicenow: { base: 'https://acme.example', token_env: SN_TOKEN }");
        let error = config.settings(&|_| None).err().unwrap().to_string();
        assert!(error.contains("servicenow") && error.contains("SN_TOKEN"), "{error}");
    }

    #[test]
    fn every_system_can_be_named() {
        let config = config(
            "servicenow: { base: 'https://acme.example', user: svc, password_env: A }\n\
             github: { base: 'https://api.github.com', token_env: B }\n\
             slack: { token_env: C, channel: C0APPROVALS }\n\
             pagerduty: { routing_key_env: D }\n\
             models: { bedrock: { base: 'https://bedrock.example', shape: bedrock, key_env: E,\n\
               prices: { some-model: { input: 3000000, output: 15000000 } } } }\n",
        );
        let settings = config.settings(&|_| Some("secret-secret-secret".to_owned())).unwrap();
        assert!(settings.servicenow.is_some() && settings.github.is_some() && settings.slack.is_some());
        assert!(config.showing(&|_| Some("secret-secret-secret-secret-1234".to_owned())).unwrap().is_some());
        assert!(!format!("{config:?}").contains("secret-secret"));
    }

    #[test]
    fn an_unknown_field_is_refused() {
        for text in [
            "servicenow: { base: x, tokn_env: y }",
            "slack: { token_env: A, channel: C0, doors: [ { tenant: acme, secret_env: B, untill: C } ] }",
            "slack: { token_env: A, channel: C0, doors: [ { tenant: acme, secret_env: B, previous: { until: today, secret_env: C } } ] }",
        ] {
            assert!(Systems::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_tenant_signs_its_clicks_with_a_secret_of_its_own() {
        let config = config(
            "slack: { token_env: A, channel: C0APPROVALS, doors: [ { tenant: acme, secret_env: B }, \
             { tenant: umbrella, secret_env: C, previous: { secret_env: D, until: 2030-01-01T00:00:00Z } } ] }",
        );
        let secrets = config.slack_secrets(&|name| Some(format!("the signing secret {name}"))).unwrap();
        let tenants: Vec<_> = secrets.iter().map(|(tenant, _)| tenant.as_str()).collect();
        assert_eq!(tenants, ["acme", "umbrella"]);
        let now = Timestamp(0);
        assert!(secrets[1].1.is_shown("the signing secret C", now));
        assert!(secrets[1].1.is_shown("the signing secret D", now));
        assert!(!secrets[0].1.is_shown("the signing secret C", now));
    }
}
