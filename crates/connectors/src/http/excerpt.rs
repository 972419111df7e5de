//! An excerpt of an error reply, for the message of a failed step.
//!
//! The reply is untrusted, and it may repeat what was sent. So the excerpt is short, contains no invisible characters, and
//! values that are or look like secrets are replaced.

/// Enough for an error message. A longer body is usually a page for a browser.
pub(crate) const EXCERPT_BYTES_MAX: usize = 2 * 1024;

/// A shorter value occurs in ordinary text.
const SECRET_CHARS_MIN: usize = 4;

const REDACTED: &str = "[redacted]";

/// Parts of names whose values are secrets.
const SECRET_NAMES: &[&str] =
    &["apikey", "api_key", "authorization", "cookie", "credential", "passwd", "password", "secret", "token"];

/// An encoded secret is at most this many times as long as the secret: percent-encoding writes three bytes for one.
const ENCODING_FACTOR: usize = 3;

/// As much of a body as was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BodyStart {
    pub(crate) bytes: Vec<u8>,
    /// Whether this is the whole body. A body can end early, or in the middle of a secret after a pause.
    pub(crate) is_whole: bool,
}

/// The start of a body in one line, without `secrets`.
pub(crate) fn excerpt(body: &BodyStart, secrets: &[String]) -> String {
    let start = &body.bytes[..body.bytes.len().min(EXCERPT_BYTES_MAX)];
    let is_whole = body.is_whole && start.len() == body.bytes.len();
    let mut text = String::from_utf8_lossy(start).into_owned();
    let secrets = || secrets.iter().filter(|secret| secret.chars().count() >= SECRET_CHARS_MIN);
    for secret in secrets() {
        text = text.replace(secret.as_str(), REDACTED);
    }
    // The end may be the first part of a secret that was cut.
    let longest = secrets().map(String::len).max().filter(|_| !is_whole).unwrap_or(0);
    let mut end = text.len().saturating_sub(longest * ENCODING_FACTOR);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    escape_invisible(&redact_named_secrets(&text[..end]))
}

/// Replaces the values of names such as `password`.
fn redact_named_secrets(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some((start, end)) = named_secret(rest) {
        shown.push_str(&rest[..start]);
        shown.push_str(REDACTED);
        rest = &rest[end..];
    }
    shown + rest
}

/// The first value of a secret name in `text`, by its bytes.
fn named_secret(text: &str) -> Option<(usize, usize)> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut at = 0;
    while let Some(start) = text[at..].find(is_name).map(|start| at + start) {
        let end = text[start..].find(|c| !is_name(c)).map_or(text.len(), |end| start + end);
        let name = text[start..end].to_lowercase().replace('-', "_");
        let value =
            SECRET_NAMES.iter().any(|secret| name.contains(secret)).then(|| value_after(&text[end..]));
        if let Some((from, to)) = value.flatten() {
            return Some((end + from, end + to));
        }
        at = end;
    }
    None
}

/// The value after a name: `": "value"`, `=value`, `: Bearer value`. It is not empty.
fn value_after(rest: &str) -> Option<(usize, usize)> {
    let separator = rest.trim_start_matches(['"', '\'', '\\', ' ']);
    let value = separator.strip_prefix([':', '='])?.trim_start_matches([' ', '\\']);
    let (value, ends_at): (_, fn(char) -> bool) = match value.strip_prefix(['"', '\'']) {
        Some(quoted) => (quoted, |c| matches!(c, '"' | '\'')),
        None => (value, |c| matches!(c, ',' | ';' | '&' | '<' | '>' | '}' | '"' | '\n' | '\r')),
    };
    let from = rest.len() - value.len();
    let to = value.find(ends_at).map_or(rest.len(), |end| from + end);
    (to > from && !value.starts_with(REDACTED)).then_some((from, to))
}

/// One line. Control characters and characters without width or that change the direction are escaped.
fn escape_invisible(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown = String::new();
    for c in one_line.chars() {
        if c.is_control() || is_invisible(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(body: impl AsRef<[u8]>) -> BodyStart {
        BodyStart { bytes: body.as_ref().to_vec(), is_whole: true }
    }

    #[test]
    fn excerpt_keeps_the_error() {
        let body = br#"{"error": {"message": "sku 17 is unknown", "code": 4711}}"#;
        assert_eq!(
            excerpt(&whole(body), &[]),
            r#"{"error": {"message": "sku 17 is unknown", "code": 4711}}"#
        );
        assert_eq!(excerpt(&whole("<h1>Bad\r\n  token</h1>"), &[]), "<h1>Bad token</h1>");
    }

    #[test]
    fn secret_that_is_cut_off_is_not_shown() {
        let secret = "hunter2hunter2".to_owned();
        for before in EXCERPT_BYTES_MAX - 16..EXCERPT_BYTES_MAX {
            let body = whole(format!("{}{secret}", "x".repeat(before)));
            let shown = excerpt(&body, std::slice::from_ref(&secret));
            assert!(!shown.contains("hunt"), "{shown}");
        }
    }

    #[test]
    fn body_that_ends_early_shows_no_part_of_a_secret() {
        let secrets = ["hunter2 hunter2".to_owned()];
        for text in ["refused: hunter2 hunter", "refused: hunter2%20hunter"] {
            for end in 0..text.len() {
                let body = BodyStart { bytes: text.as_bytes()[..end].to_vec(), is_whole: false };
                let shown = excerpt(&body, &secrets);
                assert!(!shown.contains("hu"), "{end}: {shown}");
            }
        }
        let body = BodyStart {
            bytes: b"The record does not exist; see the documentation of the API".to_vec(),
            is_whole: false,
        };
        assert_eq!(excerpt(&body, &secrets), "The record doe");
    }

    #[test]
    fn values_of_secret_names_are_redacted() {
        for body in [
            r#"{"access_token": "hunter2", "a": 1}"#,
            r#"{"X-Api-Key":"hunter2"}"#,
            "password=hunter2&a=1",
            "Authorization: Bearer hunter2\nHost: a",
            r#"{\"client_secret\": \"hunter2\"}"#,
            r#"{"password": "very hunter2 long"}"#,
            r#"{"token": "a"} {"token": "hunter2"#,
            "Set-Cookie: session=hunter2; path=/",
        ] {
            let shown = excerpt(&whole(body), &[]);
            assert!(!shown.contains("hunter2"), "{shown}");
            assert!(shown.contains(REDACTED), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn excerpt_has_no_secret_and_no_control_character(
            before in any::<String>(), after in any::<String>(), secret in "[a-zA-Z0-9]{12}",
        ) {
            let shown = excerpt(&whole(format!("{before}{secret}{after}")), std::slice::from_ref(&secret));
            prop_assert!(!shown.contains(&secret));
            prop_assert!(!shown.chars().any(|c| c.is_control() || is_invisible(c)));
        }

        #[test]
        fn any_body_has_an_excerpt(body in prop::collection::vec(any::<u8>(), 0..4096)) {
            // A character is escaped with at most ten.
            prop_assert!(excerpt(&whole(&body), &[]).len() <= EXCERPT_BYTES_MAX * 10);
        }
    }
}
