//! The parts of HTTP that the handlers need, independent of the server: API Gateway or axum.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// The headers of a request, as received.
#[derive(Debug, Clone, Default)]
pub struct Headers<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Headers<'a> {
    /// The value of the header `name`, compared case-insensitively. A header that is present twice has no value: two
    /// readers could choose different ones.
    pub fn only(&self, name: &str) -> Option<&'a str> {
        let mut values = self.0.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Headers<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(headers: I) -> Self {
        Self(headers.into_iter().collect())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl Response {
    pub fn text(status: u16, body: &str) -> Self {
        Self { status, headers: vec![content_type("text/plain; charset=utf-8")], body: body.to_owned() }
    }

    pub fn json(status: u16, body: &Value) -> Self {
        Self::json_text(status, body.to_string())
    }

    pub fn json_text(status: u16, body: String) -> Self {
        Self { status, headers: vec![content_type("application/json")], body }
    }

    /// An error as problem details (RFC 9457).
    pub fn problem(status: u16, code: &str, detail: &str) -> Self {
        let body = json!({ "status": status, "code": code, "detail": detail });
        let headers = vec![content_type("application/problem+json")];
        Self { status, headers, body: body.to_string() }
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

fn content_type(kind: &str) -> (&'static str, String) {
    ("content-type", kind.to_owned())
}

/// The bytes of a body that a gateway passes as text, optionally in base64. A wrong flag yields `None`, or bytes whose
/// signature does not verify.
pub fn raw_body(text: &str, is_base64: bool) -> Option<Cow<'_, [u8]>> {
    if is_base64 {
        return BASE64_STANDARD.decode(text).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_header_has_no_value() {
        let headers: Headers<'_> = [("a", "1"), ("B", "2"), ("b", "3")].into_iter().collect();
        assert_eq!((headers.only("A"), headers.only("b"), headers.only("c")), (Some("1"), None, None));
    }

    #[test]
    fn raw_body_returns_the_bytes_that_were_sent() {
        assert_eq!(raw_body("{}", false).as_deref(), Some(&b"{}"[..]));
        assert_eq!(raw_body("e30=", true).as_deref(), Some(&b"{}"[..]));
        assert_eq!(raw_body("{}", true), None);
    }
}
