//! The responses of the handlers, and the lookup of a request header.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

/// The value of the header `name`. A header that is present twice has no value: two readers could choose different ones.
pub(crate) fn single_header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

pub(crate) fn text(status: StatusCode, body: &str) -> Response<String> {
    response(status, "text/plain; charset=utf-8", body.to_owned())
}

pub(crate) fn json(status: StatusCode, body: &Value) -> Response<String> {
    json_text(status, body.to_string())
}

pub(crate) fn json_text(status: StatusCode, body: String) -> Response<String> {
    response(status, "application/json", body)
}

/// An error as problem details (RFC 9457).
pub(crate) fn problem(status: StatusCode, code: &str, detail: &str) -> Response<String> {
    let body = json!({ "status": status.as_u16(), "code": code, "detail": detail });
    response(status, "application/problem+json", body.to_string())
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[test]
    fn duplicate_header_has_no_value() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("a", "1"), ("b", "2"), ("b", "3"), ("d", "\u{e9}")] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(
            ["A", "b", "c", "d"].map(|name| single_header(&headers, name)),
            [Some("1"), None, None, None]
        );
    }
}
