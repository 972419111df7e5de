//! Standard output.
//!
//! Replies of services, reasons and file names come from untrusted sources. Characters that are invisible, move the
//! cursor or reverse the text are printed as code points, such as `⟨U+200B⟩`.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use serde_json::Value;
use slack::escape::is_invisible;

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

/// Writes every invisible character except the line feed as a code point.
pub(crate) fn sanitize(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            // Writing to a `String` does not fail.
            let _written = write!(shown, "⟨U+{:04X}⟩", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The bracket of a code point may be printed: the text may contain code points of a card.
fn is_unsafe(c: char) -> bool {
    is_invisible(c) && !matches!(c, '\n' | '⟨')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_code_points() {
        assert_eq!(sanitize("a\u{1b}[2J\u{202e}b\r\nü"), "a⟨U+001B⟩[2J⟨U+202E⟩b⟨U+000D⟩\nü");
        assert_eq!(sanitize("ad\u{200b}a\u{feff}\u{ad}"), "ad⟨U+200B⟩a⟨U+FEFF⟩⟨U+00AD⟩");
    }
}
