//! Where output goes.
//!
//! Much of what is printed came from strangers: replies of services, reasons, names in files. Before it
//! reaches a terminal, whatever would move the cursor or turn the text around is made visible instead.

use std::io::{self, Write as _};

use serde_json::Value;

use crate::error::CliError;

/// Prints text for people; a line feed is added if there is none.
pub(crate) fn text(text: &str) -> Result<(), CliError> {
    let text = harmless(text);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    bytes(format!("{text}{end}").as_bytes())
}

/// Prints one JSON document on one line.
pub(crate) fn json(value: &Value) -> Result<(), CliError> {
    bytes(format!("{value}\n").as_bytes())
}

/// Prints what programs read, as it is.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(CliError::Print)
}

/// How many columns the terminal has; none if standard output is none.
pub(crate) fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// The same text without anything that a terminal would obey.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect()
}

fn is_harmful(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_printed_moves_the_cursor_or_turns_the_text() {
        assert_eq!(harmless("a\u{1b}[2J\u{202e}b\r\nü"), "a\u{fffd}[2J\u{fffd}b\u{fffd}\nü");
    }
}
