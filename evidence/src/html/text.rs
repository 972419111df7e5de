//! Text as a person may see it.

use std::fmt::{self, Display, Write as _};

use domain::Timestamp;
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

/// A moment as people write it, in universal time.
pub(super) struct Moment(pub(super) Timestamp);

impl Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0.0.div_euclid(86_400_000), self.0.0.rem_euclid(86_400_000));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
    }
}

/// The year, month and day that are so many days after 1970-01-01. Years are counted from March, in eras of
/// 400 years, so that the leap day is the last of its year and every era is alike.
fn civil(days: i64) -> (i64, i64, i64) {
    let from_march = days + 719_468;
    let (era, day_of_era) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
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

    #[test]
    fn a_moment_reads_as_a_date() {
        for (ms, text) in [
            (0, "1970-01-01 00:00:00.000Z"),
            (951_782_400_000, "2000-02-29 00:00:00.000Z"),
            (1_750_000_000_123, "2025-06-15 15:06:40.123Z"),
            (-1, "1969-12-31 23:59:59.999Z"),
        ] {
            assert_eq!(Moment(Timestamp(ms)).to_string(), text);
        }
    }
}
