//! Escapes untrusted text for Slack messages.
//!
//! Ticket text is untrusted. In Slack `<!channel>` notifies a whole channel, `<https://evil|docs>` is a disguised link,
//! and U+202E reverses the reading order. So `&`, `<` and `>` are escaped, invisible characters are written as
//! `⟨U+202E⟩`, and a text over its limit ends with the number of omitted characters.
//!
//! The texts go into `plain_text` elements, in which Slack formats nothing.

use std::cell::Cell;
use std::fmt::Write as _;

/// Space for `… 131072 more characters; the hash covers all of it`. No limit is smaller.
const NOTE_UNITS_MAX: usize = 64;

/// A question must fit on a screen.
const LINES_MAX: usize = 40;

/// The maximum length of a rendered text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimit {
    units: usize,
    note: &'static str,
}

impl TextLimit {
    /// For a text that is shown in full.
    pub const UNLIMITED: Self = Self { units: usize::MAX, note: "" };

    /// For a text that the approved hash covers completely.
    pub fn hashed(units: usize) -> Self {
        Self { units: units.max(NOTE_UNITS_MAX), note: "; the hash covers all of it" }
    }

    /// For a text that is not part of the approved subject.
    pub fn plain(units: usize) -> Self {
        Self { units: units.max(NOTE_UNITS_MAX), note: "" }
    }
}

/// Renders one line. Line breaks are written as codes, because a second line could imitate another field.
pub fn line(text: &str, limit: TextLimit) -> String {
    truncate(text, limit, |c, out| push(c, false, out))
}

/// Renders a text with several lines. After [`LINES_MAX`] lines, line breaks are written as codes, so the text cannot push
/// the rest of the card out of view.
pub fn text(text: &str, limit: TextLimit) -> String {
    let breaks = Cell::new(1);
    truncate(text, limit, |c, out| {
        breaks.set(breaks.get() + usize::from(c == '\n'));
        push(c, breaks.get() <= LINES_MAX, out);
    })
}

/// The length as Slack counts it: UTF-16 units after escaping.
pub fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// `text` within `limit`, complete or with a note at its end. It is cut between characters, never inside an escape.
fn truncate(text: &str, limit: TextLimit, push: impl Fn(char, &mut String)) -> String {
    let (mut whole, mut used) = (String::new(), 0);
    let (mut cut, mut shown_chars) = (0, 0);
    for (n, c) in text.chars().enumerate() {
        let from = whole.len();
        push(c, &mut whole);
        used += units(&whole[from..]);
        if used + NOTE_UNITS_MAX <= limit.units {
            (cut, shown_chars) = (whole.len(), n + 1);
        }
        if used > limit.units {
            whole.truncate(cut);
            let more = text.chars().count() - shown_chars;
            let _infallible = write!(whole, "… {more} more characters{}", limit.note);
            return whole;
        }
    }
    whole
}

fn push(c: char, lines: bool, out: &mut String) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '\n' if lines => out.push('\n'),
        c if is_invisible(c) => {
            let _infallible = write!(out, "⟨U+{:04X}⟩", u32::from(c));
        }
        c => out.push(c),
    }
}

/// Whether `c` is invisible or changes how its neighbours look: controls, bidirectional marks, joiners, fillers, tags,
/// variation selectors, and every blank except the space. The bracket of the codes is included, so that untrusted text
/// cannot imitate a code.
///
/// Some scripts and many emoji need joiners; these show as codes.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{8e2}'
            | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{27e8}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1345f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slack_markup_is_escaped() {
        assert_eq!(line("<!channel> & <@U1>", TextLimit::hashed(100)), "&lt;!channel&gt; &amp; &lt;@U1&gt;");
        assert_eq!(line("&lt;!here&gt;", TextLimit::hashed(100)), "&amp;lt;!here&amp;gt;");
    }

    #[test]
    fn invisible_characters_become_codes() {
        assert_eq!(
            line("a\u{202e}b\u{200b}c\u{feff}", TextLimit::hashed(100)),
            "a⟨U+202E⟩b⟨U+200B⟩c⟨U+FEFF⟩"
        );
        assert_eq!(
            line("a\u{e0041}\u{a0}\u{1b}[2J", TextLimit::hashed(100)),
            "a⟨U+E0041⟩⟨U+00A0⟩⟨U+001B⟩[2J"
        );
    }

    #[test]
    fn codes_cannot_be_imitated() {
        assert_eq!(line("⟨U+202E⟩", TextLimit::hashed(100)), "⟨U+27E8⟩U+202E⟩");
    }

    #[test]
    fn only_text_keeps_line_breaks() {
        assert_eq!(line("a\nb\r", TextLimit::hashed(100)), "a⟨U+000A⟩b⟨U+000D⟩");
        assert_eq!(text("a\nb\r", TextLimit::hashed(100)), "a\nb⟨U+000D⟩");
    }

    #[test]
    fn number_of_lines_is_limited() {
        let shown = text(&"\n".repeat(100), TextLimit::hashed(3_000));
        assert_eq!(shown.lines().count(), LINES_MAX);
        assert!(shown.ends_with("⟨U+000A⟩"), "{shown}");
    }

    #[test]
    fn long_text_says_how_much_is_missing() {
        let fits = "x".repeat(300);
        assert_eq!(line(&fits, TextLimit::hashed(300)), fits);
        let cut = line(&"x".repeat(301), TextLimit::hashed(300));
        assert!(cut.ends_with("x… 65 more characters; the hash covers all of it"), "{cut}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn rendered_text_stays_within_its_limit(any in ".*", max in NOTE_UNITS_MAX..400_usize) {
            for shown in [line(&any, TextLimit::hashed(max)), text(&any, TextLimit::hashed(max))] {
                prop_assert!(units(&shown) <= max);
                let parsed = ['<', '>', '\u{202e}', '\u{200b}', '\0'];
                prop_assert!(!shown.contains(parsed));
                let bare = shown.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "");
                prop_assert!(!bare.contains('&'), "{}", shown);
            }
        }
    }
}
