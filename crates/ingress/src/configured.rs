//! Webhook and Slack authentication built from the operator's configuration.

use config::{ConfigError, LookUp, ProcessContext, Scheme, SourceConfig, SystemsConfig};

use crate::slack::SlackInstallations;
use crate::webhook::{AuthScheme, InvalidWebhookAuth, WebhookAuth};

/// Why the webhook sources cannot be used. The texts contain no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSources {
    #[error("cannot parse the webhook sources: {0}")]
    Syntax(String),
    /// A secret is missing or too short.
    #[error(transparent)]
    Secret(#[from] ConfigError),
    /// A source is listed twice, or its scheme is not allowed.
    #[error(transparent)]
    Auth(#[from] InvalidWebhookAuth),
}

pub fn webhook_auth(sources: &[SourceConfig], look_up: LookUp<'_>) -> Result<WebhookAuth, InvalidSources> {
    sources.iter().try_fold(WebhookAuth::default(), |auth, config| {
        let secrets = config.secrets(look_up)?;
        let scheme = match config.scheme {
            Scheme::Hmac => AuthScheme::Hmac(secrets),
            Scheme::Basic => AuthScheme::Basic(secrets),
            Scheme::Bearer => AuthScheme::Bearer(secrets),
            Scheme::GitHub => AuthScheme::GitHub(secrets),
        };
        Ok(auth.with(config.tenant.clone(), config.source, scheme)?)
    })
}

/// The Slack apps of all tenants. `look_up` and `process` have their secrets.
pub fn slack_installations(
    systems: &SystemsConfig,
    look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    process: ProcessContext,
) -> Result<SlackInstallations, ConfigError> {
    let connections = systems.slack_connection_parts(look_up, process)?;
    Ok(SlackInstallations::new(connections, systems.console()?))
}
