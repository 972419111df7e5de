//! What the other side said, as a later step can read it.
//!
//! A reply is a stranger's text: it is bounded, JSON is held to the ledger's rules, and characters that the
//! ledger refuses are replaced.

use domain::{Digest, json};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};

use crate::tool::Done;

use super::request::is_json;

/// The headers that later steps can read; the others may hold cookies and worse.
const SHOWN: &[&str] = &["content-type", "etag", "location", "retry-after", "x-request-id"];

/// Longer than any honest value of the headers above.
const HEADER_CHARS_MAX: usize = 2_048;

/// A reply to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

/// The body of a reply.
#[derive(Debug)]
pub(crate) enum Body {
    /// All of it.
    Whole(Vec<u8>),
    /// More than is read.
    TooLong,
    /// It broke off, or did not end in time.
    BrokenOff,
    /// Nobody needs it: the status says all.
    Unread,
}

impl Reply {
    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let value = self.headers.get(name)?;
        Some(clean(&String::from_utf8_lossy(value.as_bytes())).chars().take(HEADER_CHARS_MAX).collect())
    }

    /// The call as done, with what there is of the reply.
    pub(crate) fn done(&self) -> Done {
        Done { output: self.output(), response: self.metadata(), ..Done::default() }
    }

    fn output(&self) -> Value {
        json!({
            "status": self.status.as_u16(),
            "headers": self.shown(),
            "body": self.value(),
            "truncated": matches!(self.body, Body::TooLong | Body::BrokenOff),
        })
    }

    fn shown(&self) -> Map<String, Value> {
        let shown = |name: &&str| Some(((*name).to_owned(), Value::String(self.header(name)?)));
        SHOWN.iter().filter_map(shown).collect()
    }

    fn value(&self) -> Value {
        match &self.body {
            Body::Whole(bytes) if !bytes.is_empty() => value(bytes, self.header("content-type").as_deref()),
            Body::Whole(_) | Body::TooLong | Body::BrokenOff | Body::Unread => Value::Null,
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

/// JSON if it says so and is, else text if it is, else what identifies the bytes.
fn value(bytes: &[u8], content_type: Option<&str>) -> Value {
    if let (true, Ok(value)) = (content_type.is_some_and(is_json), json::parse(bytes)) {
        return value;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::String(clean(text)),
        Err(_) => json!({ "bytes": bytes.len(), "sha256": Digest::of_bytes(bytes) }),
    }
}

/// The text with every character replaced that the ledger refuses.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if is_kept(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

fn is_kept(c: char) -> bool {
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
    fn a_reply_shows_status_body_and_selected_headers() {
        let done = reply("application/json; charset=utf-8", br#"{"id": 7}"#).done();
        let headers = json!({"content-type": "application/json; charset=utf-8", "x-request-id": "rü1"});
        assert_eq!(
            done.output,
            json!({"status": 201, "headers": headers, "body": {"id": 7}, "truncated": false})
        );
        assert_eq!(done.response, json!({"status": 201, "request_id": "rü1", "bytes": 9}));
    }

    #[test]
    fn json_that_readers_disagree_about_is_only_text() {
        let body = r#"{"a":1,"a":2}"#;
        assert_eq!(reply("application/json", body.as_bytes()).done().output["body"], body);
        assert_eq!(reply("text/plain", b"{}").done().output["body"], "{}");
    }

    #[test]
    fn bytes_that_are_no_text_are_told_by_their_digest() {
        let body = &reply("image/png", &[0x89, 0xff]).done().output["body"];
        assert_eq!(body["bytes"], 2);
        assert_eq!(body["sha256"].as_str().map(str::len), Some(64));
    }

    #[test]
    fn no_body_is_null() {
        assert_eq!(reply("application/json", b"").done().output["body"], Value::Null);
    }

    #[test]
    fn every_text_of_a_reply_may_stand_in_the_ledger() {
        let all: String = ('\0'..='\u{ffff}').collect();
        assert!(json::check(&reply("text/plain", all.as_bytes()).done().output).is_ok());
    }
}
