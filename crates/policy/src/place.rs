//! Where in a bundle something stands.

use std::fmt;

use serde::Serialize;

/// A line wider than this is cut where it is shown: a terminal is about this wide.
const SHOWN_CHARS_MAX: usize = 100;

/// A file of the bundle, with a line and a column, both counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The file, by its path in the bundle.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl Place {
    /// The line of `source` that this place is on, with a caret under the column.
    pub(crate) fn snippet(&self, source: &str) -> String {
        let index = usize::try_from(self.line).unwrap_or(usize::MAX).saturating_sub(1);
        let line = source.lines().nth(index).unwrap_or_default();
        let shown: String = line.chars().take(SHOWN_CHARS_MAX).map(harmless).collect();
        let caret = usize::try_from(self.column).unwrap_or(usize::MAX).saturating_sub(1).min(SHOWN_CHARS_MAX);
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        format!("{gutter} |\n{number} | {}\n{gutter} | {}^\n", shown.trim_end(), " ".repeat(caret))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A tab is as wide as the caret's line thinks it is; what would move the cursor or turn the text around is
/// made visible instead.
fn harmless(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32) -> Place {
        Place { file: "a.rego".to_owned(), line, column }
    }

    #[test]
    fn a_caret_stands_under_its_column() {
        assert_eq!(at(2, 3).snippet("a\nb é\n"), "  |\n2 | b é\n  |   ^\n");
        assert_eq!(at(9, 9).snippet("a"), "  |\n9 | \n  |         ^\n");
    }

    #[test]
    fn nothing_shown_moves_the_cursor_or_turns_the_text() {
        assert!(at(1, 1).snippet("a\u{1b}[2Jb\u{202e}c\td").contains("1 | a\u{fffd}[2Jb\u{fffd}c d"));
    }
}
