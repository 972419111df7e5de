//! What must hold of a text before it is parsed at all.
//!
//! regorus bounds how deep some brackets are nested, and neither calls within calls nor chains of operators: a
//! thousand minus signs in a row exhaust the stack of the thread that parses them, and with it the process. So
//! operators, dots and brackets are counted first, over the tokens alone.

use regorus::Source;
use regorus::unstable::{Lexer, Token, TokenKind};

use crate::error::{BundleError, Problem};
use crate::place::Place;

/// More operators and brackets than this in one expression, with those it stands in, are unreadable.
pub(crate) const OPERATORS_MAX: usize = 64;

/// Refuses an expression of too many operators in the file `path`.
pub(crate) fn check(path: &str, text: &str) -> Result<(), BundleError> {
    // What cannot be read as tokens cannot be parsed either; the parser says so better.
    let Ok(source) = Source::from_contents(path.to_owned(), text.to_owned()) else { return Ok(()) };
    let mut lexer = Lexer::new(&source);
    let mut count = Count::default();
    while let Ok(token) = lexer.next_token() {
        if token.0 == TokenKind::Eof {
            break;
        }
        count.take(&token);
        if count.operators() > OPERATORS_MAX {
            let place = Place { file: path.to_owned(), line: token.1.line, column: token.1.col };
            return Err(BundleError::at(&place, Problem::Operators));
        }
    }
    Ok(())
}

/// The operators of the expression at hand, one number for each bracket that is open, the outermost first.
#[derive(Default)]
struct Count {
    outer: Vec<usize>,
    here: usize,
    line: u32,
    open_ended: bool,
}

impl Count {
    fn operators(&self) -> usize {
        self.here + self.outer.iter().sum::<usize>()
    }

    fn take(&mut self, token: &Token) {
        let (text, operator) = (token.1.text(), is_operator(token));
        // An expression goes on in the next line only if an operator stands before or after the break.
        let ended = token.1.line != self.line && !self.open_ended && !operator;
        (self.line, self.open_ended) = (token.1.line, operator);
        match text {
            "{" | "[" | "(" if token.0 == TokenKind::Symbol => {
                let outside = if ended { 0 } else { self.here };
                self.outer.push(outside + 1);
                self.here = 0;
            }
            "}" | "]" | ")" if token.0 == TokenKind::Symbol => self.here = self.outer.pop().unwrap_or(0),
            "," | ";" if token.0 == TokenKind::Symbol => self.here = 0,
            _ if operator => self.here += 1,
            _ if ended => self.here = 0,
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

    fn refused(text: &str) -> bool {
        check("p.rego", text).is_err()
    }

    #[test]
    fn a_chain_of_operators_is_counted_however_it_is_written() {
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
            assert!(refused(&format!("x := a {}", link.repeat(OPERATORS_MAX))), "{link:?}");
            assert!(!refused(&format!("x := a {}", link.repeat(8))), "{link:?}");
        }
        assert!(refused(&format!("x := {}", "-[1 +\n".repeat(OPERATORS_MAX))));
        assert!(refused(&format!("x := {}", "abs(".repeat(OPERATORS_MAX))));
        assert!(refused(&format!("x := a{}", ".b".repeat(OPERATORS_MAX))));
        assert!(refused(&format!("x := a{}", "[\n0\n]".repeat(OPERATORS_MAX))));
    }

    #[test]
    fn statements_and_members_are_counted_one_by_one() {
        assert!(!refused(&"x if a == 1 + 2\n".repeat(100)));
        assert!(!refused(&format!("x if {{\n{}}}", "a := 1 + 2; b := a in c\n".repeat(100))));
        assert!(!refused(&format!("x := [{}]", "1 + 2, ".repeat(100))));
        assert!(!refused(&format!("x := {{{}}}", "\"a\": 1 + 2,\n".repeat(100))));
    }
}
