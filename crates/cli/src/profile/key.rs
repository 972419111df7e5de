//! Where the key for a server is found.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use secrecy::SecretString;

use super::Profile;
use crate::config::Variable;
use crate::error::CliError;
use crate::input::read_file;

/// The variable that holds the key where no profile names another place.
pub(super) const VARIABLE: &str = "COUNTERSIGN_API_KEY";

/// Tokens of a login service are a few thousand bytes long.
const KEY_BYTES_MAX: usize = 16 * 1024;

/// The bits of a file's mode that let others in.
const OTHERS: u32 = 0o077;

/// The key that `profile` names. One that is meant for another server is never looked at: a profile that names a
/// place of its own has its key there or nowhere.
pub(super) fn of(profile: Option<&Profile>, variable: Variable) -> Result<SecretString, CliError> {
    match profile {
        Some(Profile { key_env: Some(name), .. }) => from_variable(name, variable),
        Some(Profile { key_file: Some(path), .. }) => from_file(path),
        _ => from_variable(VARIABLE, variable),
    }
}

fn from_variable(name: &str, variable: Variable) -> Result<SecretString, CliError> {
    let missing = || {
        CliError::Usage(format!(
            "there is no key: the variable {name} is not set; a profile may name another, or a file \
             (`countersign profile add --help`)"
        ))
    };
    usable(&variable(name).ok_or_else(missing)?, &format!("the variable {name}"))
}

fn from_file(path: &Path) -> Result<SecretString, CliError> {
    let failed = |source| CliError::Read { path: path.into(), source };
    let mode = fs::metadata(path).map_err(failed)?.mode();
    if mode & OTHERS != 0 {
        let why =
            format!("others can read it; run: chmod 600 {}", views::hint::quoted(&path.to_string_lossy()));
        return Err(CliError::Key { path: path.into(), why });
    }
    let what = path.display().to_string();
    let bytes = read_file(path, &what, KEY_BYTES_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| CliError::NotText { path: path.into() })?;
    usable(&text, &what)
}

/// The key in `text`. What cannot be one is not repeated: most of it may be.
fn usable(text: &str, place: &str) -> Result<SecretString, CliError> {
    let text = text.trim();
    let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        return Ok(text.into());
    }
    Err(CliError::Usage(format!("{place} holds no key: a key is one word of visible ASCII characters")))
}
