//! What came back.

use axum::body::{Body, to_bytes};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::Value;

/// A reply is read whole; none is as large as this.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub bytes: Vec<u8>,
}

impl Reply {
    pub(crate) async fn of(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        // A stream does not end; that it has begun is all there is to see here.
        let is_stream = parts.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
        let body = if is_stream { Body::empty() } else { body };
        let bytes = to_bytes(body, BYTES_MAX).await.unwrap().to_vec();
        Self { status: parts.status.as_u16(), headers: parts.headers, bytes }
    }

    /// The body as JSON; null, if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The code of a problem; empty, if it is none.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// A header.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The status and the code, which is what most tests are about.
    pub fn told(&self) -> (u16, String) {
        (self.status, self.code())
    }
}
