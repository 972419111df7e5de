//! Finds `${ … }` in a string.
//!
//! CEL's own lexer splits the expression, so a brace inside a string, a comment or a map does not end it. `$${` is a
//! literal `${`.

use cel::parser::pratt_parser::{Lexer, Token, TokenKind};

use super::error::{ExpressionCompileError, InvalidExpression};
use super::{EXPRESSION_BYTES_MAX, Expression, TOKENS_MAX};

/// A part of a string.
#[derive(Debug)]
pub(crate) enum Piece {
    Literal(String),
    /// An expression with its byte offset in the string.
    Expression {
        at: usize,
        expression: Box<Expression>,
    },
}

#[derive(Debug)]
pub(crate) struct Tokens<'c> {
    code: &'c str,
    tokens: Vec<Token>,
}

/// Splits `text` into its pieces. The offset of an error is relative to `text`.
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

/// The expression that starts at byte `open`, and the offset after its closing brace.
fn expression_at(text: &str, open: usize) -> Result<(Expression, usize), InvalidExpression> {
    let start = open + 2;
    let shifted = |error: InvalidExpression| InvalidExpression { at: start + error.at, ..error };
    let (length, tokens) = tokenize(&text[start..]).map_err(|e| match e.error {
        ExpressionCompileError::Unclosed => InvalidExpression { at: open, ..e },
        _ => shifted(e),
    })?;
    let code = &text[start..start + length];
    let expression = Expression::compile(code, &Tokens { code, tokens }).map_err(shifted)?;
    Ok((expression, start + length + 1))
}

/// The offset of the closing brace, and the tokens before it.
fn tokenize(text: &str) -> Result<(usize, Vec<Token>), InvalidExpression> {
    let mut lexer = Lexer::new(text);
    let mut tokens = Vec::new();
    let mut open_braces = 0_usize;
    loop {
        let token = lexer.lex();
        match token.kind {
            TokenKind::TokEnd => {
                return Err(InvalidExpression { at: 0, error: ExpressionCompileError::Unclosed });
            }
            TokenKind::TokError => return Err(lex_error(&lexer, token)),
            TokenKind::TokRightBrace if open_braces == 0 => return Ok((token.start, tokens)),
            TokenKind::TokRightBrace => open_braces -= 1,
            TokenKind::TokLeftBrace => open_braces += 1,
            TokenKind::TokWhitespace | TokenKind::TokComment => continue,
            _ => {}
        }
        tokens.push(token);
    }
}

fn lex_error(lexer: &Lexer<'_>, token: Token) -> InvalidExpression {
    let reason = lexer.get_error().map_or("unexpected character", |error| error.message.as_str());
    InvalidExpression { at: token.start, error: ExpressionCompileError::Syntax(reason.to_owned()) }
}

