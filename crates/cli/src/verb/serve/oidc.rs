//! The identity provider, as the configuration describes it.

use api::auth::login::{Login, LoginSettings};
use api::auth::session::Over;
use api::auth::{BadSettings, Oidc, OidcSettings, Signed};
use config::{LoginConfig, OidcConfig, SigningAlgorithm};

use crate::config::Variable;
use crate::error::CliError;

/// Whose tokens the API believes, and how people log in.
pub(super) fn read(
    config: &OidcConfig,
    over: Over,
    variable: Variable,
) -> Result<(Option<Oidc>, Option<Login>), CliError> {
    if config.audience.is_none() && config.login.is_none() {
        return Err(wrong(
            "it is good for nothing; give `audience` for the API, `login` for the console, or both",
        ));
    }
    let believes = config.audience.as_ref().map(|audience| Oidc::new(settings(config, audience)));
    let login = config.login.as_ref().map(|login| logging_in(config, login, over, variable));
    Ok((believes.transpose().map_err(bad)?, login.transpose()?))
}

fn settings(config: &OidcConfig, audience: &str) -> OidcSettings {
    let signed = |algorithm: &SigningAlgorithm| match algorithm {
        SigningAlgorithm::Rs256 => Signed::Rs256,
        SigningAlgorithm::Es256 => Signed::Es256,
    };
    OidcSettings {
        issuer: config.issuer.clone(),
        audience: audience.to_owned(),
        key_set: config.key_set.clone(),
        signed: config.algorithms.iter().map(signed).collect(),
        tenant_claim: config.claims.tenant.clone(),
        person_claim: config.claims.person.clone(),
        roles_claim: config.claims.roles.clone(),
    }
}

fn logging_in(
    config: &OidcConfig,
    login: &LoginConfig,
    over: Over,
    variable: Variable,
) -> Result<Login, CliError> {
    let expected = match over {
        Over::Https => "https",
        Over::Loopback => "http",
    };
    if login.url.scheme() != expected {
        return Err(wrong(&format!(
            "`login.url` is {}, and this server is reached over {expected}; --behind-tls says that it is https",
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
    Login::new(settings).map_err(bad)
}

#[expect(clippy::needless_pass_by_value, reason = "it stands where an error is turned into another")]
fn bad(error: BadSettings) -> CliError {
    wrong(&error.to_string())
}

fn wrong(why: &str) -> CliError {
    CliError::Usage(format!("`server.oidc` in the configuration cannot be used: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Systems;

    fn refused(text: &str, over: Over) -> String {
        let claims = "claims: { tenant: a, person: b, roles: c }";
        let systems = Systems::parse(&format!("server: {{ oidc: {{ {claims}, {text} }} }}")).unwrap();
        let config = systems.server().oidc.as_ref().unwrap();
        read(config, over, |_| None).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_could_be_read_or_exchanged_on_the_way_is_refused() {
        let login =
            "issuer: 'https://id.example', login: { name: A, client_id: b, url: 'https://c.example' }";
        assert_eq!(refused(login, Over::Https), "");
        assert!(refused(login, Over::Loopback).contains("--behind-tls"));
        assert!(refused("issuer: 'http://id.example', audience: a", Over::Https).contains("issuer"));
        let keys = "issuer: 'https://id.example', audience: a, key_set: 'http://id.example/keys'";
        assert!(refused(keys, Over::Https).contains("key set"));
        let plain = login.replace("https://c.example", "http://c.example");
        assert!(refused(&plain, Over::Loopback).contains("must be an address with https"));
        assert!(refused("issuer: 'https://id.example'", Over::Https).contains("`login`"));
    }
}
