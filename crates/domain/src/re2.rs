//! Regular expressions in RE2's syntax, for Rust's `regex`.
//!
//! Rego and CEL define their patterns by RE2 as Go implements it. Rust's `regex` reads most of this syntax, but some of it
//! with another meaning: `\w` has all letters of Unicode, `[a&&b]` is an intersection, `\<` is the start of a word. So a
//! pattern is translated, and syntax that RE2 does not have is refused.

use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

/// RE2 refuses larger counts.
const REPEAT_MAX: u32 = 1_000;

/// Why a pattern is not valid in RE2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Re2Error {
    /// `\Z`, `\8`, `\u{41}`.
    #[error("an escape sequence that RE2 does not have")]
    Escape,
    /// `[z-a]`, `[[:foo:]]`.
    #[error("a set without `]`, or with an invalid range or class")]
    Set,
    /// `(?=a)`, `(?x)`.
    #[error("a group that RE2 does not have")]
    Group,
    /// `a**`, `a{1001}`.
    #[error("a repetition without a valid count or subject")]
    Repetition,
}

/// The pattern for Rust's `regex` that matches what RE2 matches with `pattern`.
pub fn translate(pattern: &str) -> Result<String, Re2Error> {
    let mut translation =
        Translation { rest: pattern.chars().peekable(), out: String::new(), groups: vec![1], repeats: 1 };
    translation.run()?;
    Ok(translation.out)
}

struct Translation<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
    /// The largest product of nested counts in each open group, outermost first.
    groups: Vec<u32>,
    /// The product of the nested counts of the last expression.
    repeats: u32,
}

/// What a repetition would follow.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    Expression,
    Repetition,
}

