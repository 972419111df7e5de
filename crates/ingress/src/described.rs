//! The doors as an operator describes them.

use config::{InvalidSystems, LookUp, Scheme, SourceConfig, Systems};

use crate::slack::{SlackInstallation, SlackInstallations};
use crate::webhook::{InvalidWebhookAuth, Proof, WebhookAuth};

/// Why the sources cannot be used as they are described. No secret stands in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSources {
    /// Not YAML, or not what is asked for.
    #[error("the sources cannot be used: {0}")]
    Text(String),
    /// A secret is missing, or too short.
    #[error(transparent)]
    Secret(#[from] InvalidSystems),
    /// Two that are the same, or one that cannot prove itself in this way.
    #[error(transparent)]
    Door(#[from] InvalidWebhookAuth),
}

/// A door for each source.
pub fn doors(sources: &[SourceConfig], look_up: LookUp<'_>) -> Result<WebhookAuth, InvalidSources> {
    sources.iter().try_fold(WebhookAuth::default(), |doors, config| {
        let secrets = config.secrets(look_up)?;
        let proof = match config.scheme {
            Scheme::Hmac => Proof::Signed(secrets),
            Scheme::Basic => Proof::Basic(secrets),
            Scheme::Bearer => Proof::Bearer(secrets),
            Scheme::GitHub => Proof::GitHub(secrets),
        };
        Ok(doors.and(config.tenant.clone(), config.source, proof)?)
    })
}

/// The doors of every tenant's Slack; none, if there is no Slack.
pub fn slack_installations(
    systems: &Systems,
    look_up: LookUp<'_>,
) -> Result<SlackInstallations, InvalidSystems> {
    let Some(slack) = systems.slack(look_up)? else { return Ok(SlackInstallations::default()) };
    let secrets = systems.slack_secrets(look_up)?;
    Ok(secrets
        .into_iter()
        .map(|(tenant, secrets)| SlackInstallation::new(tenant, secrets, slack.clone()))
        .collect())
}
