//! The file in which the operator describes the systems outside.

use std::path::Path;

use config::{BYTES_MAX, InvalidSystems, Systems};

use crate::error::CliError;
use crate::input::read_file;

/// Looks an environment variable up.
pub(crate) type Variable = fn(&str) -> Option<String>;

/// Reads the file at `path`; without one there are no systems outside.
pub(crate) fn read(path: Option<&Path>) -> Result<Systems, CliError> {
    let Some(path) = path else { return Ok(Systems::default()) };
    let bytes = read_file(path, &path.display().to_string(), BYTES_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| CliError::NotText { path: path.into() })?;
    Systems::parse(&text)
        .map_err(|error| CliError::Usage(format!("{} cannot be used: {error}", path.display())))
}

impl From<InvalidSystems> for CliError {
    fn from(error: InvalidSystems) -> Self {
        Self::Usage(error.to_string())
    }
}
