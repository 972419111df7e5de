//! Untrusted text in HTML.

use std::fmt::Write as _;

use maud::Render;

/// Untrusted text, escaped, with invisible characters replaced by visible marks.
pub(super) struct Visible<'a>(pub(super) &'a str);

impl Render for Visible<'_> {
    fn render_to(&self, buffer: &mut String) {
        for c in self.0.chars() {
            match c {
                '&' => buffer.push_str("&amp;"),
                '<' => buffer.push_str("&lt;"),
                '>' => buffer.push_str("&gt;"),
                '"' => buffer.push_str("&quot;"),
                '\'' => buffer.push_str("&#39;"),
                c if is_invisible(c) => push_mark(buffer, c),
                c => buffer.push(c),
            }
        }
    }
}

fn push_mark(buffer: &mut String, c: char) {
    // Writing to a `String` cannot fail.
    let _written = write!(buffer, "<mark>U+{:04X}</mark>", u32::from(c));
}

/// Whether the character is invisible or changes the order of others: controls, line and paragraph separators,
/// direction marks, joiners, fillers, variation selectors and tags.
fn is_invisible(c: char) -> bool {
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

    fn rendered(text: &str) -> String {
        Visible(text).render().into_string()
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(rendered("<b>\"&'</b>"), "&lt;b&gt;&quot;&amp;&#39;&lt;/b&gt;");
    }

    #[test]
    fn invisible_characters_are_marked() {
        assert_eq!(rendered("a\u{202e}b"), "a<mark>U+202E</mark>b");
        for invisible in ['\0', '\n', '\u{1b}', '\u{200b}', '\u{200d}', '\u{2066}', '\u{feff}', '\u{e0041}'] {
            assert!(!rendered(&invisible.to_string()).contains(invisible), "{invisible:?}");
        }
        assert_eq!(rendered("Grüße, 世界"), "Grüße, 世界");
    }
}
