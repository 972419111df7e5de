//! The one way from somebody's text to a screen.
//!
//! Ticket text is written by strangers. In Slack `<!channel>` calls a hundred people, `<https://evil|docs>`
//! is a link that lies, and U+202E lets `rm` read as something else. So `&`, `<` and `>` are escaped, what
//! cannot be seen is written out as `⟨U+202E⟩`, and what is too long ends in words that say how much more
//! there is.
//!
//! Most texts go into `plain_text` elements, in which Slack formats nothing; [`mrkdwn`] is for the few
//! places that have none.

use std::cell::Cell;
use std::fmt::Write as _;

/// Room for `… 131072 more characters; the hash covers all of it`, with digits to spare. No bound is smaller.
const NOTE_UNITS_MAX: usize = 64;

/// A question fits on a screen.
const LINES_MAX: usize = 40;

/// How much of a text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    units: usize,
    note: &'static str,
}

impl Bound {
    /// At most `units` of a text that the approved hash covers, shown or not.
    pub fn hashed(units: usize) -> Self {
        Self { units: units.max(NOTE_UNITS_MAX), note: "; the hash covers all of it" }
    }

    /// At most `units` of a text that is shown beside what is approved.
    pub fn plain(units: usize) -> Self {
        Self { units: units.max(NOTE_UNITS_MAX), note: "" }
    }
}

/// One line: a name, a value, a target. Line breaks are written out like everything else unseen, because a
/// second line could pass for one of ours.
pub fn line(text: &str, bound: Bound) -> String {
    bounded(text, bound, |c, out| push(c, false, out))
}

/// A text of several lines: a question, in the words of its author. After [`LINES_MAX`] of them a line break
/// is written out, so that nothing is pushed out of sight.
pub fn text(text: &str, bound: Bound) -> String {
    let breaks = Cell::new(1);
    bounded(text, bound, |c, out| {
        breaks.set(breaks.get() + usize::from(c == '\n'));
        push(c, breaks.get() <= LINES_MAX, out);
    })
}

/// One line for a place where Slack formats. A formatting mark is replaced by one that looks alike and means
/// nothing; such a line is good for a notification, and not for what people approve.
pub fn mrkdwn(text: &str, bound: Bound) -> String {
    bounded(text, bound, |c, out| push(unformatted(c), false, out))
}

/// Slack counts as JavaScript does: in UTF-16 units, and after escaping.
pub fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// `text` within `bound`, whole or with a note at its end. It is cut between characters of the original,
/// never inside of an escape.
fn bounded(text: &str, bound: Bound, push: impl Fn(char, &mut String)) -> String {
    let (mut whole, mut used) = (String::new(), 0);
    let (mut cut, mut kept) = (0, 0);
    for (n, c) in text.chars().enumerate() {
        let from = whole.len();
        push(c, &mut whole);
        used += units(&whole[from..]);
        if used + NOTE_UNITS_MAX <= bound.units {
            (cut, kept) = (whole.len(), n + 1);
        }
        if used > bound.units {
            whole.truncate(cut);
            let more = text.chars().count() - kept;
            let _infallible = write!(whole, "… {more} more characters{}", bound.note);
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
        c if is_unseen(c) => {
            let _infallible = write!(out, "⟨U+{:04X}⟩", u32::from(c));
        }
        c => out.push(c),
    }
}

fn unformatted(c: char) -> char {
    match c {
        '*' => '\u{2217}',
        '_' => '\u{2c9}',
        '~' => '\u{223c}',
        '`' => '\u{2cb}',
        ':' => '\u{a789}',
        '@' => '\u{ff20}',
        '#' => '\u{ff03}',
        c => c,
    }
}

/// Whether nobody can see `c`, or it changes how its neighbours are seen: controls, bidirectional marks,
/// joiners, fillers, tags, variation selectors, and every blank but the common one. The bracket that we write
/// such characters with is among them, so that nobody else can write one.
///
/// Some scripts and many emoji need joiners. There they show as codes: on a card that is approved, a strange
/// sight is better than an unseen one.
pub fn is_unseen(c: char) -> bool {
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
    fn nothing_is_left_that_slack_would_parse() {
        assert_eq!(line("<!channel> & <@U1>", Bound::hashed(100)), "&lt;!channel&gt; &amp; &lt;@U1&gt;");
        assert_eq!(line("&lt;!here&gt;", Bound::hashed(100)), "&amp;lt;!here&amp;gt;");
    }

    #[test]
    fn the_unseen_is_written_out() {
        assert_eq!(line("a\u{202e}b\u{200b}c\u{feff}", Bound::hashed(100)), "a⟨U+202E⟩b⟨U+200B⟩c⟨U+FEFF⟩");
        assert_eq!(line("a\u{e0041}\u{a0}\u{1b}[2J", Bound::hashed(100)), "a⟨U+E0041⟩⟨U+00A0⟩⟨U+001B⟩[2J");
    }

    #[test]
    fn nobody_else_can_write_a_code() {
        assert_eq!(line("⟨U+202E⟩", Bound::hashed(100)), "⟨U+27E8⟩U+202E⟩");
    }

    #[test]
    fn only_a_text_has_several_lines() {
        assert_eq!(line("a\nb\r", Bound::hashed(100)), "a⟨U+000A⟩b⟨U+000D⟩");
        assert_eq!(text("a\nb\r", Bound::hashed(100)), "a\nb⟨U+000D⟩");
    }

    #[test]
    fn a_text_cannot_push_the_rest_out_of_sight() {
        let shown = text(&"\n".repeat(100), Bound::hashed(3_000));
        assert_eq!(shown.lines().count(), LINES_MAX);
        assert!(shown.ends_with("⟨U+000A⟩"), "{shown}");
    }

    #[test]
    fn where_slack_formats_the_marks_mean_nothing() {
        let shown = mrkdwn("*a* _b_ ~c~ `d` :e: @here #general <x>", Bound::hashed(200));
        assert!(!shown.contains(['*', '_', '~', '`', ':', '@', '#', '<', '>']), "{shown}");
    }

    #[test]
    fn a_text_that_fits_is_whole_and_a_longer_one_says_how_much_is_missing() {
        let fits = "x".repeat(300);
        assert_eq!(line(&fits, Bound::hashed(300)), fits);
        let cut = line(&"x".repeat(301), Bound::hashed(300));
        assert!(cut.ends_with("x… 65 more characters; the hash covers all of it"), "{cut}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_it_is_it_stays_within_its_bound(any in ".*", max in NOTE_UNITS_MAX..400_usize) {
            for shown in [line(&any, Bound::hashed(max)), text(&any, Bound::hashed(max)), mrkdwn(&any, Bound::hashed(max))] {
                prop_assert!(units(&shown) <= max);
                let parsed = ['<', '>', '\u{202e}', '\u{200b}', '\0'];
                prop_assert!(!shown.contains(parsed));
                let bare = shown.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "");
                prop_assert!(!bare.contains('&'), "{}", shown);
            }
        }
    }
}
