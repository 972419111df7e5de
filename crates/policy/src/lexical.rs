//! Limits on a file, checked before it is parsed.
//!
//! regorus limits the nesting of some brackets, but not of calls or operators: a thousand minus signs in a row overflow
//! the stack of the parsing thread, which aborts the process. So operators, dots and brackets are counted first, on
//! tokens only.

use std::num::NonZeroU32;

use regorus::Source;
use regorus::unstable::{Lexer, Token, TokenKind};
use regorus::utils::limits::PolicyLengthConfig;

use crate::error::{PolicyError, PolicyErrorKind};
use crate::location::PolicyLocation;

/// The maximum number of operators and brackets in one expression, including the brackets around it.
pub(crate) const OPERATORS_MAX: usize = 64;

/// The maximum depth of brackets. The parser reads the start of a bracket as a comprehension first, and then again, so its
/// time doubles with each level.
pub(crate) const NESTING_MAX: usize = 14;

/// OPA has no limit on the length of a line. regorus cannot print an error beyond column 65,535: it panics. A tab counts as
/// four columns.
const COLUMNS_MAX: NonZeroU32 = NonZeroU32::MIN.saturating_add(60_000);

/// The limits of the parser. The size of the bundle limits the rest.
pub(crate) fn length_limits() -> PolicyLengthConfig {
    PolicyLengthConfig { max_col: COLUMNS_MAX, ..PolicyLengthConfig::default() }
}

/// Refuses a file with an expression of too many operators.
pub(crate) fn check(path: &str, text: &str) -> Result<(), PolicyError> {
    // A text without valid tokens does not parse either, and the parser has the better error message.
    let Ok(source) = Source::from_contents(path.to_owned(), text.to_owned()) else { return Ok(()) };
    let mut lexer = Lexer::new(&source);
    lexer.set_max_col(COLUMNS_MAX);
    let mut count = OperatorCounter::default();
    while let Ok(token) = lexer.next_token() {
        if token.0 == TokenKind::Eof {
            break;
        }
        count.add(&token);
        let kind = match () {
            () if count.operators() > OPERATORS_MAX => PolicyErrorKind::Operators,
            () if count.outer.len() > NESTING_MAX => PolicyErrorKind::Nesting,
            () => continue,
        };
        let location = PolicyLocation { file: path.to_owned(), line: token.1.line, column: token.1.col };
        return Err(PolicyError::at(&location, kind));
    }
    Ok(())
}

/// The operators of the current expression, and one count for each open bracket around it, outermost first.
#[derive(Default)]
struct OperatorCounter {
    outer: Vec<usize>,
    current: usize,
    line: u32,
    continues: bool,
}

impl OperatorCounter {
    fn operators(&self) -> usize {
        self.current + self.outer.iter().sum::<usize>()
    }

    fn add(&mut self, token: &Token) {
        let (text, operator) = (token.1.text(), is_operator(token));
        // An expression continues on the next line only if an operator comes before or after the line break.
        let ended = token.1.line != self.line && !self.continues && !operator;
        (self.line, self.continues) = (token.1.line, operator);
        match text {
            "{" | "[" | "(" if token.0 == TokenKind::Symbol => {
                let outside = if ended { 0 } else { self.current };
                self.outer.push(outside + 1);
                self.current = 0;
            }
            "}" | "]" | ")" if token.0 == TokenKind::Symbol => self.current = self.outer.pop().unwrap_or(0),
            "," | ";" if token.0 == TokenKind::Symbol => self.current = 0,
            _ if operator => self.current += 1,
            _ if ended => self.current = 0,
            _ => {}
        }
    }
}

fn is_operator(Token(kind, span): &Token) -> bool {
    let text = span.text();
    match kind {
        TokenKind::Symbol => !matches!(text, "{" | "}" | "[" | "]" | "(" | ")" | "," | ";" | ":"),
        TokenKind::Ident => matches!(text, "in" | "not" | "else"),
        // In `1 -1` the sign is part of the number.
        TokenKind::Number => text.starts_with('-'),
        TokenKind::String | TokenKind::RawString | TokenKind::Eof => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(text: &str) -> bool {
        check("p.rego", text).is_err()
    }

    #[test]
    fn operators_are_counted_across_lines_and_brackets() {
        for link in [
            "+ 1",
            "+\n1",
            "\n+ 1",
            "-1",
            " in a",
            "+ f(1, 2)",
            "+ [1, {2}][0]",
            "- - - -1",
            "\n| {1}",
            " = a",
        ] {
            assert!(is_refused(&format!("x := a {}", link.repeat(OPERATORS_MAX))), "{link:?}");
            assert!(!is_refused(&format!("x := a {}", link.repeat(8))), "{link:?}");
        }
        assert!(is_refused(&format!("x := {}", "-[1 +\n".repeat(OPERATORS_MAX))));
        assert!(is_refused(&format!("x := {}", "abs(".repeat(OPERATORS_MAX))));
        assert!(is_refused(&format!("x := a{}", ".b".repeat(OPERATORS_MAX))));
        assert!(is_refused(&format!("x := a{}", "[\n0\n]".repeat(OPERATORS_MAX))));
    }

    #[test]
    fn nested_brackets_are_counted() {
        for (open, close) in [("[", "]"), ("{", "}"), ("f(", ")"), ("{\"a\": ", "}")] {
            let nested = |depth: usize| format!("x := {}1{}", open.repeat(depth), close.repeat(depth));
            assert!(!is_refused(&nested(NESTING_MAX)), "{open}");
            assert!(is_refused(&nested(NESTING_MAX + 1)), "{open}");
        }
    }

    #[test]
    fn statements_and_members_are_counted_separately() {
        assert!(!is_refused(&"x if a == 1 + 2\n".repeat(100)));
        assert!(!is_refused(&format!("x if {{\n{}}}", "a := 1 + 2; b := a in c\n".repeat(100))));
        assert!(!is_refused(&format!("x := [{}]", "1 + 2, ".repeat(100))));
        assert!(!is_refused(&format!("x := {{{}}}", "\"a\": 1 + 2,\n".repeat(100))));
    }
}
