//! Standard output.

use std::io::{self, Write as _};

use serde_json::Value;

use crate::error::CliError;
use crate::escape::{json_line, sanitize};

/// Prints sanitized text, with a line feed at its end.
pub(crate) fn text(text: &str) -> Result<(), CliError> {
    let text = sanitize(text);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    bytes(format!("{text}{end}").as_bytes())
}

/// Prints one JSON document on one line.
pub(crate) fn json(value: &Value) -> Result<(), CliError> {
    bytes(json_line(value).as_bytes())
}

/// Prints bytes without sanitizing them, for programs.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(CliError::Print)
}

/// The width of the terminal; `None` if standard output is not a terminal.
pub(crate) fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}