impl Translation<'_> {
    fn run(&mut self) -> Result<(), Re2Error> {
        let mut before = Before::Nothing;
        while let Some(c) = self.rest.next() {
            before = match c {
                '\\' => self.escape(before)?,
                '[' => self.set()?,
                '(' => self.group()?,
                ')' => self.close(),
                '|' => self.copy(c, Before::Nothing),
                '.' | '^' | '$' => self.copy(c, Before::Expression),
                '*' | '+' | '?' => self.repetition(&c.to_string(), 1, before)?,
                '{' => match self.counts()? {
                    Some((counts, most)) => self.repetition(&counts, most, before)?,
                    None => self.literal(c),
                },
                c => self.literal(c),
            };
        }
        Ok(())
    }

    fn copy(&mut self, c: char, after: Before) -> Before {
        self.out.push(c);
        self.repeats = 1;
        after
    }

    fn close(&mut self) -> Before {
        let inside = if self.groups.len() > 1 { self.groups.pop().unwrap_or(1) } else { 1 };
        let after = self.copy(')', Before::Expression);
        self.repeat(inside);
        after
    }

    fn repeat(&mut self, count: u32) {
        self.repeats = self.repeats.saturating_mul(count);
        if let Some(group) = self.groups.last_mut() {
            *group = self.repeats.max(*group);
        }
    }

    fn literal(&mut self, c: char) -> Before {
        // `\<` and `\>` are word boundaries in `regex`.
        if c.is_ascii_punctuation() && !matches!(c, '<' | '>') {
            self.out.push('\\');
        }
        self.copy(c, Before::Expression)
    }

    fn repetition(&mut self, operator: &str, count: u32, before: Before) -> Result<Before, Re2Error> {
        self.repeat(count);
        if before != Before::Expression || self.repeats > REPEAT_MAX {
            return Err(Re2Error::Repetition);
        }
        self.out.push_str(operator);
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        Ok(Before::Repetition)
    }

    /// The counts after `{` with the brackets, and the larger one. Absent if RE2 reads the bracket as a character.
    fn counts(&mut self) -> Result<Option<(String, u32)>, Re2Error> {
        let mut ahead = self.rest.clone();
        let Some(least) = number(&mut ahead) else { return Ok(None) };
        let has_comma = ahead.next_if_eq(&',').is_some();
        let most = if has_comma && ahead.peek() != Some(&'}') {
            let Some(most) = number(&mut ahead) else { return Ok(None) };
            Some(most)
        } else {
            None
        };
        if ahead.next() != Some('}') {
            return Ok(None);
        }
        self.rest = ahead;
        let is_valid = least <= REPEAT_MAX && most.is_none_or(|most| (least..=REPEAT_MAX).contains(&most));
        let counts = match most {
            Some(most) => format!("{{{least},{most}}}"),
            None if has_comma => format!("{{{least},}}"),
            None => format!("{{{least}}}"),
        };
        let largest = most.unwrap_or(least).max(1);
        if is_valid { Ok(Some((counts, largest))) } else { Err(Re2Error::Repetition) }
    }

    fn group(&mut self) -> Result<Before, Re2Error> {
        self.out.push('(');
        self.groups.push(1);
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(Before::Nothing);
        }
        let mut head = String::from("?");
        for c in self.rest.by_ref() {
            head.push(c);
            if matches!(c, ')' | ':' | '>') {
                break;
            }
        }
        self.out.push_str(&head);
        // The flags `x`, `u` and `R` of `regex`, and look-around, do not exist in RE2.
        let flags = head.strip_prefix('?').and_then(|head| head.strip_suffix([')', ':']));
        let is_flags = flags.is_some_and(|flags| flags.chars().all(|c| "imsU-".contains(c)));
        let is_name = head.strip_suffix('>').is_some_and(|head| is_name(group_name(head)));
        // Flags without `:` change the rest of the group around them.
        if is_flags && head.ends_with(')') {
            self.groups.pop();
        }
        if is_flags || is_name { Ok(Before::Nothing) } else { Err(Re2Error::Group) }
    }

    fn escape(&mut self, before: Before) -> Result<Before, Re2Error> {
        match self.rest.peek().copied() {
            Some('Q') => return Ok(self.quoted(before)),
            Some(c @ ('A' | 'z')) => write!(self.out, "\\{c}").unwrap_or_default(),
            // A word has ASCII letters only.
            Some(c @ ('b' | 'B')) => write!(self.out, "(?-u:\\{c})").unwrap_or_default(),
            Some('p' | 'P') => {
                self.repeats = 1;
                return self.property().map(|()| Before::Expression);
            }
            Some(c) => {
                let Some((not, class)) = class(c) else {
                    let c = self.character()?;
                    return Ok(self.literal(c));
                };
                write!(self.out, "[{not}{class}]").unwrap_or_default();
            }
            None => return Err(Re2Error::Escape),
        }
        self.rest.next();
        self.repeats = 1;
        Ok(Before::Expression)
    }

    /// `\Qtext\E`: the text without its meaning.
    fn quoted(&mut self, mut before: Before) -> Before {
        self.rest.next();
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                break;
            }
            before = self.literal(c);
        }
        before
    }

    /// `\pL`, `\p{Greek}` or `\p{^Greek}`, after the backslash.
    fn property(&mut self) -> Result<(), Re2Error> {
        let is_negated = self.rest.next() == Some('P');
        let name: String = match self.rest.next() {
            Some('{') => self.until_brace()?,
            Some(c) => c.to_string(),
            None => return Err(Re2Error::Escape),
        };
        let (is_inverted, name) = match name.strip_prefix('^') {
            Some(name) => (true, name),
            None => (false, name.as_str()),
        };
        if !name.starts_with(|c: char| c.is_ascii_uppercase()) || !is_name(name) {
            return Err(Re2Error::Escape);
        }
        let kind = match name.len() {
            1 | 2 => "gc=",
            _ if name == "Any" => "",
            _ => "sc=",
        };
        let letter = if is_negated == is_inverted { 'p' } else { 'P' };
        write!(self.out, "\\{letter}{{{kind}{name}}}").map_err(|_| Re2Error::Escape)
    }

    /// The character of an escape sequence, after the backslash.
    fn character(&mut self) -> Result<char, Re2Error> {
        let c = self.rest.next().ok_or(Re2Error::Escape)?;
        match c {
            'a' => Ok('\u{7}'),
            'f' => Ok('\u{c}'),
            't' => Ok('\t'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            'v' => Ok('\u{b}'),
            'x' => self.hexadecimal(),
            // A single digit other than 0 is a back reference.
            '1'..='7' if !self.rest.peek().is_some_and(|c| matches!(c, '0'..='7')) => Err(Re2Error::Escape),
            '0'..='7' => self.octal(c),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok(c),
            _ => Err(Re2Error::Escape),
        }
    }

    fn hexadecimal(&mut self) -> Result<char, Re2Error> {
        let is_braced = self.rest.next_if_eq(&'{').is_some();
        let digits = if is_braced { self.until_brace()? } else { self.rest.by_ref().take(2).collect() };
        let is_complete = is_braced || digits.len() == 2;
        if !is_complete || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(Re2Error::Escape);
        }
        u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32).ok_or(Re2Error::Escape)
    }

    fn until_brace(&mut self) -> Result<String, Re2Error> {
        let mut text = String::new();
        loop {
            match self.rest.next() {
                Some('}') => return Ok(text),
                Some(c) => text.push(c),
                None => return Err(Re2Error::Escape),
            }
        }
    }

    fn octal(&mut self, first: char) -> Result<char, Re2Error> {
        let mut code = first.to_digit(8).unwrap_or(0);
        for _ in 0..2 {
            match self.rest.next_if(|c| c.is_digit(8)).and_then(|c| c.to_digit(8)) {
                Some(digit) => code = code * 8 + digit,
                None => break,
            }
        }
        char::from_u32(code).ok_or(Re2Error::Escape)
    }

    /// `[a-z]`, after the first bracket.
    fn set(&mut self) -> Result<Before, Re2Error> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            match self.rest.peek() {
                None => return Err(Re2Error::Set),
                Some(']') if !is_first => break,
                Some(_) => self.member()?,
            }
            is_first = false;
        }
        self.rest.next();
        Ok(self.copy(']', Before::Expression))
    }

    /// A character, a range or a class in a set.
    fn member(&mut self) -> Result<(), Re2Error> {
        if self.posix_class()? || self.escaped_class()? {
            return Ok(());
        }
        let first = self.set_character()?;
        let mut ahead = self.rest.clone();
        let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']');
        let last = if is_range {
            self.rest.next();
            self.set_character()?
        } else {
            first
        };
        if last < first {
            return Err(Re2Error::Set);
        }
        write!(self.out, "\\x{{{:x}}}-\\x{{{:x}}}", u32::from(first), u32::from(last))
            .map_err(|_| Re2Error::Set)
    }

    fn set_character(&mut self) -> Result<char, Re2Error> {
        match self.rest.next() {
            Some('\\') => self.character(),
            Some(c) => Ok(c),
            None => Err(Re2Error::Set),
        }
    }

    /// Copies `[:alpha:]` or `[:^alpha:]`.
    fn posix_class(&mut self) -> Result<bool, Re2Error> {
        let text: String = self.rest.clone().collect();
        let Some((name, _)) = text.strip_prefix("[:").and_then(|text| text.split_once(":]")) else {
            return Ok(false);
        };
        if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(Re2Error::Set);
        }
        write!(self.out, "[:{name}:]").map_err(|_| Re2Error::Set)?;
        self.rest.by_ref().take(name.chars().count() + 4).for_each(drop);
        Ok(true)
    }

    /// `\d` or `\pL` in a set.
    fn escaped_class(&mut self) -> Result<bool, Re2Error> {
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('\\') {
            return Ok(false);
        }
        match ahead.next() {
            Some('p' | 'P') => {
                self.rest.next();
                self.property()?;
            }
            Some(c) => match class(c) {
                Some((not, class)) => {
                    write!(self.out, "[{not}{class}]").map_err(|_| Re2Error::Set)?;
                    self.rest = ahead;
                }
                None => return Ok(false),
            },
            None => return Err(Re2Error::Set),
        }
        Ok(true)
    }
}

