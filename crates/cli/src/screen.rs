//! Standard output.
//!
//! Replies of services, reasons and file names come from untrusted sources. Characters that would move the cursor or
//! reverse the text are replaced before they reach a terminal.

use std::io::{self, Write as _};

use serde_json::Value;

use crate::error::CliError;

/// Prints sanitized text, with a line feed at its end.
pub(crate) fn text(text: &str) -> Result<(), CliError> {
    let text = sanitize(text);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    bytes(format!("{text}{end}").as_bytes())
}

/// Prints one JSON document on one line.
pub(crate) fn json(value: &Value) -> Result<(), CliError> {
    bytes(format!("{value}\n").as_bytes())
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

/// Replaces every control character and every bidirectional override.
pub(crate) fn sanitize(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect()
}

fn is_unsafe(c: char) -> bool {
    let bidirectional =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    bidirectional || (c.is_control() && c != '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_bidi_characters_are_replaced() {
        assert_eq!(sanitize("a\u{1b}[2J\u{202e}b\r\nü"), "a\u{fffd}[2J\u{fffd}b\u{fffd}\nü");
    }
}