impl Tokens<'_> {
    /// Refuses an empty or too large expression.
    pub(crate) fn check_size(&self) -> Result<(), InvalidExpression> {
        let error = match (self.tokens.len(), self.code.len()) {
            (0, _) => ExpressionCompileError::Empty,
            (_, bytes) if bytes > EXPRESSION_BYTES_MAX => ExpressionCompileError::TooLong { bytes },
            (tokens, _) if tokens > TOKENS_MAX => ExpressionCompileError::TooManyTokens,
            _ => return Ok(()),
        };
        Err(InvalidExpression { at: 0, error })
    }

    /// The offset of the first use of `name` as a variable or function, not as a field.
    pub(crate) fn find_name(&self, name: &str) -> usize {
        let name = name.trim_start_matches('.');
        self.find(|before, rest| self.text(rest[0]) == name && before != Some(TokenKind::TokDot))
            .or_else(|| self.find(|_, rest| self.text(rest[0]) == name))
            .unwrap_or(0)
    }

    /// The offset of the first reference to the step `id`.
    pub(crate) fn find_step(&self, id: &str) -> usize {
        self.find(|before, rest| {
            before != Some(TokenKind::TokDot)
                && self.text(rest[0]) == "steps"
                && rest.get(2).is_some_and(|token| self.text(*token).trim_matches(['"', '\'']) == id)
        })
        .unwrap_or_else(|| self.find_name("steps"))
    }

    /// The offset of the first token that matches, given the kind of the token before it and the tokens from it on.
    fn find(&self, matches: impl Fn(Option<TokenKind>, &[Token]) -> bool) -> Option<usize> {
        (0..self.tokens.len()).find_map(|i| {
            let before = i.checked_sub(1).map(|i| self.tokens[i].kind);
            matches(before, &self.tokens[i..]).then(|| self.tokens[i].start)
        })
    }

    fn text(&self, token: Token) -> &str {
        self.code.get(token.start..token.end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<String> {
        let show = |piece: &Piece| match piece {
            Piece::Literal(literal) => literal.clone(),
            Piece::Expression { at, expression } => format!("{at}<{}>", expression.source()),
        };
        split(text).unwrap().iter().map(show).collect()
    }

    fn split_error(text: &str) -> (usize, ExpressionCompileError) {
        let error = split(text).unwrap_err();
        (error.at, error.error)
    }

    #[test]
    fn string_is_split_into_literals_and_expressions() {
        assert_eq!(pieces("plain $ text { } $"), ["plain $ text { } $"]);
        assert_eq!(pieces("a ${ 1 } b ${2}"), ["a ", "4<1>", " b ", "13<2>"]);
        assert_eq!(pieces("${1}${2}"), ["2<1>", "6<2>"]);
        assert!(split("").unwrap().is_empty());
    }

    #[test]
    fn doubled_dollar_is_an_escape() {
        assert_eq!(pieces("$${ 1 }"), ["${ 1 }"]);
        assert_eq!(pieces("a $${b} ${1} $$"), ["a ${b} ", "10<1>", " $$"]);
        assert_eq!(pieces("$$${ 1 }"), ["$${ 1 }"]);
    }

    #[test]
    fn nested_braces_do_not_end_the_expression() {
        assert_eq!(pieces(r#"${ "}" }!"#), [r#"2<"}">"#, "!"]);
        assert_eq!(pieces(r#"${ {"a": {"b": 1}} }!"#), [r#"2<{"a": {"b": 1}}>"#, "!"]);
        assert_eq!(pieces(r#"${ '''}''' + r"}\" }!"#), [r#"2<'''}''' + r"}\">"#, "!"]);
        assert_eq!(pieces("${ 1 // }\n }!"), ["2<1 // }>", "!"]);
    }

    #[test]
    fn unclosed_expression_is_reported_at_its_start() {
        assert_eq!(split_error("ab ${ 1"), (3, ExpressionCompileError::Unclosed));
        assert_eq!(split_error("ab ${ {1"), (3, ExpressionCompileError::Unclosed));
        assert_eq!(split_error("${ }"), (2, ExpressionCompileError::Empty));
        assert_eq!(
            split_error("é ${ 'x }"),
            (6, ExpressionCompileError::Syntax("unterminated string literal".to_owned()))
        );
        assert_eq!(
            split_error("${ é }"),
            (3, ExpressionCompileError::Syntax("unexpected character".to_owned()))
        );
    }

    #[test]
    fn expression_is_bounded_in_bytes_and_tokens() {
        let long = format!("${{ \"{}\" }}", "x".repeat(EXPRESSION_BYTES_MAX));
        assert_eq!(
            split_error(&long),
            (2, ExpressionCompileError::TooLong { bytes: EXPRESSION_BYTES_MAX + 4 })
        );
        let many = format!("${{ [{}] }}", "1,".repeat(TOKENS_MAX));
        assert_eq!(split_error(&many), (2, ExpressionCompileError::TooManyTokens));
    }
}
