//! Rust source without comments and literals, so that rules about code ignore text that mentions it.

/// The source with every comment and literal blanked. Line numbers do not change.
pub(crate) fn code_of(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        let hidden = hidden(rest, code.chars().next_back());
        let length = hidden.unwrap_or(next.len_utf8());
        let (taken, left) = rest.split_at(length);
        if hidden.is_some() {
            code.extend(taken.chars().map(|c| if c == '\n' { c } else { ' ' }));
        } else {
            code.push(next);
        }
        rest = left;
    }
    code
}

/// Whether the code contains `word` as a whole word.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word_char) && !after.is_some_and(is_word_char)
    })
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the comment or literal at the start of `rest`, if there is one.
fn hidden(rest: &str, before: Option<char>) -> Option<usize> {
    match rest.as_bytes() {
        [b'/', b'/', ..] => Some(rest.find('\n').unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(block_comment(rest)),
        [b'"', ..] => Some(string(rest)),
        [b'\'', ..] => character(rest),
        [b'r', ..] if !before.is_some_and(|c| is_word_char(c) && c != 'b' && c != 'c') => raw_string(rest),
        _ => None,
    }
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    for (at, two) in rest.as_bytes().windows(2).enumerate() {
        match two {
            b"/*" => depth += 1,
            b"*/" if depth == 1 => return at + 2,
            b"*/" => depth -= 1,
            _ => {}
        }
    }
    rest.len()
}

fn string(rest: &str) -> usize {
    let mut escaped = true; // The opening quote does not close the string.
    let end = rest.bytes().position(|c| {
        let ends = c == b'"' && !escaped;
        escaped = c == b'\\' && !escaped;
        ends
    });
    end.map_or(rest.len(), |end| end + 1)
}

/// `'a'` is a character, `'a` is a lifetime.
fn character(rest: &str) -> Option<usize> {
    let inner = &rest[1..];
    let first = inner.chars().next()?;
    let shortest = if first == '\\' { 2 } else { first.len_utf8() };
    let end = inner.get(shortest..)?.find('\'')?;
    (first == '\\' || end == 0).then_some(1 + shortest + end + 1)
}

/// `r"…"`, `r#"…"#` and so on; `r#name` is an identifier.
fn raw_string(rest: &str) -> Option<usize> {
    let marks = rest[1..].bytes().take_while(|&c| c == b'#').count();
    let inner = rest[1 + marks..].strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(marks));
    let end = inner.find(&closing).map_or(inner.len(), |end| end + closing.len());
    Some(rest.len() - inner.len() + end)
}

#[test]
fn comments_and_literals_are_not_code() {
    for (source, code) in [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d */ e", "a                   e"),
        ("f(\"a // \\\" b\") + c", "f(           ) + c"),
        ("r#\"a \" b\"# + c", "           + c"),
        ("br\"a\\\" + c", "b      + c"),
        ("'\"' + '\\'' + c", "    +      + c"),
        ("r#type + x", "r#type + x"),
        ("fn f<'a>(b: &'a str)", "fn f<'a>(b: &'a str)"),
        ("('a', 'é', '\\u{1F}')", "(   ,    ,         )"),
    ] {
        assert_eq!(code_of(source), code);
    }
}

#[test]
fn has_word_matches_whole_words_only() {
    assert!(has_word("{unsafe {", "unsafe"));
    assert!(!has_word("unsafe_code, not_unsafe", "unsafe"));
}
