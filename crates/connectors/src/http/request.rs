//! The request of a call: `method`, `url`, `headers`, `body`, `timeout` and `idempotency_key`, checked and with defaults.
//!
//! The same parser reads a step's `with` and the fields of the proposed action, so only a request that could be
//! proposed is ever sent.

use domain::effect::ACTION_BYTES_MAX;
use domain::{Digest, Failure, IdempotencyKey, Millis, json};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use url::{Position, Url};

use crate::fields::{Fields, invalid};

use super::headers::{self, Headers};
use super::method_override;

/// Proxies and servers commonly accept this much.
pub(super) const URL_BYTES_MAX: usize = 4 * 1024;

/// The body is part of the action, which approvers review. Store larger bodies in a file store and send a reference.
pub(super) const BODY_BYTES_MAX: usize = ACTION_BYTES_MAX;

pub(super) const TIMEOUT_DEFAULT: Millis = Millis::secs(20);

/// To wait longer, use a step that waits for an event.
pub(super) const TIMEOUT_MAX: Millis = Millis::mins(5);

/// Error messages show at most this much of host and path.
const ENDPOINT_CHARS_MAX: usize = 200;

/// The fields of the request. An action has no others.
pub(super) const FIELDS: &[&str] = &["method", "url", "headers", "body", "timeout", "idempotency_key"];

const METHODS: [Method; 6] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: Headers,
    pub(super) body: Option<Value>,
    pub(super) timeout: Millis,
    /// The `Idempotency-Key` that the author chose.
    pub(super) idempotency_key: Option<String>,
}

impl Request {
    /// Takes the request's fields out of `fields`.
    pub(super) fn take(fields: &mut Fields) -> Result<Self, Failure> {
        let request = Self {
            method: parse_method(fields.string("method")?)?,
            url: parse_url(fields.string("url")?)?,
            headers: headers::check(fields.string_map("headers")?)?,
            body: fields.take("body").filter(|body| !body.is_null()),
            timeout: parse_timeout(fields.duration("timeout")?)?,
            idempotency_key: fields.string("idempotency_key")?.map(parse_key).transpose()?,
        };
        request.check_body()?;
        method_override::check(&request)?;
        Ok(request)
    }

    /// The fields of an action.
    pub(super) fn to_fields(&self) -> Value {
        let mut fields = json!({
            "method": self.method.as_str(),
            "url": self.url.as_str(),
            "headers": self.headers,
            "body": self.body,
            "timeout": self.timeout.to_string(),
        });
        if let Some(key) = &self.idempotency_key {
            fields["idempotency_key"] = json!(key);
        }
        fields
    }

    /// The receipt key of the effect that the author's key names. The runtime computes its own keys, so a key that an
    /// author chooses must equal none of them.
    pub(super) fn effect_key(&self) -> Option<IdempotencyKey> {
        let text = self.idempotency_key.as_ref()?;
        let host = &self.url[Position::BeforeHost..Position::BeforePath];
        let digest = Digest::of_parts("countersign/http-key/v1", &[host, text]);
        IdempotencyKey::new(&format!("http.key:{digest}")).ok()
    }

    /// The `Idempotency-Key` header is the author's key, or else `key`.
    pub(super) fn build(&self, client: &Client, key: Option<&IdempotencyKey>) -> RequestBuilder {
        let mut builder = client.request(self.method.clone(), self.url.clone());
        for (name, value) in &self.headers {
            builder = builder.header(name, value);
        }
        if let Some(key) = key {
            builder =
                builder.header("idempotency-key", self.idempotency_key.as_deref().unwrap_or(key.as_str()));
        }
        let Some(body) = self.body_bytes() else { return builder };
        if !self.headers.contains_key(CONTENT_TYPE.as_str()) {
            builder = builder.header(CONTENT_TYPE, "application/json");
        }
        builder.body(body)
    }

    pub(super) fn is_read(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }

    /// JSON is serialized canonically, because an endpoint may compare the bodies of requests with the same key.
    pub(super) fn body_bytes(&self) -> Option<Vec<u8>> {
        match self.body.as_ref()? {
            Value::String(text) if !self.is_json() => Some(text.clone().into_bytes()),
            body => Some(json::canonical(body)),
        }
    }

    /// The body is JSON unless `content-type` says otherwise.
    pub(super) fn is_json(&self) -> bool {
        self.headers.get("content-type").is_none_or(|content_type| is_json(content_type))
    }

