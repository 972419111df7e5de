//! Webhook authentication from the variable `COUNTERSIGN_SOURCES`.

use config::{LookUp, SourceConfig};

use ingress::configured::{self, InvalidSources};
use ingress::webhook::WebhookAuth;

/// Parses a list of `{ tenant, source, scheme, secret_env, previous }`.
pub fn webhook_auth(text: &str, look_up: LookUp<'_>) -> Result<WebhookAuth, InvalidSources> {
    let sources: Vec<SourceConfig> =
        serde_saphyr::from_str(text).map_err(|error| InvalidSources::Syntax(error.to_string()))?;
    configured::webhook_auth(&sources, look_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<WebhookAuth, InvalidSources> {
        webhook_auth(text, &|name| (name != "GONE").then(|| format!("the secret under {name}")))
    }

    #[test]
    fn every_scheme_can_be_configured() {
        let text = "- { tenant: acme, source: servicenow, scheme: hmac, secret_env: A,\n    \
                        previous: { secret_env: B, until: 2030-01-01T00:00:00Z } }\n\
                    - { tenant: umbrella, source: servicenow, scheme: basic, secret_env: C }\n\
                    - { tenant: acme, source: webhook, scheme: bearer, secret_env: D }\n\
                    - { tenant: acme, source: github, scheme: github, secret_env: E }\n";
        assert!(parse(text).is_ok());
    }

    #[test]
    fn invalid_source_is_named_without_its_secret() {
        for (text, word) in [
            ("- { tenant: acme, source: servicenow, scheme: hmac, secret_env: GONE }", "GONE"),
            ("- { tenant: acme, source: github, scheme: hmac, secret_env: A }", "github"),
            ("- { tenant: acme, source: jira, scheme: hmac, secret_env: A }", "jira"),
            ("- { tenant: acme, source: webhook, scheme: none, secret_env: A }", "none"),
            ("- { tenant: 'a:b', source: webhook, scheme: hmac, secret_env: A }", "tenant"),
            ("- { tenant: acme, source: webhook, scheme: hmac, secret_env: A, color: red }", "color"),
            (
                "- { tenant: a, source: webhook, scheme: hmac, secret_env: A }\n\
                 - { tenant: a, source: webhook, scheme: hmac, secret_env: B }",
                "twice",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("the secret under"), "{error}");
        }
    }
}
