//! A request from an API Gateway HTTP API (payload format 2.0), reduced to the fields that the handlers read.
//!
//! The crate that AWS publishes for these events panics on a body that is flagged as base64 and is not. Here such a
//! request is not authenticated.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpEvent {
    raw_path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

impl HttpEvent {
    /// The request that was sent; `None` if the path is not valid or the base64 flag is wrong. A wrong flag can also
    /// yield bytes whose signature does not verify.
    pub(super) fn to_request(&self) -> Option<Request<Bytes>> {
        let text = self.body.as_deref().unwrap_or_default();
        let body = if self.is_base64_encoded { BASE64_STANDARD.decode(text).ok()? } else { text.into() };
        let mut request = Request::post(&self.raw_path).body(Bytes::from(body)).ok()?;
        let headers = self.headers.iter().filter_map(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        });
        for (name, value) in headers {
            request.headers_mut().append(name, value);
        }
        Some(request)
    }

    pub(super) fn path(&self) -> &str {
        &self.raw_path
    }

    /// A lower bound of the body's size: four characters of base64 are three bytes, minus two of padding.
    pub(super) fn bytes_min(&self) -> usize {
        let chars = self.body.as_deref().map_or(0, str::len);
        if self.is_base64_encoded { (chars / 4 * 3).saturating_sub(2) } else { chars }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpReply {
    status_code: u16,
    headers: BTreeMap<String, String>,
    body: String,
    is_base64_encoded: bool,
}

impl From<Response<String>> for HttpReply {
    fn from(response: Response<String>) -> Self {
        let (parts, body) = response.into_parts();
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.to_string(), value.to_str().ok()?.to_owned()))
        };
        let headers = parts.headers.iter().filter_map(text).collect();
        Self { status_code: parts.status.as_u16(), headers, body, is_base64_encoded: false }
    }
}
