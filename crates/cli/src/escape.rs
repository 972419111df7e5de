//! Text that is safe to print on a terminal.
//!
//! Replies of services, reasons and file names come from untrusted sources. Characters that are invisible, move the
//! cursor or reverse the text are printed as code points, such as `⟨U+200B⟩`.

use std::fmt::Write as _;

use serde_json::Value;
use slack::escape::is_invisible;

/// `value` on one line. A character that a terminal would act on is written as a `\u` escape, which means the same.
pub(crate) fn json_line(value: &Value) -> String {
    let mut line = String::new();
    for c in value.to_string().chars() {
        if !is_unsafe(c) {
            line.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _infallible = write!(line, "\\u{unit:04x}");
        }
    }
    line + "\n"
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
    use serde_json::json;

    #[test]
    fn invisible_characters_are_code_points() {
        assert_eq!(sanitize("a\u{1b}[2J\u{202e}b\r\nü"), "a⟨U+001B⟩[2J⟨U+202E⟩b⟨U+000D⟩\nü");
        assert_eq!(sanitize("ad\u{200b}a\u{feff}\u{ad}"), "ad⟨U+200B⟩a⟨U+FEFF⟩⟨U+00AD⟩");
    }

    #[test]
    fn every_character_is_printed_safely() {
        for c in '\0'..='\u{ffff}' {
            let text = format!("a{c}b");
            let printed = sanitize(&text);
            assert!(!printed.chars().any(is_unsafe), "U+{:04X}", u32::from(c));
            let line = json_line(&json!({ "text": text }));
            assert!(!line.trim_end_matches('\n').chars().any(is_unsafe), "U+{:04X}", u32::from(c));
            let parsed: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(parsed["text"], text.as_str());
        }
    }
}
