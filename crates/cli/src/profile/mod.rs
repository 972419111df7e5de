//! Servers that a person speaks to, by names of their own.
//!
//! A profile says where a server is, whose runs are meant there and where the key is found. The key itself stands
//! neither in the file of profiles nor on a command line, where others see it: it comes from a variable of the
//! environment, or from a file that its owner alone can read.

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

/// Long enough for anybody's name, short enough for a line.
const NAME_CHARS_MAX: usize = 64;

/// The name of a profile.
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
            return Err(format!(
                "the name of a profile has 1 to {NAME_CHARS_MAX} letters, digits, `-` and `_`"
            ));
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
    /// The one that is meant if none is named.
    #[serde(rename = "use")]
    pub(crate) used: Option<ProfileName>,
    /// All of them.
    pub(crate) profiles: BTreeMap<ProfileName, Profile>,
}

/// A server, and how somebody is known there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// Where it is.
    pub(crate) url: Url,
    /// Whose runs are meant; a key for another tenant is not sent.
    #[serde(default)]
    pub(crate) tenant: Option<TenantId>,
    /// The variable that holds the key.
    #[serde(default)]
    pub(crate) key_env: Option<String>,
    /// The file that holds the key.
    #[serde(default)]
    pub(crate) key_file: Option<PathBuf>,
}

impl Profiles {
    /// The profile `name`, if there is one.
    pub(crate) fn get(&self, name: &ProfileName) -> Result<&Profile, CliError> {
        self.profiles.get(name).ok_or_else(|| {
            let known: Vec<_> = self.profiles.keys().map(ProfileName::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let name = name.as_str();
            CliError::Usage(format!(
                "there is no profile {name}; there are: {known} (`countersign profile add`)"
            ))
        })
    }
}

impl Profile {
    /// Where the key is found, in words.
    pub(crate) fn key_in_words(&self) -> String {
        match (&self.key_env, &self.key_file) {
            (Some(name), _) => format!("variable {name}"),
            (None, Some(path)) => format!("file {}", path.display()),
            (None, None) => format!("variable {}", key::VARIABLE),
        }
    }
}
