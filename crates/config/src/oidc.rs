//! Who says who people are, beside API keys.

use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use crate::{InvalidSystems, LookUp, secret};

/// An identity provider, which speaks `OpenID` Connect.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// Who issues tokens: `iss`, to the letter.
    pub issuer: String,
    /// Where its keys are, if not where it says itself.
    pub key_set: Option<Url>,
    /// How its tokens may be signed.
    #[serde(default = "rs256")]
    pub algorithms: Vec<SigningAlgorithm>,
    /// What its tokens say where.
    pub claims: ClaimsConfig,
    /// For whom a token must be that is shown to the API; without it, the API believes none.
    pub audience: Option<String>,
    /// How people log in to the console with it; without it, they log in with an API key.
    pub login: Option<LoginConfig>,
}

/// How a token may be signed.
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

/// What a token says where.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsConfig {
    /// The claim that names the tenant.
    pub tenant: String,
    /// The claim that names the person, as the tenant's directory does.
    pub person: String,
    /// The claim that lists roles.
    pub roles: String,
}

/// How people log in to the console.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginConfig {
    /// What people call the provider.
    pub name: String,
    /// What the provider calls us.
    pub client_id: String,
    client_secret_env: Option<String>,
    /// Where browsers reach this server.
    pub url: Url,
    /// What is asked for beside `openid`.
    #[serde(default)]
    pub scopes: Vec<String>,
}

impl LoginConfig {
    /// What we prove ourselves to the provider with, if it gave us something.
    pub fn client_secret(&self, look_up: LookUp<'_>) -> Result<Option<SecretString>, InvalidSystems> {
        let name = self.client_secret_env.as_deref();
        name.map(|name| secret("server.oidc.login", "client_secret_env", name, look_up)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Systems;

    #[test]
    fn a_provider_is_described_without_its_secret() {
        let text = "server: { oidc: { issuer: 'https://id.example.com', claims: { tenant: org, person: name, roles: roles },
          login: { name: Example, client_id: us, client_secret_env: D, url: 'https://console.example' } } }";
        let systems = Systems::parse(text).unwrap();
        let oidc = systems.server().oidc.as_ref().unwrap();
        assert_eq!(oidc.algorithms, [SigningAlgorithm::Rs256]);
        let login = oidc.login.as_ref().unwrap();
        assert!(login.client_secret(&|_| Some("hunter2".to_owned())).unwrap().is_some());
        let error = login.client_secret(&|_| None).unwrap_err().to_string();
        assert!(error.contains("`client_secret_env` names D"), "{error}");
    }

    #[test]
    fn no_algorithm_counts_but_those_that_prove_who_signed() {
        for algorithm in ["none", "HS256", "rs256", "RS512"] {
            let claims = "claims: { tenant: a, person: b, roles: c }";
            let text = format!("server: {{ oidc: {{ issuer: a, {claims}, algorithms: [{algorithm}] }} }}");
            assert!(Systems::parse(&text).is_err(), "{text}");
        }
    }
}
