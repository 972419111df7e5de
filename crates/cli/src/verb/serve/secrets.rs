//! By what names secrets are found. The secrets themselves stand nowhere here.

use api_types::{PreviousSecret, SecretName};
use config::{Rotating, Systems};
use domain::TenantId;
use views::time::moment;

/// By what names the secrets are found with which other systems prove themselves.
pub(super) fn names(config: &Systems) -> Vec<(TenantId, SecretName)> {
    let name = |source: &str, scheme: &str, found: &Rotating| SecretName {
        source: source.to_owned(),
        scheme: scheme.to_owned(),
        id: found.current().to_owned(),
        previous: found
            .before()
            .map(|(id, until)| PreviousSecret { id: id.to_owned(), until: moment(until) }),
    };
    let sources = config.server().sources.iter().map(|source| {
        let of = name(source.source.as_str(), source.scheme.as_str(), &source.proved_with);
        (source.tenant.clone(), of)
    });
    let slack =
        config.slack_secret_names().map(|(tenant, found)| (tenant.clone(), name("slack", "slack", found)));
    sources.chain(slack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
slack: { token_env: T, channel: C0, doors: [ { tenant: acme, secret_env: CLICKS } ] }
server:
  sources:
    - { tenant: acme, source: servicenow, scheme: hmac, secret_env: NEW, previous: { secret_env: OLD, until: 2030-01-01T00:00:00Z } }
    - { tenant: umbrella, source: github, scheme: github, secret_env: HUB }
";

    #[test]
    fn each_tenants_secrets_are_named_with_the_one_that_is_on_its_way_out() {
        let names = names(&Systems::parse(CONFIG).unwrap());
        let told: Vec<_> = names
            .iter()
            .map(|(tenant, of)| (tenant.as_str(), of.source.as_str(), of.scheme.as_str(), of.id.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("acme", "servicenow", "hmac", "NEW"),
                ("umbrella", "github", "github", "HUB"),
                ("acme", "slack", "slack", "CLICKS")
            ]
        );
        let previous = names[0].1.previous.as_ref().unwrap();
        assert_eq!((previous.id.as_str(), previous.until.as_str()), ("OLD", "2030-01-01T00:00:00.000Z"));
    }
}
