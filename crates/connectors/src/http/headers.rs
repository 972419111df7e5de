//! The headers that a workflow may set.
//!
//! Credentials are rejected so that they never reach the ledger. Framing and routing headers are rejected because
//! the runtime sets them. Line breaks are rejected so that a parameter cannot inject a header.

use std::collections::BTreeMap;

use domain::Failure;
use reqwest::header::HeaderName;

use crate::fields::invalid;

/// More than any API needs, fewer than any server rejects.
pub(super) const HEADERS_MAX: usize = 64;

/// Common servers reject headers of more than 8,000 to 32,000 bytes.
pub(super) const HEADERS_BYTES_MAX: usize = 16 * 1024;

/// Checked headers by lower-case name.
pub(super) type Headers = BTreeMap<String, String>;

/// Headers whose values are credentials.
const SECRET_HEADERS: &[&str] = &[
    "api-key",
    "apikey",
    "authorization",
    "cookie",
    "ocp-apim-subscription-key",
    "private-token",
    "proxy-authorization",
    "x-access-token",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-token",
    "x-functions-key",
    "x-goog-api-key",
    "x-vault-token",
];

/// Headers that the runtime sets: they frame the message, control the connection, name the trace, or override the method or
/// key.
const RUNTIME_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "idempotency-key",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

/// Headers by which proxies and frameworks replace the host or the path of a request. Policy and approvers decide about the
/// URL, so the request must go there.
const ROUTING_HEADERS: &[&str] = &["forwarded", "x-host", "x-rewrite-url"];
const ROUTING_PREFIXES: &[&str] = &["x-forwarded-", "x-original-"];

pub(super) fn check(given: Vec<(String, String)>) -> Result<Headers, Failure> {
    if given.len() > HEADERS_MAX {
        return Err(invalid(format!("{} headers; at most {HEADERS_MAX} are allowed", given.len())));
    }
    let bytes: usize = given.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > HEADERS_BYTES_MAX {
        return Err(invalid(format!(
            "the headers have {bytes} bytes; at most {HEADERS_BYTES_MAX} are allowed"
        )));
    }
    given.into_iter().try_fold(Headers::new(), add)
}

fn add(mut headers: Headers, (name, value): (String, String)) -> Result<Headers, Failure> {
    let name = check_name(&name)?;
    if !value.bytes().all(|byte| byte == b'\t' || byte == b' ' || byte.is_ascii_graphic()) {
        return Err(invalid(format!(
            "the value of header `{name}` contains a character other than visible ASCII"
        )));
    }
    if headers.keys().any(|other| other.replace('_', "-") == name.replace('_', "-")) {
        return Err(invalid(format!("the header `{name}` is set twice")));
    }
    headers.insert(name, value);
    Ok(headers)
}

/// Returns the name in lower case.
fn check_name(name: &str) -> Result<String, Failure> {
    let name = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| invalid(format!("{name:?} is not a valid header name")))?
        .as_str()
        .to_owned();
    // Many servers read `X_Api_Key` as `X-Api-Key`.
    let normalized = name.replace('_', "-");
    if SECRET_HEADERS.contains(&normalized.as_str()) {
        return Err(invalid(format!(
            "the header `{name}` carries a credential; workflows must not contain credentials, \
             so use a tool whose credential is in the worker's configuration"
        )));
    }
    if RUNTIME_HEADERS.contains(&normalized.as_str()) {
        return Err(invalid(format!("the header `{name}` is set by the runtime and cannot be set here")));
    }
    let routes = |prefix: &&str| normalized.starts_with(*prefix);
    if ROUTING_HEADERS.contains(&normalized.as_str()) || ROUTING_PREFIXES.iter().any(routes) {
        return Err(invalid(format!(
            "the header `{name}` can send the request to another host or path; put both into `url`"
        )));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check_headers(given: &[(&str, &str)]) -> Result<Headers, String> {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        check(given).map_err(|failure| failure.message)
    }

    #[test]
    fn header_names_become_lower_case() {
        let headers = check_headers(&[("Accept", "text/plain"), ("X-Trace", "a b")]).unwrap();
        assert_eq!(
            headers,
            Headers::from([("accept".into(), "text/plain".into()), ("x-trace".into(), "a b".into())])
        );
    }

    #[test]
    fn credential_is_rejected_and_not_repeated() {
        for name in ["Authorization", "PROXY-Authorization", "cookie", "X-Api-Key"] {
            let refused = check_headers(&[(name, "hunter2")]).unwrap_err();
            assert!(refused.contains("workflows must not contain credentials"), "{refused}");
            assert!(!refused.contains("hunter2"));
        }
    }

    #[test]
    fn runtime_headers_cannot_be_set() {
        for name in
            ["Host", "content-length", "Transfer-Encoding", "connection", "TE", "upgrade", "Idempotency-Key"]
        {
            assert!(check_headers(&[(name, "x")]).unwrap_err().contains("set by the runtime"), "{name}");
        }
    }

    #[test]
    fn routing_headers_cannot_be_set() {
        for name in [
            "X-Original-URL",
            "x_rewrite_url",
            "X-Forwarded-Host",
            "x-forwarded_prefix",
            "Forwarded",
            "x-host",
        ] {
            assert!(
                check_headers(&[(name, "/admin")]).unwrap_err().contains("another host or path"),
                "{name}"
            );
        }
    }

    #[test]
    fn line_breaks_are_rejected() {
        for value in ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "ä"] {
            assert!(check_headers(&[("x-a", value)]).is_err(), "{value:?}");
        }
        for name in ["x-a\r\nx-b", "x a", "", "x:a", "x-ä"] {
            assert!(check_headers(&[(name, "a")]).is_err(), "{name:?}");
        }
    }

    #[test]
    fn same_header_in_two_spellings_is_rejected() {
        assert_eq!(
            check_headers(&[("X-A", "1"), ("x-a", "2")]).unwrap_err(),
            "the header `x-a` is set twice"
        );
        assert_eq!(
            check_headers(&[("X-A", "1"), ("x_a", "2")]).unwrap_err(),
            "the header `x_a` is set twice"
        );
    }

    #[test]
    fn headers_are_bounded() {
        let many = vec![("x".to_owned(), String::new()); HEADERS_MAX + 1];
        assert!(check(many).unwrap_err().message.starts_with("65 headers"));
        let long = vec![("x".to_owned(), "v".repeat(HEADERS_BYTES_MAX))];
        assert!(check(long).unwrap_err().message.contains("at most 16384"));
    }

    /// A spelling of `name` that a server may read as `name`: any case, and `_` for some hyphens.
    fn spelled(name: &str, choices: &[(bool, bool)]) -> String {
        let spell = |(c, (upper, underscore)): (char, &(bool, bool))| match c {
            '-' if *underscore => '_',
            c if *upper => c.to_ascii_uppercase(),
            c => c,
        };
        name.chars().zip(choices.iter().cycle()).map(spell).collect()
    }

    proptest! {
        #[test]
        fn forbidden_header_is_rejected_in_any_spelling(
            name in prop::sample::select([SECRET_HEADERS, RUNTIME_HEADERS].concat()),
            choices in prop::collection::vec(any::<(bool, bool)>(), 32),
        ) {
            let name = spelled(name, &choices);
            prop_assert!(check_headers(&[(&name, "x")]).is_err(), "{name}");
        }
    }
}
