//! Who may deliver webhooks, as an operator describes it.

use config::{LookUp, SourceConfig};

use ingress::described::{self, InvalidSources};
use ingress::webhook::WebhookAuth;

/// The doors that `text` describes: a list of `{ tenant, source, scheme, secret, previous }`.
pub fn doors(text: &str, look_up: LookUp<'_>) -> Result<WebhookAuth, InvalidSources> {
    let sources: Vec<SourceConfig> =
        serde_saphyr::from_str(text).map_err(|error| InvalidSources::Text(error.to_string()))?;
    described::doors(&sources, look_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(text: &str) -> Result<WebhookAuth, InvalidSources> {
        doors(text, &|name| (name != "GONE").then(|| format!("the secret under {name}")))
    }

    #[test]
    fn every_scheme_can_be_described() {
        let text = "- { tenant: acme, source: servicenow, scheme: hmac, secret: A,\n    \
                        previous: { secret: B, until: 2030-01-01T00:00:00Z } }\n\
                    - { tenant: umbrella, source: servicenow, scheme: basic, secret: C }\n\
                    - { tenant: acme, source: webhook, scheme: bearer, secret: D }\n\
                    - { tenant: acme, source: github, scheme: github, secret: E }\n";
        assert!(opened(text).is_ok());
    }

    #[test]
    fn what_cannot_work_is_refused_by_name_and_without_a_secret() {
        for (text, word) in [
            ("- { tenant: acme, source: servicenow, scheme: hmac, secret: GONE }", "GONE"),
            ("- { tenant: acme, source: github, scheme: hmac, secret: A }", "github"),
            ("- { tenant: acme, source: jira, scheme: hmac, secret: A }", "jira"),
            ("- { tenant: acme, source: webhook, scheme: none, secret: A }", "none"),
            ("- { tenant: 'a:b', source: webhook, scheme: hmac, secret: A }", "tenant"),
            ("- { tenant: acme, source: webhook, scheme: hmac, secret: A, colour: red }", "colour"),
            (
                "- { tenant: a, source: webhook, scheme: hmac, secret: A }\n\
                 - { tenant: a, source: webhook, scheme: hmac, secret: B }",
                "twice",
            ),
        ] {
            let error = opened(text).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("the secret under"), "{error}");
        }
    }
}
