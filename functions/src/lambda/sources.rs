//! Who may deliver webhooks, as an operator describes it.

use domain::{Source, TenantId};
use serde::Deserialize;
use systems::{InvalidSystems, LookUp, Rotating};

use crate::webhook::{Doors, InvalidDoor, Proof};

/// One source of one tenant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    tenant: TenantId,
    source: Source,
    scheme: Scheme,
    #[serde(flatten)]
    proved_with: Rotating,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Scheme {
    Hmac,
    /// The secret is `user:password`.
    Basic,
    Bearer,
    #[serde(rename = "github")]
    GitHub,
}

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
    Door(#[from] InvalidDoor),
}

/// The doors that `text` describes: a list of `{ tenant, source, scheme, secret, previous }`.
pub fn doors(text: &str, look_up: LookUp<'_>) -> Result<Doors, InvalidSources> {
    let described: Vec<Described> =
        serde_saphyr::from_str(text).map_err(|error| InvalidSources::Text(error.to_string()))?;
    described.into_iter().try_fold(
        Doors::default(),
        |doors, Described { tenant, source, scheme, proved_with }| {
            let secrets = proved_with.secrets(&format!("{source} of {tenant}"), look_up)?;
            let proof = match scheme {
                Scheme::Hmac => Proof::Signed(secrets),
                Scheme::Basic => Proof::Basic(secrets),
                Scheme::Bearer => Proof::Bearer(secrets),
                Scheme::GitHub => Proof::GitHub(secrets),
            };
            Ok(doors.and(tenant, source, proof)?)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(text: &str) -> Result<Doors, InvalidSources> {
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
