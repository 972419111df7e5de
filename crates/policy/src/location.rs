//! A position in a policy file.

use std::fmt;

use serde::Serialize;

/// Longer source lines are cut in error messages. A terminal is about this wide.
const SNIPPET_CHARS_MAX: usize = 100;

/// A file of the bundle, with line and column counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PolicyLocation {
    /// The path of the file in the bundle.
    pub file: String,
    pub line: u32,
    pub column: u32,
}

impl PolicyLocation {
    /// The source line at this location, with a caret under the column.
    pub(crate) fn snippet(&self, source: &str) -> String {
        let index = usize::try_from(self.line).unwrap_or(usize::MAX).saturating_sub(1);
        let line = source.lines().nth(index).unwrap_or_default();
        let text: String = line.chars().take(SNIPPET_CHARS_MAX).map(printable).collect();
        let caret =
            usize::try_from(self.column).unwrap_or(usize::MAX).saturating_sub(1).min(SNIPPET_CHARS_MAX);
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        format!("{gutter} |\n{number} | {}\n{gutter} | {}^\n", text.trim_end(), " ".repeat(caret))
    }
}

impl fmt::Display for PolicyLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Replaces a tab by one space, so that the caret stays aligned, and replaces characters that move the cursor or change
/// the text direction.
fn printable(c: char) -> char {
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

    fn at(line: u32, column: u32) -> PolicyLocation {
        PolicyLocation { file: "a.rego".to_owned(), line, column }
    }

    #[test]
    fn caret_is_under_its_column() {
        assert_eq!(at(2, 3).snippet("a\nb é\n"), "  |\n2 | b é\n  |   ^\n");
        assert_eq!(at(9, 9).snippet("a"), "  |\n9 | \n  |         ^\n");
    }

    #[test]
    fn snippet_has_no_control_or_direction_characters() {
        assert!(at(1, 1).snippet("a\u{1b}[2Jb\u{202e}c\td").contains("1 | a\u{fffd}[2Jb\u{fffd}c d"));
    }
}
