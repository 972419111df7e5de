//! Login with an `OpenID` Connect provider, in addition to API keys.

use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use crate::{ConfigError, LookUp, secret};

/// An `OpenID` Connect provider.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// The exact `iss` claim of its tokens.
    pub issuer: String,
    /// The address of its keys; by default the one in its discovery document.
    pub jwks_url: Option<Url>,
    #[serde(default = "rs256")]
    pub algorithms: Vec<SigningAlgorithm>,
    pub claims: ClaimsConfig,
    /// The `aud` claim of tokens for the API. Without it the API accepts no tokens.
    pub audience: Option<String>,
    /// Login to the console. Without it users log in with an API key.
    pub login: Option<LoginConfig>,
}

/// The signature algorithms that tokens can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum SigningAlgorithm {
    /// RSA with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
}

fn rs256() -> Vec<SigningAlgorithm> {
    vec![SigningAlgorithm::Rs256]
}

/// The names of the claims.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsConfig {
    pub tenant: String,
    /// The claim with the person's name in the tenant's directory, or `sub` if the directory names the subjects.
    pub person: String,
    /// Accepts a person claim that users can change at many providers.
    #[serde(default)]
    pub person_can_change: bool,
    pub roles: String,
}

/// Login to the console.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginConfig {
    /// The provider's name on the login page.
    pub name: String,
    pub client_id: String,
    client_secret_env: Option<String>,
    /// The address of this server in browsers.
    pub url: Url,
    /// Scopes in addition to `openid`.
    #[serde(default)]
    pub scopes: Vec<String>,
}

impl LoginConfig {
    /// The client secret, if the provider issued one.
    pub fn client_secret(&self, look_up: LookUp<'_>) -> Result<Option<SecretString>, ConfigError> {
        let name = self.client_secret_env.as_deref();
        name.map(|name| secret("server.oidc.login", "client_secret_env", name, look_up)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemsConfig;

    #[test]
    fn provider_config_contains_no_secret() {
        let text = "server: { oidc: { issuer: 'https://id.example.com', claims: { tenant: org, person: name, roles: roles },
          login: { name: Example, client_id: us, client_secret_env: D, url: 'https://console.example' } } }";
        let systems = SystemsConfig::parse(text).unwrap();
        let oidc = systems.server().oidc.as_ref().unwrap();
        assert_eq!(oidc.algorithms, [SigningAlgorithm::Rs256]);
        let login = oidc.login.as_ref().unwrap();
        assert!(login.client_secret(&|_| Some("hunter2".to_owned())).unwrap().is_some());
        let error = login.client_secret(&|_| None).unwrap_err().to_string();
        assert!(error.contains("`client_secret_env` names D"), "{error}");
    }

    #[test]
    fn only_asymmetric_algorithms_are_accepted() {
        for algorithm in ["none", "HS256", "rs256", "RS512"] {
            let claims = "claims: { tenant: a, person: b, roles: c }";
            let text = format!("server: {{ oidc: {{ issuer: a, {claims}, algorithms: [{algorithm}] }} }}");
            assert!(SystemsConfig::parse(&text).is_err(), "{text}");
        }
    }
}
