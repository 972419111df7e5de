//! The webhook endpoint of `countersign dev`: a secret that is new at every start, and a command that delivers an
//! event.

use domain::{Source, TenantId};
use fakes::servicenow::INCIDENT;
use ingress::webhook::{AuthScheme, WebhookAuth};
use serde_json::json;
use slack::Secrets;

use crate::error::CliError;
use crate::random;
use views::hint::quoted;

pub(super) struct DevWebhook {
    pub(super) tenant: TenantId,
    pub(super) secret: String,
}

impl DevWebhook {
    pub(super) fn new(tenant: TenantId) -> Result<Self, CliError> {
        Ok(Self { tenant, secret: random::hex::<16>()? })
    }

    pub(super) fn webhook_auth(&self) -> Result<WebhookAuth, CliError> {
        let wrong =
            |error: String| CliError::Usage(format!("cannot configure webhook authentication: {error}"));
        let secrets = Secrets::new(self.secret.clone().into()).map_err(|error| wrong(error.to_string()))?;
        Source::WEBHOOKS.into_iter().try_fold(WebhookAuth::default(), |auth, source| {
            let proof = match source {
                Source::GitHub => AuthScheme::GitHub(secrets.clone()),
                Source::ServiceNow | Source::Webhook | Source::Api | Source::Slack | Source::Schedule => {
                    AuthScheme::Hmac(secrets.clone())
                }
            };
            auth.with(self.tenant.clone(), source, proof).map_err(|error| wrong(error.to_string()))
        })
    }

    /// The endpoint of `source` on the server at `url`.
    pub(super) fn address(&self, url: &str, source: Source) -> String {
        format!("{url}/webhook/{source}/{}", self.tenant)
    }

    /// A shell command that delivers the database incident with a valid signature.
    pub(super) fn curl_command(&self, url: &str) -> String {
        let record = json!({ "sys_id": INCIDENT, "sys_mod_count": "1", "priority": "1" });
        let body = quoted(&json!({ "table": "incident", "record": record }).to_string());
        format!(
            "t=$(date +%s); body={body}; curl -sS -d \"$body\" -H 'Content-Type: application/json' \
             -H \"X-Countersign-Timestamp: $t\" -H \"X-Countersign-Signature: v0=$(printf 'v0:%s:%s' \"$t\" \"$body\" \
             | openssl dgst -sha256 -hmac {} -r | cut -d' ' -f1)\" {}",
            self.secret,
            self.address(url, Source::ServiceNow),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curl_command_names_secret_and_endpoint() {
        let webhook = DevWebhook::new("acme".parse().unwrap()).unwrap();
        assert!(webhook.webhook_auth().is_ok());
        let command = webhook.curl_command("http://127.0.0.1:7420");
        assert!(command.contains(&webhook.secret), "{command}");
        assert!(command.ends_with("http://127.0.0.1:7420/webhook/servicenow/acme"), "{command}");
    }
}
