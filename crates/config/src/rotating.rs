//! A secret that is replaced while both sides go on talking: the current one, and the one before it until a day.

use domain::Timestamp;
use serde::Deserialize;
use serde::de::Error as _;
use signing::Secrets;

use crate::{InvalidSystems, LookUp, secret, wrong};

/// By which names the secrets are found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotating {
    /// The current one.
    #[serde(alias = "secret")]
    secret_env: String,
    /// The one before it.
    #[serde(default)]
    previous: Option<Previous>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Previous {
    #[serde(alias = "secret")]
    secret_env: String,
    #[serde(deserialize_with = "moment")]
    until: Timestamp,
}

impl Rotating {
    /// What the current one is called.
    pub fn current(&self) -> &str {
        &self.secret_env
    }

    /// What the one before is called, and until when it counts.
    pub fn before(&self) -> Option<(&str, Timestamp)> {
        self.previous.as_ref().map(|previous| (previous.secret_env.as_str(), previous.until))
    }

    /// The secrets themselves; `name` says in errors whose they are.
    pub fn secrets(&self, name: &str, look_up: LookUp<'_>) -> Result<Secrets, InvalidSystems> {
        let weak = |error: signing::WeakSecret| wrong(name, &error.to_string());
        let secrets = Secrets::new(secret(name, "secret", &self.secret_env, look_up)?).map_err(weak)?;
        let Some(previous) = &self.previous else { return Ok(secrets) };
        let before = secret(name, "previous", &previous.secret_env, look_up)?;
        secrets.and_previous(before, previous.until).map_err(weak)
    }
}

/// A moment as people write it: `2026-08-31T00:00:00Z`.
fn moment<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let moment: jiff::Timestamp = text.parse().map_err(|_| {
        D::Error::custom(format!("{text:?} is not a moment; write it as 2026-08-31T00:00:00Z"))
    })?;
    Ok(Timestamp(moment.as_millisecond()))
}
