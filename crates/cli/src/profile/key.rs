//! The API key for a server.

use std::path::Path;

use secrecy::SecretString;

use super::Profile;
use crate::error::CliError;
use crate::input::Variable;
use crate::input::read_file;
use crate::keys::require_private;

/// The variable that holds the key, unless the profile names another location.
pub(super) const VARIABLE: &str = "COUNTERSIGN_API_KEY";

/// Tokens of an identity provider have a few thousand bytes.
const KEY_BYTES_MAX: usize = 16 * 1024;

/// Reads the key of `profile`. If the profile names a location, no other location is read, so that the key of one
/// server is never sent to another.
pub(super) fn read_key(profile: Option<&Profile>, variable: Variable) -> Result<SecretString, CliError> {
    match profile {
        Some(Profile { key_env: Some(name), .. }) => from_variable(name, variable),
        Some(Profile { key_file: Some(path), .. }) => from_file(path),
        _ => from_variable(VARIABLE, variable),
    }
}

fn from_variable(name: &str, variable: Variable) -> Result<SecretString, CliError> {
    let missing = || {
        CliError::Usage(format!(
            "no API key: the variable {name} is not set; set it, or name a file or another variable with \
             `countersign profile add`"
        ))
    };
    parse_key(&variable(name).ok_or_else(missing)?, &format!("the variable {name}"))
}

fn from_file(path: &Path) -> Result<SecretString, CliError> {
    require_private(path)?;
    let what = path.display().to_string();
    let bytes = read_file(path, &what, KEY_BYTES_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| CliError::NotText { path: path.into() })?;
    parse_key(&text, &what)
}

/// The key in `text`. Errors do not repeat the text, which may contain most of a key.
fn parse_key(text: &str, location: &str) -> Result<SecretString, CliError> {
    let text = text.trim();
    let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        return Ok(text.into());
    }
    Err(CliError::Usage(format!(
        "{location} contains no API key: a key is one word of printable ASCII characters"
    )))
}
