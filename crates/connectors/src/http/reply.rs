//! A reply, as later steps read it.
//!
//! A reply is untrusted: its size is bounded, JSON must satisfy the ledger's rules, and characters that the ledger
//! rejects are replaced.

use domain::{Digest, json};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};

use crate::tool::ToolResult;

use super::request::is_json;

/// The headers that later steps can read. Others may contain cookies or credentials.
const SELECTED_HEADERS: &[&str] = &["content-type", "etag", "location", "retry-after", "x-request-id"];

/// Longer than any legitimate value of these headers. A longer value is omitted: a part of it could end within a secret.
const HEADER_CHARS_MAX: usize = 2_048;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    Whole(Vec<u8>),
    /// Larger than the limit; not read to the end.
    TooLong,
    /// Cut off, or not complete in time.
    Incomplete,
    /// The start of a reply whose status is not a success, for the error message.
    Excerpt(String),
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let value = self.headers.get(name)?;
        let text = clean(&String::from_utf8_lossy(value.as_bytes()));
        (text.chars().count() <= HEADER_CHARS_MAX).then_some(text)
    }

    /// The result of the call, with as much of the reply as was read.
    pub(crate) fn done(&self) -> ToolResult {
        ToolResult { output: self.output(), response: self.metadata(), ..ToolResult::default() }
    }

    /// What an error reply says, to be appended to an error message.
    pub(crate) fn excerpt(&self) -> String {
        match &self.body {
            Body::Excerpt(text) if !text.is_empty() => format!(": {text}"),
            Body::Excerpt(_) | Body::Whole(_) | Body::TooLong | Body::Incomplete => String::new(),
        }
    }

    fn output(&self) -> Value {
        json!({
            "status": self.status.as_u16(),
            "headers": self.selected_headers(),
            "body": self.body_value(),
            "truncated": matches!(self.body, Body::TooLong | Body::Incomplete),
        })
    }

    fn selected_headers(&self) -> Map<String, Value> {
        let entry = |name: &&str| Some(((*name).to_owned(), Value::String(self.header(name)?)));
        SELECTED_HEADERS.iter().filter_map(entry).collect()
    }

    fn body_value(&self) -> Value {
        match &self.body {
            Body::Whole(bytes) if !bytes.is_empty() => {
                parse_body(bytes, self.header("content-type").as_deref())
            }
            Body::Whole(_) | Body::TooLong | Body::Incomplete | Body::Excerpt(_) => Value::Null,
        }
    }

    fn metadata(&self) -> Value {
        let mut metadata = json!({ "status": self.status.as_u16() });
        if let Some(id) = self.header("x-request-id") {
            metadata["request_id"] = id.into();
        }
        if let Body::Whole(bytes) = &self.body {
            metadata["bytes"] = bytes.len().into();
        }
        metadata
    }
}

/// JSON if the content type says so and it is valid; else a string if it is UTF-8; else size and digest.
fn parse_body(bytes: &[u8], content_type: Option<&str>) -> Value {
    if let (true, Ok(value)) = (content_type.is_some_and(is_json), json::parse(bytes)) {
        return value;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::String(clean(text)),
        Err(_) => json!({ "bytes": bytes.len(), "sha256": Digest::of_bytes(bytes) }),
    }
}

/// Replaces control characters, which a reader of the text does not see.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if is_allowed(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r') || !(c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(content_type: &str, body: &[u8]) -> Reply {
        let headers = [("content-type", content_type), ("set-cookie", "a=b"), ("x-request-id", "r\u{fc}1")];
        let headers = headers.map(|(name, value)| {
            (name.parse().unwrap(), reqwest::header::HeaderValue::from_bytes(value.as_bytes()).unwrap())
        });
        Reply {
            status: StatusCode::CREATED,
            headers: headers.into_iter().collect(),
            body: Body::Whole(body.to_vec()),
        }
    }

    #[test]
    fn output_has_status_body_and_selected_headers() {
        let done = reply("application/json; charset=utf-8", br#"{"id": 7}"#).done();
        let headers = json!({"content-type": "application/json; charset=utf-8", "x-request-id": "rü1"});
        assert_eq!(
            done.output,
            json!({"status": 201, "headers": headers, "body": {"id": 7}, "truncated": false})
        );
        assert_eq!(done.response, json!({"status": 201, "request_id": "rü1", "bytes": 9}));
    }

    #[test]
    fn ambiguous_json_stays_a_string() {
        let body = r#"{"a":1,"a":2}"#;
        assert_eq!(reply("application/json", body.as_bytes()).done().output["body"], body);
        assert_eq!(reply("text/plain", b"{}").done().output["body"], "{}");
    }

    #[test]
    fn binary_body_becomes_a_digest() {
        let body = &reply("image/png", &[0x89, 0xff]).done().output["body"];
        assert_eq!(body["bytes"], 2);
        assert_eq!(body["sha256"].as_str().map(str::len), Some(64));
    }

    #[test]
    fn empty_body_is_null() {
        assert_eq!(reply("application/json", b"").done().output["body"], Value::Null);
    }

    #[test]
    fn text_reply_has_no_control_characters() {
        let all: String = ('\0'..='\u{ffff}').collect();
        let output = reply("text/plain", all.as_bytes()).done().output;
        assert!(output["body"].as_str().unwrap().chars().all(is_allowed));
    }
}
