//! Responses.

use axum::body::{Body, to_bytes};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::Value;

/// Larger than any response.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
}

impl Reply {
    pub(crate) async fn of(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        // A stream has no end; only its head is checked.
        let is_stream = parts.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
        let body = if is_stream { Body::empty() } else { body };
        let bytes = to_bytes(body, BYTES_MAX).await.unwrap().to_vec();
        Self { status: parts.status.as_u16(), headers: parts.headers, bytes }
    }

    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The code of a problem; empty if the body is none.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn status_and_code(&self) -> (u16, String) {
        (self.status, self.code())
    }
}
