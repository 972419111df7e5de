//! The names of webhook and Slack secrets, for the API. The secrets themselves are not read here.

use api_types::{PreviousSecret, SecretName};
use config::{RotatingSecret, SystemsConfig};
use domain::TenantId;
use views::time::rfc3339_millis;

pub(super) fn names(config: &SystemsConfig) -> Vec<(TenantId, SecretName)> {
    let name = |source: &str, scheme: &str, found: &RotatingSecret| SecretName {
        source: source.to_owned(),
        scheme: scheme.to_owned(),
        id: found.current().to_owned(),
        previous: found
            .previous()
            .map(|(id, until)| PreviousSecret { id: id.to_owned(), until: rfc3339_millis(until) }),
    };
    let sources = config.server().sources.iter().map(|source| {
        let secret = name(source.source.as_str(), &source.scheme.to_string(), &source.secret);
        (source.tenant.clone(), secret)
    });
    let slack = config.slack_secret_names().map(|(tenant, current, previous)| {
        let previous = previous.map(|previous| PreviousSecret {
            id: previous.secret.to_string(),
            until: rfc3339_millis(previous.until),
        });
        let (source, scheme) = ("slack".to_owned(), "slack".to_owned());
        (tenant.clone(), SecretName { source, scheme, id: current.to_string(), previous })
    });
    sources.chain(slack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
connections:
  - { tenant: acme, name: slack, kind: slack, base_url: 'https://slack.com/api',
      credential: { type: bearer, token: 'env://T' }, options: { channel: C0A, signing_secret: 'env://CLICKS' } }
server:
  sources:
    - { tenant: acme, source: servicenow, scheme: hmac, secret_env: NEW, previous: { secret_env: OLD, until: 2030-01-01T00:00:00Z } }
    - { tenant: umbrella, source: github, scheme: github, secret_env: HUB }
";

    #[test]
    fn secret_names_include_the_previous_secret() {
        let names = names(&SystemsConfig::parse(CONFIG).unwrap());
        let current: Vec<_> = names
            .iter()
            .map(|(tenant, secret)| {
                (tenant.as_str(), secret.source.as_str(), secret.scheme.as_str(), secret.id.as_str())
            })
            .collect();
        assert_eq!(
            current,
            [
                ("acme", "servicenow", "hmac", "NEW"),
                ("umbrella", "github", "github", "HUB"),
                ("acme", "slack", "slack", "env://CLICKS")
            ]
        );
        let previous = names[0].1.previous.as_ref().unwrap();
        assert_eq!((previous.id.as_str(), previous.until.as_str()), ("OLD", "2030-01-01T00:00:00.000Z"));
    }
}