/// The classes that both have, for ASCII only.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// The characters of `\d`, `\s` and `\w`, and the sign of their negations.
fn class(c: char) -> Option<(&'static str, &'static str)> {
    let class = match c.to_ascii_lowercase() {
        'd' => "0-9",
        's' => r"\t\n\f\r ",
        'w' => "0-9A-Za-z_",
        _ => return None,
    };
    Some((if c.is_ascii_uppercase() { "^" } else { "" }, class))
}

/// The name in `?P<name` or `?<name`.
fn group_name(head: &str) -> &str {
    head.strip_prefix("?P<").or_else(|| head.strip_prefix("?<")).unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A number without leading zeros.
fn number(chars: &mut Peekable<Chars<'_>>) -> Option<u32> {
    let mut digits = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some(digits.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_ascii_only() {
        for (pattern, translated) in [
            (r"^\w+$", "^[0-9A-Za-z_]+$"),
            (r"\D", "[^0-9]"),
            (r"[\s.]", r"[[\t\n\f\r ]\x{2e}-\x{2e}]"),
            (r"a\b", r"a(?-u:\b)"),
            (r"[a-z[:^digit:]]", r"[\x{61}-\x{7a}[:^digit:]]"),
            (r"\pL\p{^Greek}", r"\p{gc=L}\P{sc=Greek}"),
        ] {
            assert_eq!(translate(pattern).as_deref(), Ok(translated), "{pattern}");
        }
    }

    #[test]
    fn other_syntax_of_rust_is_text_or_refused() {
        for (pattern, translated) in [
            ("[a&&b]", r"[\x{61}-\x{61}\x{26}-\x{26}\x{26}-\x{26}\x{62}-\x{62}]"),
            ("[[a]b]", r"[\x{5b}-\x{5b}\x{61}-\x{61}]b\]"),
            (r"\<a", "<a"),
            ("a{,2}", r"a\{\,2\}"),
            (r"\Qa.b\E", r"a\.b"),
            (r"\101", "A"),
            ("(?P<n>a)(?i)b", "(?P<n>a)(?i)b"),
            ("a{2,3}?", "a{2,3}?"),
        ] {
            assert_eq!(translate(pattern).as_deref(), Ok(translated), "{pattern}");
        }
        for pattern in [
            "(?x)a",
            "(?=a)",
            "(?<=a)",
            r"\u{41}",
            r"\C",
            r"\Z",
            r"\8",
            "a**",
            "*a",
            "a|+",
            "a{1001}",
            "a{2,1}",
            "[z-a]",
            "((a{30}){30}){2}",
            "(?P<>a)",
            "[a",
            r"[\b]",
            "[[:foo:]]",
            r"\p{Alphabetic=x}",
            r"\p{greek}",
            "\\",
            r"\pé",
            r"\x{110000}",
            r"\x4",
            r"\x{41",
            r"\p{L",
        ] {
            assert!(translate(pattern).is_err(), "{pattern}: {:?}", translate(pattern));
        }
    }
}
