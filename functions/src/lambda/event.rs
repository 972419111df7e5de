//! A request from an API Gateway HTTP API (payload format 2.0), reduced to the fields that the handlers read.
//!
//! The crate that AWS publishes for these events panics on a body that is flagged as base64 and is not. Here such a
//! request is not authenticated.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use ingress::http::{Headers, Response, raw_body};

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
    /// The segments of the path. The first one can be the name of a stage.
    pub(super) fn path(&self) -> Vec<&str> {
        self.raw_path.trim_start_matches('/').split('/').collect()
    }

    pub(super) fn headers(&self) -> Headers<'_> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// The bytes that were sent; `None` if the base64 flag is wrong.
    pub(super) fn raw_body(&self) -> Option<Cow<'_, [u8]>> {
        raw_body(self.body.as_deref().unwrap_or_default(), self.is_base64_encoded)
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
    headers: BTreeMap<&'static str, String>,
    body: String,
    is_base64_encoded: bool,
}

impl From<Response> for HttpReply {
    fn from(response: Response) -> Self {
        let Response { status, headers, body } = response;
        let headers = headers.into_iter().collect();
        Self { status_code: status, headers, body, is_base64_encoded: false }
    }
}
