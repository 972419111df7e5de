//! The request a call makes: `method`, `url`, `headers`, `body` and `timeout`, checked and defaulted.
//!
//! The same reader takes a workflow's `with` and the fields of an action that was proposed from it, so that
//! nothing is sent that would not have been proposed.

use std::collections::BTreeSet;

use domain::{Failure, IdempotencyKey, Millis, json};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use url::{Position, Url};

use crate::fields::{Fields, invalid};

use super::headers::{self, Headers};

/// What proxies and servers commonly take.
pub(super) const URL_BYTES_MAX: usize = 4 * 1024;

/// Larger things belong into a file store, by pointer.
pub(super) const BODY_BYTES_MAX: usize = 1024 * 1024;

/// An API that takes longer has usually stopped answering.
pub(super) const TIMEOUT_DEFAULT: Millis = Millis::secs(20);

/// A step waits longer by waiting for an event, not by holding a connection.
pub(super) const TIMEOUT_MAX: Millis = Millis::mins(5);

/// The part of a URL that an error text shows.
const PLACE_CHARS_MAX: usize = 200;

/// The fields that make the request; an action has exactly these.
pub(super) const FIELDS: &[&str] = &["method", "url", "headers", "body", "timeout"];

const METHODS: [Method; 6] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// A request, checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: Headers,
    /// `None` sends no body at all.
    pub(super) body: Option<Value>,
    pub(super) timeout: Millis,
}

impl Request {
    /// Takes the request's fields out of `fields`; `secret` names further headers to refuse.
    pub(super) fn take(fields: &mut Fields, secret: &BTreeSet<String>) -> Result<Self, Failure> {
        let request = Self {
            method: method(fields.text("method")?)?,
            url: url(fields.text("url")?)?,
            headers: headers::check(fields.texts("headers")?, secret)?,
            body: fields.take("body").filter(|body| !body.is_null()),
            timeout: timeout(fields.length("timeout")?)?,
        };
        request.check_body()?;
        Ok(request)
    }

    /// The same request as the fields of an action.
    pub(super) fn to_fields(&self) -> Value {
        json!({
            "method": self.method.as_str(),
            "url": self.url.as_str(),
            "headers": self.headers,
            "body": self.body,
            "timeout": self.timeout.to_string(),
        })
    }

    /// The request as `client` sends it; `key` names the effect to the other side.
    pub(super) fn build(&self, client: &Client, key: Option<&IdempotencyKey>) -> RequestBuilder {
        let mut builder = client.request(self.method.clone(), self.url.clone());
        for (name, value) in &self.headers {
            builder = builder.header(name, value);
        }
        if let Some(key) = key {
            builder = builder.header("idempotency-key", key.as_str());
        }
        let Some(body) = self.body_bytes() else { return builder };
        if !self.headers.contains_key(CONTENT_TYPE.as_str()) {
            builder = builder.header(CONTENT_TYPE, "application/json");
        }
        builder.body(body)
    }

    /// Whether the method itself asks for no change.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }

    /// The body's bytes. JSON is written the one canonical way, because an endpoint that honours keys
    /// compares what comes with the same key.
    pub(super) fn body_bytes(&self) -> Option<Vec<u8>> {
        match self.body.as_ref()? {
            Value::String(text) if !self.is_json() => Some(text.clone().into_bytes()),
            body => Some(json::canonical(body)),
        }
    }

    /// Whether the body is sent as JSON: unless the headers say that it is something else.
    pub(super) fn is_json(&self) -> bool {
        self.headers.get("content-type").is_none_or(|of| is_json(of))
    }

