//! Where in the file something stands, and how to show it.
//!
//! The file comes from a stranger and is shown on terminals, so what is shown of it has no control or
//! direction characters left and a bounded width.

use std::fmt;

use crate::yaml::Node;

/// A line wider than this is cropped around the caret: a terminal is about this wide.
const SHOWN_CHARS_MAX: usize = 100;

/// How much of a cropped line is left of the caret.
const SHOWN_BEFORE: usize = 60;

/// A line and a column, both counted from 1; a column is one character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Place {
    /// Where a file begins.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The place of byte `offset` of `source`.
    fn of_offset(source: &str, offset: usize) -> Self {
        let before = source.get(..offset).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        Self { line, column: before[line_start..].chars().count() + 1 }
    }

    /// The line of `source` that this place is on, with a caret under the column.
    pub fn snippet(self, source: &str) -> String {
        let line = source.lines().nth(self.line.saturating_sub(1)).unwrap_or_default();
        let (shown, caret) = cropped(line, self.column.saturating_sub(1));
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        format!("{gutter} |\n{number} | {shown}\n{gutter} | {}^\n", " ".repeat(caret))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl From<serde_saphyr::Location> for Place {
    fn from(location: serde_saphyr::Location) -> Self {
        let counted = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
        Self { line: counted(location.line()), column: counted(location.column()) }
    }
}

/// The part of `line` around its character `caret`, and where the caret is in that part.
fn cropped(line: &str, caret: usize) -> (String, usize) {
    let skipped = if line.chars().count() > SHOWN_CHARS_MAX { caret.saturating_sub(SHOWN_BEFORE) } else { 0 };
    let shown: String = line.chars().skip(skipped).take(SHOWN_CHARS_MAX).map(harmless).collect();
    let caret = (caret - skipped).min(shown.chars().count());
    (shown.trim_end().to_owned(), caret)
}

/// A tab is as wide as the caret's line thinks it is; what would move the cursor or turn the text around
/// is made visible instead.
fn harmless(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// The place of byte `at` of `text`, which is what the file's `node` says once YAML's quoting and folding are
/// undone. An expression is found again by counting the openings before it, which no quoting hides; if the
/// file spells the expression differently (a doubled quote, say), its opening is the place.
pub(crate) fn inside(source: &str, node: &Node, text: &str, at: usize) -> Place {
    let place = || {
        let (start, raw) = written(source, node)?;
        let open = text.get(..at + 2).or_else(|| text.get(..at))?.rfind("${")?;
        let nth = text[..open].matches("${").count();
        let raw_open = raw.match_indices("${").nth(nth)?.0;
        let lead = text.get(open..at).unwrap_or_default();
        let verbatim = raw[raw_open..].starts_with(lead);
        Some(Place::of_offset(source, start + raw_open + if verbatim { lead.len() } else { 0 }))
    };
    place().unwrap_or_else(|| node.referenced.into())
}

/// How `node` is written in the file, and from which byte on.
pub(crate) fn written<'s>(source: &'s str, node: &Node) -> Option<(usize, &'s str)> {
    let span = node.defined.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    Some((start, source.get(start..start.checked_add(length)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_stands_under_its_column() {
        let place = Place { line: 2, column: 3 };
        assert_eq!(place.snippet("a: 1\nb: é\n"), "  |\n2 | b: é\n  |   ^\n");
    }

    #[test]
    fn a_long_line_is_cropped_around_the_caret() {
        let line = format!("{}!{}", "a".repeat(500), "b".repeat(500));
        let shown = Place { line: 1, column: 501 }.snippet(&line);
        let caret = shown.lines().nth(2).unwrap().find('^').unwrap();
        assert_eq!(shown.lines().nth(1).unwrap().find('!'), Some(caret));
        assert!(shown.lines().all(|line| line.chars().count() <= SHOWN_CHARS_MAX + 4), "{shown}");
    }

    #[test]
    fn nothing_shown_moves_the_cursor_or_turns_the_text() {
        let shown = Place::START.snippet("a\u{1b}[2Jb\u{202e}c\td");
        assert_eq!(shown.lines().nth(1), Some("1 | a\u{fffd}[2Jb\u{fffd}c d"));
    }

    #[test]
    fn a_place_past_the_end_is_shown_without_panic() {
        assert_eq!(Place { line: 9, column: 9 }.snippet("a"), "  |\n9 | \n  | ^\n");
    }
}
