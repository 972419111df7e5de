//! Positions in the source file, and how to print them.
//!
//! The file is untrusted and is printed on terminals, so control and direction characters are replaced and the width is
//! bounded.

use std::fmt;

use crate::yaml::Node;

/// Longer lines are cropped around the caret. A terminal is about this wide.
const SNIPPET_CHARS_MAX: usize = 100;

/// The characters of a cropped line before the caret.
const SNIPPET_BEFORE: usize = 60;

/// A line and a column, counted from 1. A column is one character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePosition {
    pub line: usize,
    pub column: usize,
}

impl SourcePosition {
    pub const START: Self = Self { line: 1, column: 1 };

    /// The position of byte `offset` of `source`.
    fn of_offset(source: &str, offset: usize) -> Self {
        let before = source.get(..offset).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        Self { line, column: before[line_start..].chars().count() + 1 }
    }

    /// The line of `source` at this position, with a caret under the column.
    pub fn snippet(self, source: &str) -> String {
        let line = source.lines().nth(self.line.saturating_sub(1)).unwrap_or_default();
        let (text, caret) = crop(line, self.column.saturating_sub(1));
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        format!("{gutter} |\n{number} | {text}\n{gutter} | {}^\n", " ".repeat(caret))
    }
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl From<serde_saphyr::Location> for SourcePosition {
    fn from(location: serde_saphyr::Location) -> Self {
        let to_usize = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
        Self { line: to_usize(location.line()), column: to_usize(location.column()) }
    }
}

/// The part of `line` around character `caret`, and the column of the caret in it.
fn crop(line: &str, caret: usize) -> (String, usize) {
    let skipped =
        if line.chars().count() > SNIPPET_CHARS_MAX { caret.saturating_sub(SNIPPET_BEFORE) } else { 0 };
    let text: String = line.chars().skip(skipped).take(SNIPPET_CHARS_MAX).map(printable).collect();
    let caret = (caret - skipped).min(text.chars().count());
    (text.trim_end().to_owned(), caret)
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

/// The position of byte `at` of `text`, the value of `node` after YAML unquoting and folding. The expression is located by
/// counting the `${` before it, which quoting does not change. If the source text of the expression differs from its value
/// (for example by a doubled quote), the position is that of its `${`.
pub(crate) fn position_in_text(source: &str, node: &Node, text: &str, at: usize) -> SourcePosition {
    let position = || {
        let (start, raw) = source_text(source, node)?;
        let open = text.get(..at + 2).or_else(|| text.get(..at))?.rfind("${")?;
        let nth = text[..open].matches("${").count();
        let raw_open = raw.match_indices("${").nth(nth)?.0;
        let prefix = text.get(open..at).unwrap_or_default();
        let verbatim = raw[raw_open..].starts_with(prefix);
        Some(SourcePosition::of_offset(source, start + raw_open + if verbatim { prefix.len() } else { 0 }))
    };
    position().unwrap_or_else(|| node.referenced.into())
}

/// The start offset and the source text of `node`.
pub(crate) fn source_text<'s>(source: &'s str, node: &Node) -> Option<(usize, &'s str)> {
    let span = node.defined.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    Some((start, source.get(start..start.checked_add(length)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caret_is_under_its_column() {
        let position = SourcePosition { line: 2, column: 3 };
        assert_eq!(position.snippet("a: 1\nb: é\n"), "  |\n2 | b: é\n  |   ^\n");
    }

    #[test]
    fn long_line_is_cropped_around_the_caret() {
        let line = format!("{}!{}", "a".repeat(500), "b".repeat(500));
        let snippet = SourcePosition { line: 1, column: 501 }.snippet(&line);
        let caret = snippet.lines().nth(2).unwrap().find('^').unwrap();
        assert_eq!(snippet.lines().nth(1).unwrap().find('!'), Some(caret));
        assert!(snippet.lines().all(|line| line.chars().count() <= SNIPPET_CHARS_MAX + 4), "{snippet}");
    }

    #[test]
    fn snippet_has_no_control_or_direction_characters() {
        let snippet = SourcePosition::START.snippet("a\u{1b}[2Jb\u{202e}c\td");
        assert_eq!(snippet.lines().nth(1), Some("1 | a\u{fffd}[2Jb\u{fffd}c d"));
    }

    #[test]
    fn position_past_the_end_does_not_panic() {
        assert_eq!(SourcePosition { line: 9, column: 9 }.snippet("a"), "  |\n9 | \n  | ^\n");
    }
}