    /// Host and path, for targets: the query may hold what nobody should read.
    pub(super) fn target(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPath]
    }

    /// Host and path, short enough for an error text.
    pub(super) fn place(&self) -> String {
        self.target().chars().take(PLACE_CHARS_MAX).collect()
    }

    fn check_body(&self) -> Result<(), Failure> {
        match &self.body {
            Some(_) if self.is_read() => Err(invalid(format!("a {} request has no body", self.method))),
            Some(body) if !body.is_string() && !self.is_json() => {
                Err(invalid("`content-type` says that the body is not JSON; then `body` must be a text"))
            }
            Some(_) | None => self.check_size(),
        }
    }

    fn check_size(&self) -> Result<(), Failure> {
        match self.body_bytes().map_or(0, |bytes| bytes.len()) {
            bytes if bytes > BODY_BYTES_MAX => {
                Err(invalid(format!("the body has {bytes} bytes; at most {BODY_BYTES_MAX} are allowed")))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a content type means JSON: `application/json`, or one of its `+json` relatives.
pub(super) fn is_json(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media == "application/json" || media.ends_with("+json")
}

fn method(given: Option<String>) -> Result<Method, Failure> {
    let Some(given) = given else { return Ok(Method::GET) };
    METHODS.into_iter().find(|method| method.as_str() == given).ok_or_else(|| {
        invalid(format!("`method` is none of {}", METHODS.each_ref().map(Method::as_str).join(", ")))
    })
}

fn url(given: Option<String>) -> Result<Url, Failure> {
    let given = given.ok_or_else(|| invalid("`url` is missing"))?;
    if given.len() > URL_BYTES_MAX {
        return Err(invalid(format!("`url` has {} bytes; at most {URL_BYTES_MAX} are allowed", given.len())));
    }
    // Readers of URLs drop these silently, and so disagree about what the URL says.
    if given.contains(char::is_control) || given.trim() != given {
        return Err(invalid("`url` holds a control character, or blanks around it"));
    }
    let mut url = Url::parse(&given).map_err(|error| invalid(format!("`url` is not a URL: {error}")))?;
    url.set_fragment(None);
    Ok(url)
}

fn timeout(given: Option<Millis>) -> Result<Millis, Failure> {
    match given.unwrap_or(TIMEOUT_DEFAULT) {
        long if long > TIMEOUT_MAX => {
            Err(invalid(format!("`timeout` is {long}; at most {TIMEOUT_MAX} is allowed")))
        }
        timeout => Ok(timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(with: Value) -> Result<Request, String> {
        let mut fields = Fields::of(with, FIELDS).map_err(|failure| failure.message)?;
        Request::take(&mut fields, &BTreeSet::new()).map_err(|failure| failure.message)
    }

    #[test]
    fn a_bare_url_is_a_get_with_every_default() {
        let request = read(json!({"url": "https://Example.com/a?b=c#d"})).unwrap();
        assert_eq!(
            request.to_fields(),
            json!({"method": "GET", "url": "https://example.com/a?b=c", "headers": {}, "body": null, "timeout": "20s"})
        );
        assert_eq!(request.target(), "example.com/a");
    }

    #[test]
    fn what_was_proposed_reads_back_as_itself() {
        let with = json!({
            "method": "PUT", "url": "http://example.com:81/", "headers": {"X-A": "1"}, "body": {"b": [1, null]},
            "timeout": "90s",
        });
        let request = read(with).unwrap();
        assert_eq!(read(request.to_fields()), Ok(request));
    }

    #[test]
    fn a_body_is_json_unless_the_headers_say_otherwise() {
        let sent = |headers: Value, body: Value| {
            let with = json!({"method": "POST", "url": "http://a/", "headers": headers, "body": body});
            read(with).map(|request| String::from_utf8(request.body_bytes().unwrap_or_default()).unwrap())
        };
        assert_eq!(sent(json!({}), json!({"b": 1, "a": "ü"})).unwrap(), r#"{"a":"ü","b":1}"#);
        assert_eq!(sent(json!({}), json!("plain")).unwrap(), r#""plain""#);
        assert_eq!(sent(json!({"Content-Type": "text/plain"}), json!("plain")).unwrap(), "plain");
        assert_eq!(
            sent(json!({"content-type": "application/merge-patch+json"}), json!("x")).unwrap(),
            r#""x""#
        );
        assert!(sent(json!({"content-type": "text/plain"}), json!({"a": 1})).is_err());
        assert_eq!(sent(json!({}), Value::Null).unwrap(), "");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for with in [
            json!({}),
            json!({"url": "nonsense"}),
            json!({"url": " http://a/"}),
            json!({"url": "http://a/\tb"}),
            json!({"url": "http://a/", "method": "TRACE"}),
            json!({"url": "http://a/", "method": "get"}),
            json!({"url": "http://a/", "body": {}}),
            json!({"url": "http://a/", "timeout": "301s"}),
            json!({"url": format!("http://a/{}", "x".repeat(URL_BYTES_MAX))}),
            json!({"url": "http://a/", "method": "POST", "body": "x".repeat(BODY_BYTES_MAX)}),
        ] {
            assert!(read(with.clone()).is_err(), "{with}");
        }
    }

    #[test]
    fn an_error_about_a_url_does_not_repeat_it() {
        let error = read(json!({"url": "http://a:b?token=hunter2"})).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
