//! What the operator tells a worker about the systems outside: where they are, and which environment
//! variable holds each credential. The file holds no secret itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use connectors::{Base, Credential, Settings, github, model, servicenow, slack};
use domain::{Approval, Card};
use engine::{NotShown, Showing, Shows};
use notify::{Pager, Slack};
use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use crate::error::CliError;
use crate::input::read_file;

/// A configuration is a page.
const CONFIG_BYTES_MAX: usize = 64 * 1024;

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    servicenow: Option<System>,
    github: Option<System>,
    slack: Option<SlackConfig>,
    pagerduty: Option<PagerConfig>,
    #[serde(default)]
    models: BTreeMap<String, ModelConfig>,
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
    notify::pager::PAGERDUTY.to_owned()
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

/// Looks an environment variable up.
pub(crate) type Variable = fn(&str) -> Option<String>;

impl Config {
    /// Reads the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let bytes = read_file(path, &path.display().to_string(), CONFIG_BYTES_MAX)?;
        let text = String::from_utf8(bytes).map_err(|_| CliError::NotText { path: path.into() })?;
        serde_saphyr::from_str(&text)
            .map_err(|error| CliError::Usage(format!("{} cannot be used: {error}", path.display())))
    }

    /// What the tools need.
    pub(crate) fn settings(&self, variable: Variable) -> Result<Settings, CliError> {
        let system = |name: &str, system: &Option<System>| -> Result<_, CliError> {
            let Some(system) = system else { return Ok(None) };
            Ok(Some((base(name, &system.base)?, system.credential(name, variable)?)))
        };
        Ok(Settings {
            servicenow: system("servicenow", &self.servicenow)?
                .map(|(base, credential)| servicenow::Settings { base, credential }),
            github: system("github", &self.github)?
                .map(|(base, credential)| github::Settings { base, credential }),
            slack: self.slack.as_ref().map(|slack| slack.tool(variable)).transpose()?,
            model: self.models(variable)?,
        })
    }

    fn models(&self, variable: Variable) -> Result<Option<model::Settings>, CliError> {
        if self.models.is_empty() {
            return Ok(None);
        }
        let provider =
            |(name, config): (&String, &ModelConfig)| Ok((name.clone(), config.provider(name, variable)?));
        let providers = self.models.iter().map(provider).collect::<Result<_, CliError>>()?;
        Ok(Some(model::Settings { providers }))
    }

    /// Who shows people what they are asked.
    pub(crate) fn showing(&self, variable: Variable) -> Result<Showing, CliError> {
        let Some(config) = &self.slack else { return Ok(None) };
        let settings = notify::client::Settings {
            base_url: url("slack", &config.base)?,
            token: secret("slack", "token_env", &config.token_env, variable)?,
            channel: config.channel.clone(),
        };
        let slack = Slack::new(settings).map_err(|error| wrong("slack", &error.to_string()))?;
        let slack = match &self.pagerduty {
            Some(pager) => slack.with_pager(pager.client(variable)?),
            None => slack,
        };
        Ok(Some(Arc::new(InSlack(slack))))
    }
}

impl System {
    fn credential(&self, name: &str, variable: Variable) -> Result<Credential, CliError> {
        match (&self.user, &self.password_env, &self.token_env) {
            (Some(user), Some(password), None) => Ok(Credential::Basic {
                user: user.clone(),
                password: secret(name, "password_env", password, variable)?,
            }),
            (None, None, Some(token)) => Ok(Credential::Bearer(secret(name, "token_env", token, variable)?)),
            (None, None, None) => Ok(Credential::Nobody),
            _ => Err(wrong(name, "give either `user` and `password_env`, or `token_env`")),
        }
    }
}

impl SlackConfig {
    fn tool(&self, variable: Variable) -> Result<slack::Settings, CliError> {
        let credential = Credential::Bearer(secret("slack", "token_env", &self.token_env, variable)?);
        Ok(slack::Settings { base: base("slack", &self.base)?, credential })
    }
}

impl PagerConfig {
    fn client(&self, variable: Variable) -> Result<Pager, CliError> {
        let key = secret("pagerduty", "routing_key_env", &self.routing_key_env, variable)?;
        Pager::new(&url("pagerduty", &self.base)?, key)
            .map_err(|error| wrong("pagerduty", &error.to_string()))
    }
}

impl ModelConfig {
    fn provider(&self, name: &str, variable: Variable) -> Result<model::Provider, CliError> {
        let credential = match &self.key_env {
            Some(key) => Credential::Bearer(secret(name, "key_env", key, variable)?),
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

fn wrong(name: &str, why: &str) -> CliError {
    CliError::Usage(format!("`{name}` in the configuration cannot be used: {why}"))
}

fn base(name: &str, text: &str) -> Result<Base, CliError> {
    text.parse().map_err(|error| wrong(name, &format!("{error}")))
}

fn url(name: &str, text: &str) -> Result<Url, CliError> {
    Url::parse(text).map_err(|error| wrong(name, &error.to_string()))
}

fn secret(name: &str, field: &str, from: &str, variable: Variable) -> Result<SecretString, CliError> {
    let missing = || wrong(name, &format!("`{field}` names the variable {from}, which is not set"));
    variable(from).map(SecretString::from).ok_or_else(missing)
}

/// Slack, as the engine knows it.
struct InSlack(Slack);

#[async_trait]
impl Shows for InSlack {
    async fn show(&self, approval: &Approval, card: Option<&Card>) -> Result<Card, NotShown> {
        self.0.show(approval, card).await.map_err(|error| NotShown {
            approval: approval.id.clone(),
            why: engine::told(&error),
            so_far: error.so_far,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn a_secret_that_is_not_set_is_named_by_its_variable() {
        let config = config("servicenow: { base: 'https://acme.example', token_env: SN_TOKEN }");
        let error = config.settings(|_| None).err().unwrap().to_string();
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
        let settings = config.settings(|_| Some("secret-secret-secret".to_owned())).unwrap();
        assert!(settings.servicenow.is_some() && settings.github.is_some() && settings.slack.is_some());
        assert!(config.showing(|_| Some("secret-secret-secret-secret-1234".to_owned())).unwrap().is_some());
        assert!(!format!("{config:?}").contains("secret-secret"));
    }

    #[test]
    fn an_unknown_field_is_refused() {
        assert!(serde_saphyr::from_str::<Config>("servicenow: { base: x, tokn_env: y }").is_err());
    }
}
