//! The identity provider in the configuration.

use api::auth::login::{Login, LoginSettings};
use api::auth::session::CookieSecurity;
use api::auth::{InvalidOidcSettings, Oidc, OidcSettings, TokenAlgorithm};
use config::{LoginConfig, OidcConfig, SigningAlgorithm};

use crate::error::CliError;
use crate::input::Variable;

/// Standard claims that users can change at many providers, or that a provider assigns to another user later.
const CHANGEABLE_CLAIMS: [&str; 8] =
    ["email", "family_name", "given_name", "name", "nickname", "preferred_username", "unique_name", "upn"];

/// Reads which tokens the API accepts and how users log in to the console.
pub(super) fn read(
    config: &OidcConfig,
    cookie_security: CookieSecurity,
    variable: Variable,
) -> Result<(Option<Oidc>, Option<Login>), CliError> {
    if config.audience.is_none() && config.login.is_none() {
        return Err(invalid("set `audience` to accept tokens in the API, `login` for the console, or both"));
    }
    let person = config.claims.person.as_str();
    if CHANGEABLE_CLAIMS.contains(&person) && !config.claims.person_can_change {
        return Err(invalid(&format!(
            "`claims.person` is `{person}`, which users can change at many providers: a user could approve their own run \
             under a second name; use `sub` and name the subjects in the tenant's directory (`people: {{ ada: {{ oidc: \
             'ISSUER#SUB' }} }}`), or set `claims.person_can_change: true` if your provider does not allow changes"
        )));
    }
    let oidc = config.audience.as_ref().map(|audience| Oidc::new(settings(config, audience)));
    let login = config.login.as_ref().map(|login| read_login(config, login, cookie_security, variable));
    Ok((oidc.transpose().map_err(settings_error)?, login.transpose()?))
}

fn settings(config: &OidcConfig, audience: &str) -> OidcSettings {
    let signed = |algorithm: &SigningAlgorithm| match algorithm {
        SigningAlgorithm::Rs256 => TokenAlgorithm::Rs256,
        SigningAlgorithm::Es256 => TokenAlgorithm::Es256,
    };
    OidcSettings {
        issuer: config.issuer.clone(),
        audience: audience.to_owned(),
        jwks_url: config.jwks_url.clone(),
        signed: config.algorithms.iter().map(signed).collect(),
        tenant_claim: config.claims.tenant.clone(),
        person_claim: config.claims.person.clone(),
        roles_claim: config.claims.roles.clone(),
    }
}

fn read_login(
    config: &OidcConfig,
    login: &LoginConfig,
    cookie_security: CookieSecurity,
    variable: Variable,
) -> Result<Login, CliError> {
    let expected = match cookie_security {
        CookieSecurity::Https => "https",
        CookieSecurity::Loopback => "http",
    };
    if login.url.scheme() != expected {
        return Err(invalid(&format!(
            "`login.url` is {}, but this server uses {expected}; add --behind-tls if a proxy terminates TLS",
            login.url
        )));
    }
    let settings = LoginSettings {
        oidc: settings(config, &login.client_id),
        name: login.name.clone(),
        client_secret: login.client_secret(&variable)?,
        url: login.url.clone(),
        scopes: login.scopes.clone(),
    };
    Login::new(settings).map_err(settings_error)
}

#[expect(clippy::needless_pass_by_value, reason = "used with map_err")]
fn settings_error(error: InvalidOidcSettings) -> CliError {
    invalid(&error.to_string())
}

fn invalid(why: &str) -> CliError {
    CliError::Usage(format!("`server.oidc` in the configuration is invalid: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::SystemsConfig;

    fn refused(text: &str, cookie_security: CookieSecurity) -> String {
        let claims = "claims: { tenant: a, person: b, roles: c }";
        let systems = SystemsConfig::parse(&format!("server: {{ oidc: {{ {claims}, {text} }} }}")).unwrap();
        let config = systems.server().oidc.as_ref().unwrap();
        read(config, cookie_security, |_| None).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn changeable_person_claim_must_be_acknowledged() {
        let refused = |claims: &str| {
            let oidc = format!(
                "issuer: 'https://id.example', audience: a, claims: {{ tenant: a, {claims}, roles: c }}"
            );
            let systems = SystemsConfig::parse(&format!("server: {{ oidc: {{ {oidc} }} }}")).unwrap();
            read(systems.server().oidc.as_ref().unwrap(), CookieSecurity::Https, |_| None).err()
        };
        for claim in CHANGEABLE_CLAIMS {
            let error = refused(&format!("person: {claim}")).unwrap().to_string();
            assert!(error.contains(&format!("`claims.person` is `{claim}`")), "{error}");
            assert!(refused(&format!("person: {claim}, person_can_change: true")).is_none());
        }
        assert!(refused("person: sub").is_none());
    }

    #[test]
    fn insecure_urls_are_refused() {
        let login =
            "issuer: 'https://id.example', login: { name: A, client_id: b, url: 'https://c.example' }";
        assert_eq!(refused(login, CookieSecurity::Https), "");
        assert!(refused(login, CookieSecurity::Loopback).contains("--behind-tls"));
        assert!(
            refused("issuer: 'http://id.example', audience: a", CookieSecurity::Https).contains("issuer")
        );
        let keys = "issuer: 'https://id.example', audience: a, jwks_url: 'http://id.example/keys'";
        assert!(refused(keys, CookieSecurity::Https).contains("key set"));
        let plain = login.replace("https://c.example", "http://c.example");
        assert!(refused(&plain, CookieSecurity::Loopback).contains("must be an https URL"));
        assert!(refused("issuer: 'https://id.example'", CookieSecurity::Https).contains("`login`"));
    }
}
