//! Finding `${ … }` in a text.
//!
//! The words of an expression are cut by CEL's own lexer, so a brace inside a string, a comment or a map
//! does not end the expression. `$${` is a plain `${`.

use cel::parser::pratt_parser::{Lexer, Token, TokenKind};

use super::fault::{ExpressionFault, InvalidExpression};
use super::{EXPRESSION_BYTES_MAX, Expression, TOKENS_MAX};

/// What a text is made of.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Text as it stands.
    Literal(String),
    /// An expression, and at which byte of the text it begins.
    Expression { at: usize, expression: Box<Expression> },
}

/// The words of an expression.
#[derive(Debug)]
pub(crate) struct Tokens<'c> {
    code: &'c str,
    tokens: Vec<Token>,
}

/// Cuts `text` into its pieces; the byte of an error counts from the text's beginning.
pub(crate) fn split(text: &str) -> Result<Vec<Piece>, InvalidExpression> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut at = 0;
    while let Some(found) = text[at..].find("${") {
        let open = at + found;
        if text[at..open].ends_with('$') {
            literal.push_str(&text[at..open - 1]);
            literal.push_str("${");
            at = open + 2;
            continue;
        }
        literal.push_str(&text[at..open]);
        push_literal(&mut pieces, &mut literal);
        let (expression, end) = expression_at(text, open)?;
        pieces.push(Piece::Expression { at: open + 2, expression: Box::new(expression) });
        at = end;
    }
    literal.push_str(&text[at..]);
    push_literal(&mut pieces, &mut literal);
    Ok(pieces)
}

fn push_literal(pieces: &mut Vec<Piece>, literal: &mut String) {
    if !literal.is_empty() {
        pieces.push(Piece::Literal(std::mem::take(literal)));
    }
}

/// The expression that opens at byte `open`, and the byte after its closing brace.
fn expression_at(text: &str, open: usize) -> Result<(Expression, usize), InvalidExpression> {
    let start = open + 2;
    let shifted = |error: InvalidExpression| InvalidExpression { at: start + error.at, ..error };
    let (length, tokens) = words(&text[start..]).map_err(|e| match e.fault {
        ExpressionFault::Unclosed => InvalidExpression { at: open, ..e },
        _ => shifted(e),
    })?;
    let code = &text[start..start + length];
    let expression = Expression::compile(code, &Tokens { code, tokens }).map_err(shifted)?;
    Ok((expression, start + length + 1))
}

/// The words up to the brace that closes the expression, and the byte of that brace.
fn words(text: &str) -> Result<(usize, Vec<Token>), InvalidExpression> {
    let mut lexer = Lexer::new(text);
    let mut tokens = Vec::new();
    let mut open_braces = 0_usize;
    loop {
        let token = lexer.lex();
        match token.kind {
            TokenKind::TokEnd => return Err(InvalidExpression { at: 0, fault: ExpressionFault::Unclosed }),
            TokenKind::TokError => return Err(unreadable(&lexer, token)),
            TokenKind::TokRightBrace if open_braces == 0 => return Ok((token.start, tokens)),
            TokenKind::TokRightBrace => open_braces -= 1,
            TokenKind::TokLeftBrace => open_braces += 1,
            TokenKind::TokWhitespace | TokenKind::TokComment => continue,
            _ => {}
        }
        tokens.push(token);
    }
}

fn unreadable(lexer: &Lexer<'_>, token: Token) -> InvalidExpression {
    let reason = lexer.get_error().map_or("unexpected character", |error| error.message.as_str());
    InvalidExpression { at: token.start, fault: ExpressionFault::Syntax(reason.to_owned()) }
}

