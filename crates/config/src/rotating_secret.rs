//! A secret that can be rotated without downtime: the current one, and the previous one until an expiry time.

use domain::Timestamp;
use serde::Deserialize;
use serde::de::Error as _;
use signing::Secrets;

use crate::{ConfigError, LookUp, invalid, secret};

/// The names of the secrets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotatingSecret {
    secret_env: String,
    #[serde(default)]
    previous: Option<Previous>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Previous {
    secret_env: String,
    #[serde(deserialize_with = "timestamp")]
    until: Timestamp,
}

impl RotatingSecret {
    /// The name of the current secret.
    pub fn current(&self) -> &str {
        &self.secret_env
    }

    /// The name of the previous secret, and until when it is valid.
    pub fn previous(&self) -> Option<(&str, Timestamp)> {
        self.previous.as_ref().map(|previous| (previous.secret_env.as_str(), previous.until))
    }

    /// Looks up the secrets. Errors contain `name`.
    pub fn secrets(&self, name: &str, look_up: LookUp<'_>) -> Result<Secrets, ConfigError> {
        let weak = |error: signing::WeakSecret| invalid(name, &error.to_string());
        let secrets = Secrets::new(secret(name, "secret", &self.secret_env, look_up)?).map_err(weak)?;
        let Some(previous) = &self.previous else { return Ok(secrets) };
        let value = secret(name, "previous", &previous.secret_env, look_up)?;
        secrets.and_previous(value, previous.until).map_err(weak)
    }
}

/// An RFC 3339 timestamp such as `2026-08-31T00:00:00Z`.
fn timestamp<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time: jiff::Timestamp = text.parse().map_err(|_| {
        D::Error::custom(format!("{text:?} is not a timestamp; write it as 2026-08-31T00:00:00Z"))
    })?;
    Ok(Timestamp(time.as_millisecond()))
}
