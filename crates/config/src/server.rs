//! What a server is told beside the systems outside. Workers pass over it.

use domain::{Source, TenantId};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use signing::Secrets;

use crate::{InvalidSystems, LookUp, OidcConfig, Rotating, secret, wrong};

/// What nobody guesses: 32 random bytes take more characters, however they are written.
const SESSION_SECRET_BYTES_MIN: usize = 32;

/// What a server is told.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    session_secret_env: Option<String>,
    /// Who may deliver.
    pub sources: Vec<SourceConfig>,
    /// Who says who people are, beside API keys.
    pub oidc: Option<OidcConfig>,
}

impl ServerConfig {
    /// What sessions and cursors are made with, if they are to outlive this process or to count on several servers.
    pub fn session_secret(&self, look_up: LookUp<'_>) -> Result<Option<SecretString>, InvalidSystems> {
        let Some(name) = &self.session_secret_env else { return Ok(None) };
        let secret = secret("server", "session_secret_env", name, look_up)?;
        if secret.expose_secret().len() < SESSION_SECRET_BYTES_MIN {
            let why = format!(
                "{name} has fewer than {SESSION_SECRET_BYTES_MIN} bytes; `openssl rand -hex 32` makes a good one"
            );
            return Err(wrong("server", &why));
        }
        Ok(Some(secret))
    }
}

/// One source of one tenant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    /// Whose.
    pub tenant: TenantId,
    /// Which.
    pub source: Source,
    /// How it proves itself.
    pub scheme: Scheme,
    /// By which names its secrets are found.
    #[serde(flatten)]
    pub proved_with: Rotating,
}

impl SourceConfig {
    /// What it proves itself with.
    pub fn secrets(&self, look_up: LookUp<'_>) -> Result<Secrets, InvalidSystems> {
        self.proved_with.secrets(&format!("{} of {}", self.source, self.tenant), look_up)
    }
}

/// How a source proves itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// By a code over a timestamp and the body.
    Hmac,
    /// By `user:password`, which is the secret.
    Basic,
    /// By the secret itself.
    Bearer,
    /// As GitHub does.
    #[serde(rename = "github")]
    GitHub,
}

impl Scheme {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hmac => "hmac",
            Self::Basic => "basic",
            Self::Bearer => "bearer",
            Self::GitHub => "github",
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Systems;

    const SERVER: &str = "
server:
  session_secret_env: SESSIONS
  sources:
    - { tenant: acme, source: servicenow, scheme: hmac, secret_env: A }
    - { tenant: acme, source: github, scheme: github, secret_env: B, previous: { secret_env: C, until: 2030-01-01T00:00:00Z } }
";

    #[test]
    fn a_server_is_described_beside_the_systems() {
        let systems = Systems::parse(SERVER).unwrap();
        let look_up = |name: &str| Some(format!("a secret of enough bytes, called {name}"));
        let server = systems.server();
        assert!(server.session_secret(&look_up).unwrap().is_some());
        assert!(server.sources.iter().all(|source| source.secrets(&look_up).is_ok()));
    }

    #[test]
    fn the_example_is_right() {
        let systems = Systems::parse(include_str!("../../../examples/countersign.yaml")).unwrap();
        assert_eq!(systems.server().sources.len(), 2);
    }

    #[test]
    fn a_secret_that_is_missing_or_can_be_guessed_is_named_and_not_told() {
        let systems = Systems::parse(SERVER).unwrap();
        let server = systems.server();
        for held in [None, Some("hunter2".to_owned())] {
            let error = server.session_secret(&|_| held.clone()).unwrap_err().to_string();
            assert!(error.contains("SESSIONS") && !error.contains("hunter2"), "{error}");
        }
        let error = server.sources[0].secrets(&|_| None).unwrap_err().to_string();
        assert!(error.contains("servicenow of acme"), "{error}");
    }

    #[test]
    fn nothing_is_said_to_a_server_that_it_does_not_know() {
        for text in [
            "server: { sesion_secret_env: A }",
            "server: { sources: [ { tenant: acme, source: github, scheme: github, secret_env: A, b: c } ] }",
        ] {
            assert!(Systems::parse(text).is_err(), "{text}");
        }
    }
}
