//! The section `server` of the configuration. Workers ignore it.

use domain::{Source, TenantId};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use signing::Secrets;
use strum::Display;

use crate::{ConfigError, LookUp, OidcConfig, RotatingSecret, invalid, secret};

/// 32 random bytes have at least this many characters in any encoding.
const SESSION_SECRET_BYTES_MIN: usize = 32;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    session_secret_env: Option<String>,
    /// The webhook senders.
    pub sources: Vec<SourceConfig>,
    pub oidc: Option<OidcConfig>,
}

impl ServerConfig {
    /// The key for sessions and cursors. Required for them to survive a restart or to work on several servers.
    pub fn session_secret(&self, look_up: LookUp<'_>) -> Result<Option<SecretString>, ConfigError> {
        let Some(name) = &self.session_secret_env else { return Ok(None) };
        let secret = secret("server", "session_secret_env", name, look_up)?;
        if secret.expose_secret().len() < SESSION_SECRET_BYTES_MIN {
            let why = format!(
                "{name} has fewer than {SESSION_SECRET_BYTES_MIN} bytes; create one with `openssl rand -hex 32`"
            );
            return Err(invalid("server", &why));
        }
        Ok(Some(secret))
    }
}

/// A webhook source of one tenant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    pub tenant: TenantId,
    pub source: Source,
    pub scheme: Scheme,
    #[serde(flatten)]
    pub secret: RotatingSecret,
}

impl SourceConfig {
    pub fn secrets(&self, look_up: LookUp<'_>) -> Result<Secrets, ConfigError> {
        self.secret.secrets(&format!("{} of {}", self.source, self.tenant), look_up)
    }
}

/// How a source authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Scheme {
    /// An HMAC of the timestamp and the body.
    Hmac,
    /// HTTP Basic; the secret is `user:password`.
    Basic,
    /// A bearer token.
    Bearer,
    /// GitHub's HMAC of the body.
    #[serde(rename = "github")]
    #[strum(serialize = "github")]
    GitHub,
}

#[cfg(test)]
mod tests {
    use crate::SystemsConfig;

    const SERVER: &str = "
server:
  session_secret_env: SESSIONS
  sources:
    - { tenant: acme, source: servicenow, scheme: hmac, secret_env: A }
    - { tenant: acme, source: github, scheme: github, secret_env: B, previous: { secret_env: C, until: 2030-01-01T00:00:00Z } }
";

    #[test]
    fn server_section_is_parsed() {
        let systems = SystemsConfig::parse(SERVER).unwrap();
        let look_up = |name: &str| Some(format!("a secret of enough bytes, called {name}"));
        let server = systems.server();
        assert!(server.session_secret(&look_up).unwrap().is_some());
        assert!(server.sources.iter().all(|source| source.secrets(&look_up).is_ok()));
    }

    #[test]
    fn example_file_is_valid() {
        let systems = SystemsConfig::parse(include_str!("../../../examples/countersign.yaml")).unwrap();
        assert_eq!(systems.server().sources.len(), 2);
    }

    #[test]
    fn weak_or_missing_secret_is_named_but_not_printed() {
        let systems = SystemsConfig::parse(SERVER).unwrap();
        let server = systems.server();
        for held in [None, Some("hunter2".to_owned())] {
            let error = server.session_secret(&|_| held.clone()).unwrap_err().to_string();
            assert!(error.contains("SESSIONS") && !error.contains("hunter2"), "{error}");
        }
        let error = server.sources[0].secrets(&|_| None).unwrap_err().to_string();
        assert!(error.contains("servicenow of acme"), "{error}");
    }

    #[test]
    fn unknown_server_field_is_rejected() {
        for text in [
            "server: { sesion_secret_env: A }",
            "server: { sources: [ { tenant: acme, source: github, scheme: github, secret_env: A, b: c } ] }",
        ] {
            assert!(SystemsConfig::parse(text).is_err(), "{text}");
        }
    }
}