    /// Host and path. The query is left out because it may contain a secret.
    pub(super) fn target(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPath]
    }

    /// The values of the query, as they may appear in a reply.
    pub(super) fn query_values(&self) -> Vec<String> {
        let decoded = self.url.query_pairs().map(|(_, value)| value.into_owned());
        let raw = self.url.query().unwrap_or_default().split('&');
        let raw = raw.filter_map(|pair| pair.split_once('=')).map(|(_, value)| value.to_owned());
        decoded.chain(raw).collect()
    }

    /// Host and path, shortened for error messages.
    pub(super) fn endpoint(&self) -> String {
        self.target().chars().take(ENDPOINT_CHARS_MAX).collect()
    }

    fn check_body(&self) -> Result<(), Failure> {
        match &self.body {
            Some(_) if self.is_read() => {
                Err(invalid(format!("a {} request cannot have a body; remove `body`", self.method)))
            }
            Some(body) if !body.is_string() && !self.is_json() => {
                Err(invalid("`body` must be a string, because `content-type` is not JSON"))
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

/// `application/json`, or a type that ends in `+json`.
pub(super) fn is_json(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media == "application/json" || media.ends_with("+json")
}

fn parse_key(text: String) -> Result<String, Failure> {
    match IdempotencyKey::new(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(invalid(format!("`idempotency_key`: {error}"))),
    }
}

fn parse_method(given: Option<String>) -> Result<Method, Failure> {
    let Some(given) = given else { return Ok(Method::GET) };
    METHODS.into_iter().find(|method| method.as_str() == given).ok_or_else(|| {
        invalid(format!("`method` must be one of {}", METHODS.each_ref().map(Method::as_str).join(", ")))
    })
}

fn parse_url(given: Option<String>) -> Result<Url, Failure> {
    let given = given.ok_or_else(|| invalid("`url` is missing"))?;
    if given.len() > URL_BYTES_MAX {
        return Err(invalid(format!("`url` has {} bytes; at most {URL_BYTES_MAX} are allowed", given.len())));
    }
    // URL parsers drop these silently and so disagree about the URL.
    if given.contains(char::is_control) || given.trim() != given {
        return Err(invalid("`url` contains a control character or has leading or trailing blanks"));
    }
    let mut url = Url::parse(&given).map_err(|error| invalid(format!("`url` is not a URL: {error}")))?;
    url.set_fragment(None);
    Ok(url)
}

fn parse_timeout(given: Option<Millis>) -> Result<Millis, Failure> {
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
    use domain::key::KEY_BYTES_MAX;

    fn parse(with: Value) -> Result<Request, String> {
        let mut fields = Fields::parse(with, FIELDS).map_err(|failure| failure.message)?;
        Request::take(&mut fields).map_err(|failure| failure.message)
    }

    #[test]
    fn url_alone_is_a_get_with_defaults() {
        let request = parse(json!({"url": "https://Example.com/a?b=c#d"})).unwrap();
        assert_eq!(
            request.to_fields(),
            json!({"method": "GET", "url": "https://example.com/a?b=c", "headers": {}, "body": null, "timeout": "20s"})
        );
        assert_eq!(request.target(), "example.com/a");
    }

    #[test]
    fn proposed_request_reads_back() {
        let with = json!({
            "method": "PUT", "url": "http://example.com:81/", "headers": {"X-A": "1"}, "body": {"b": [1, null]},
            "timeout": "90s",
        });
        let request = parse(with).unwrap();
        assert_eq!(parse(request.to_fields()), Ok(request));
    }

    #[test]
    fn body_is_json_unless_content_type_differs() {
        let sent = |headers: Value, body: Value| {
            let with = json!({"method": "POST", "url": "http://a/", "headers": headers, "body": body});
            parse(with).map(|request| String::from_utf8(request.body_bytes().unwrap_or_default()).unwrap())
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
    fn invalid_requests_are_rejected() {
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
            assert!(parse(with.clone()).is_err(), "{with}");
        }
    }

    #[test]
    fn invalid_key_is_rejected() {
        for key in ["", "a b", "order#1", "order\n1", "ordér", &"x".repeat(KEY_BYTES_MAX + 1)] {
            let refused =
                parse(json!({"method": "POST", "url": "http://a/", "idempotency_key": key})).unwrap_err();
            assert!(refused.starts_with("`idempotency_key`: "), "{key:?}: {refused}");
        }
    }

    #[test]
    fn url_error_does_not_repeat_the_url() {
        let error = parse(json!({"url": "http://a:b?token=hunter2"})).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
