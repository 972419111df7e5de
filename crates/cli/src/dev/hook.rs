//! The door for other systems, on a laptop: a secret made for this start, and a line to try it with.

use domain::{Source, TenantId};
use fakes::servicenow::INCIDENT;
use ingress::webhook::{Proof, WebhookAuth};
use serde_json::json;
use slack::Secrets;

use crate::error::CliError;
use crate::random;
use views::hint::quoted;

/// What whoever delivers here signs with. It opens nothing but this machine.
pub(super) struct Hook {
    pub(super) tenant: TenantId,
    pub(super) secret: String,
}

impl Hook {
    /// A door of `tenant`'s for every source, with one secret.
    pub(super) fn new(tenant: TenantId) -> Result<Self, CliError> {
        Ok(Self { tenant, secret: random::hex::<16>()? })
    }

    pub(super) fn doors(&self) -> Result<WebhookAuth, CliError> {
        let wrong =
            |error: String| CliError::Usage(format!("the door for webhooks cannot be opened: {error}"));
        let secrets = Secrets::new(self.secret.clone().into()).map_err(|error| wrong(error.to_string()))?;
        Source::WEBHOOKS.into_iter().try_fold(WebhookAuth::default(), |doors, source| {
            let proof = match source {
                Source::GitHub => Proof::GitHub(secrets.clone()),
                Source::ServiceNow | Source::Webhook | Source::Api | Source::Slack | Source::Schedule => {
                    Proof::Signed(secrets.clone())
                }
            };
            doors.and(self.tenant.clone(), source, proof).map_err(|error| wrong(error.to_string()))
        })
    }

    /// Where `source` delivers, below `url`.
    pub(super) fn address(&self, url: &str, source: Source) -> String {
        format!("{url}/webhook/{source}/{}", self.tenant)
    }

    /// A line for a shell that delivers the incident about the database, signed as we ask.
    pub(super) fn line(&self, url: &str) -> String {
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
    fn there_is_a_door_for_every_source_and_a_line_that_names_the_secret_and_the_address() {
        let hook = Hook::new("acme".parse().unwrap()).unwrap();
        assert!(hook.doors().is_ok());
        let line = hook.line("http://127.0.0.1:7420");
        assert!(line.contains(&hook.secret), "{line}");
        assert!(line.ends_with("http://127.0.0.1:7420/webhook/servicenow/acme"), "{line}");
    }
}