impl Tokens<'_> {
    /// Refuses an expression that is empty or too large to be looked at.
    pub(crate) fn bounded(&self) -> Result<(), InvalidExpression> {
        let fault = match (self.tokens.len(), self.code.len()) {
            (0, _) => ExpressionFault::Empty,
            (_, bytes) if bytes > EXPRESSION_BYTES_MAX => ExpressionFault::TooLong { bytes },
            (words, _) if words > TOKENS_MAX => ExpressionFault::TooManyTokens,
            _ => return Ok(()),
        };
        Err(InvalidExpression { at: 0, fault })
    }

    /// The byte at which `name` is first used as a name of its own, not as a field of something.
    pub(crate) fn find_name(&self, name: &str) -> usize {
        let name = name.trim_start_matches('.');
        self.find(|before, rest| self.text(rest[0]) == name && before != Some(TokenKind::TokDot))
            .or_else(|| self.find(|_, rest| self.text(rest[0]) == name))
            .unwrap_or(0)
    }

    /// The byte at which the step called `id` is first named.
    pub(crate) fn find_step(&self, id: &str) -> usize {
        self.find(|before, rest| {
            before != Some(TokenKind::TokDot)
                && self.text(rest[0]) == "steps"
                && rest.get(2).is_some_and(|named| self.text(*named).trim_matches(['"', '\'']) == id)
        })
        .unwrap_or_else(|| self.find_name("steps"))
    }

    /// The byte of the first word for which `wanted` holds, given what stands before it and what follows.
    fn find(&self, wanted: impl Fn(Option<TokenKind>, &[Token]) -> bool) -> Option<usize> {
        (0..self.tokens.len()).find_map(|i| {
            let before = i.checked_sub(1).map(|i| self.tokens[i].kind);
            wanted(before, &self.tokens[i..]).then(|| self.tokens[i].start)
        })
    }

    fn text(&self, token: Token) -> &str {
        self.code.get(token.start..token.end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let show = |piece: &Piece| match piece {
            Piece::Literal(literal) => literal.clone(),
            Piece::Expression { at, expression } => format!("{at}<{}>", expression.source()),
        };
        split(text).unwrap().iter().map(show).collect()
    }

    fn refused(text: &str) -> (usize, ExpressionFault) {
        let error = split(text).unwrap_err();
        (error.at, error.fault)
    }

    #[test]
    fn a_text_is_cut_into_literals_and_expressions() {
        assert_eq!(shown("plain $ text { } $"), ["plain $ text { } $"]);
        assert_eq!(shown("a ${ 1 } b ${2}"), ["a ", "4<1>", " b ", "13<2>"]);
        assert_eq!(shown("${1}${2}"), ["2<1>", "6<2>"]);
        assert!(split("").unwrap().is_empty());
    }

    #[test]
    fn a_doubled_dollar_is_a_plain_one() {
        assert_eq!(shown("$${ 1 }"), ["${ 1 }"]);
        assert_eq!(shown("a $${b} ${1} $$"), ["a ${b} ", "10<1>", " $$"]);
        assert_eq!(shown("$$${ 1 }"), ["$${ 1 }"]);
    }

    #[test]
    fn a_brace_inside_a_string_a_map_or_a_comment_does_not_end_the_expression() {
        assert_eq!(shown(r#"${ "}" }!"#), [r#"2<"}">"#, "!"]);
        assert_eq!(shown(r#"${ {"a": {"b": 1}} }!"#), [r#"2<{"a": {"b": 1}}>"#, "!"]);
        assert_eq!(shown(r#"${ '''}''' + r"}\" }!"#), [r#"2<'''}''' + r"}\">"#, "!"]);
        assert_eq!(shown("${ 1 // }\n }!"), ["2<1 // }>", "!"]);
    }

    #[test]
    fn an_open_end_is_refused_where_it_opens() {
        assert_eq!(refused("ab ${ 1"), (3, ExpressionFault::Unclosed));
        assert_eq!(refused("ab ${ {1"), (3, ExpressionFault::Unclosed));
        assert_eq!(refused("${ }"), (2, ExpressionFault::Empty));
        assert_eq!(
            refused("é ${ 'x }"),
            (6, ExpressionFault::Syntax("unterminated string literal".to_owned()))
        );
        assert_eq!(refused("${ é }"), (3, ExpressionFault::Syntax("unexpected character".to_owned())));
    }

    #[test]
    fn an_expression_is_bounded_in_bytes_and_words() {
        let long = format!("${{ \"{}\" }}", "x".repeat(EXPRESSION_BYTES_MAX));
        assert_eq!(refused(&long), (2, ExpressionFault::TooLong { bytes: EXPRESSION_BYTES_MAX + 4 }));
        let many = format!("${{ [{}] }}", "1,".repeat(TOKENS_MAX));
        assert_eq!(refused(&many), (2, ExpressionFault::TooManyTokens));
    }
}
