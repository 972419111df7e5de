//! Text as a person may see it.

use std::fmt::Write as _;

use maud::Render;

/// Somebody's text: escaped, and with whatever cannot be seen made visible.
pub(super) struct Seen<'a>(pub(super) &'a str);

impl Render for Seen<'_> {
    fn render_to(&self, buffer: &mut String) {
        for c in self.0.chars() {
            match c {
                '&' => buffer.push_str("&amp;"),
                '<' => buffer.push_str("&lt;"),
                '>' => buffer.push_str("&gt;"),
                '"' => buffer.push_str("&quot;"),
                '\'' => buffer.push_str("&#39;"),
                c if is_unseen(c) => push_mark(buffer, c),
                c => buffer.push(c),
            }
        }
    }
}

fn push_mark(buffer: &mut String, c: char) {
    // Writing to a `String` does not fail.
    let _written = write!(buffer, "<mark>U+{:04X}</mark>", u32::from(c));
}

/// Whether a reader would not see the character, or would see others elsewhere because of it: controls,
/// line and paragraph separators, marks of direction, joiners, fillers, selectors and tags.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> String {
        Seen(text).render().into_string()
    }

    #[test]
    fn nothing_that_somebody_wrote_is_markup() {
        assert_eq!(seen("<b>\"&'</b>"), "&lt;b&gt;&quot;&amp;&#39;&lt;/b&gt;");
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(seen("a\u{202e}b"), "a<mark>U+202E</mark>b");
        for unseen in ['\0', '\n', '\u{1b}', '\u{200b}', '\u{200d}', '\u{2066}', '\u{feff}', '\u{e0041}'] {
            assert!(!seen(&unseen.to_string()).contains(unseen), "{unseen:?}");
        }
        assert_eq!(seen("Grüße, 世界"), "Grüße, 世界");
    }
}
