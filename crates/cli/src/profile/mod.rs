//! Server profiles.
//!
//! A profile holds the URL of a server, the tenant and the location of the API key. The key itself is never in the
//! file of profiles or on a command line, where others could see it: it comes from an environment variable or from a
//! file that only its owner can read.

mod file;
mod key;
mod server;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use domain::TenantId;
use serde::Deserialize;
use url::Url;

use crate::error::CliError;

pub(crate) use file::{read, write};
pub(crate) use server::Server;

/// Fits on a line of a table.
const NAME_CHARS_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ProfileName(String);

impl ProfileName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ProfileName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if text.is_empty() || text.len() > NAME_CHARS_MAX || !text.chars().all(fits) {
            return Err(format!("a profile name has 1 to {NAME_CHARS_MAX} letters, digits, `-` and `_`"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for ProfileName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// The file of profiles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Profiles {
    /// The profile that applies if no option and no variable names one.
    #[serde(rename = "use")]
    pub(crate) used: Option<ProfileName>,
    pub(crate) profiles: BTreeMap<ProfileName, Profile>,
}

/// A server and the location of the key for it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) url: Url,
    /// A key of another tenant is not sent.
    #[serde(default)]
    pub(crate) tenant: Option<TenantId>,
    #[serde(default)]
    pub(crate) key_env: Option<String>,
    #[serde(default)]
    pub(crate) key_file: Option<PathBuf>,
}

impl Profiles {
    pub(crate) fn get(&self, name: &ProfileName) -> Result<&Profile, CliError> {
        self.profiles.get(name).ok_or_else(|| {
            let known: Vec<_> = self.profiles.keys().map(ProfileName::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let name = name.as_str();
            CliError::Usage(format!(
                "profile {name} does not exist; existing profiles: {known}; add one with `countersign profile add`"
            ))
        })
    }
}

impl Profile {
    /// The location of the key, for messages.
    pub(crate) fn key_location(&self) -> String {
        match (&self.key_env, &self.key_file) {
            (Some(name), _) => format!("variable {name}"),
            (None, Some(path)) => format!("file {}", path.display()),
            (None, None) => format!("variable {}", key::VARIABLE),
        }
    }
}
