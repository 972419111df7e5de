//! A request as an HTTP API hands it over (payload format 2.0), as far as a door looks at it.
//!
//! The crate that AWS publishes for these panics on a body whose flag says base64 where there is none. Here a
//! flag that lies is a request that proves nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use ingress::http::{Headers, Response, raw_body};

/// A request.
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
    /// The parts of the path. A stage's name may stand first.
    pub(super) fn path(&self) -> Vec<&str> {
        self.raw_path.trim_start_matches('/').split('/').collect()
    }

    pub(super) fn headers(&self) -> Headers<'_> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// The bytes that were sent; nothing, if the flag lies.
    pub(super) fn raw_body(&self) -> Option<Cow<'_, [u8]>> {
        raw_body(self.body.as_deref().unwrap_or_default(), self.is_base64_encoded)
    }

    /// At least how many bytes the body has: four characters of base64 are three bytes, or two fewer.
    pub(super) fn bytes_min(&self) -> usize {
        let chars = self.body.as_deref().map_or(0, str::len);
        if self.is_base64_encoded { (chars / 4 * 3).saturating_sub(2) } else { chars }
    }
}

/// A reply.
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
