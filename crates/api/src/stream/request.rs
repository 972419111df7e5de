//! Requests for a stream: over a WebSocket or as server-sent events, and the id to resume from.

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Query};
use axum::http::header::{ACCEPT, HOST, ORIGIN, UPGRADE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri};
use serde::Deserialize;

use crate::problem::ApiError;

/// The header of a browser that reconnects.
const LAST_EVENT_ID: &str = "last-event-id";

/// A client sends only pongs and close frames.
const FRAME_BYTES_MAX: usize = 1024;

/// Enough for control frames; the default of 128 KiB would take 128 MiB for a thousand listeners.
const READ_BYTES: usize = 4 * 1024;

/// A request for a stream.
pub(crate) struct StreamRequest {
    /// The id of the last received envelope.
    pub(super) last: Option<String>,
    /// The WebSocket, if the client requests one. Otherwise it gets server-sent events.
    pub(super) socket: Option<WebSocketUpgrade>,
    pub(super) headers: HeaderMap,
    pub(super) uri: Uri,
}

#[derive(Deserialize)]
struct Parameters {
    last_event_id: Option<String>,
}

impl<T: Send + Sync> FromRequestParts<T> for StreamRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &T) -> Result<Self, ApiError> {
        let query = Query::<Parameters>::from_request_parts(parts, state).await;
        let Query(query) = query.map_err(|_| ApiError::bad_request("the query parameters are invalid"))?;
        // A browser that reconnects uses its first URL again; only the header has the current id.
        let header =
            parts.headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let last = header.or(query.last_event_id).filter(|id| !id.is_empty());
        let (headers, uri) = (parts.headers.clone(), parts.uri.clone());
        let socket = if requests_socket(&headers) { Some(socket(parts, state).await?) } else { None };
        if socket.is_none() && !accepts_events(&headers) {
            let detail = "the request accepts neither a WebSocket nor `text/event-stream`";
            return Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, "NOT_ACCEPTABLE", detail)
                .remedy("send `Accept: text/event-stream`, or request a WebSocket"));
        }
        Ok(Self { last, socket, headers, uri })
    }
}

async fn socket<T: Send + Sync>(parts: &mut Parts, state: &T) -> Result<WebSocketUpgrade, ApiError> {
    if !is_same_host(&parts.headers) {
        let detail = "a page of another origin requested the stream";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "ORIGIN_NOT_ALLOWED", detail)
            .remedy("open the stream from a page of this server, or from a program without `Origin`"));
    }
    let upgrade = WebSocketUpgrade::from_request_parts(parts, state).await;
    let upgrade = upgrade.map_err(|rejection| ApiError::bad_request(rejection.body_text()))?;
    let upgrade = upgrade.max_frame_size(FRAME_BYTES_MAX).max_message_size(FRAME_BYTES_MAX);
    Ok(upgrade.read_buffer_size(READ_BYTES).write_buffer_size(0))
}

fn requests_socket(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    upgrade.eq_ignore_ascii_case("websocket")
}

/// Whether the request accepts server-sent events. Without an `Accept` header it does.
fn accepts_events(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().peekable();
    let fits = |range: &str| {
        matches!(range.split(';').next().unwrap_or_default().trim(), "text/event-stream" | "text/*" | "*/*")
    };
    accepted.peek().is_none()
        || accepted.any(|value| value.to_str().is_ok_and(|text| text.split(',').any(fits)))
}

/// Whether the `Origin`, if there is one, is this host. A browser sends the session cookie with a WebSocket of any page
/// and lets that page read the messages.
fn is_same_host(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let Some(origin) = text(ORIGIN) else { return true };
    let here = text(HOST).unwrap_or_default();
    let Some((scheme, there)) = origin.split_once("://") else { return false };
    let default = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return false,
    };
    let plain = |host: &str| host.strip_suffix(default).unwrap_or(host).to_ascii_lowercase();
    !here.is_empty() && plain(there) == plain(here)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same_host(origin: &str, host: &str) -> bool {
        let headers = [(ORIGIN, origin), (HOST, host)];
        is_same_host(&headers.into_iter().map(|(name, text)| (name, text.parse().unwrap())).collect())
    }

    #[test]
    fn only_a_page_of_the_same_host_opens_a_socket() {
        for (origin, host) in [
            ("https://a.example", "a.example"),
            ("https://A.example:443", "a.example"),
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
        ] {
            assert!(same_host(origin, host), "{origin} at {host}");
        }
        for (origin, host) in [
            ("https://b.example", "a.example"),
            ("https://a.example.b.example", "a.example"),
            ("http://a.example:8080", "a.example"),
            ("http://a.example:443", "a.example"),
            ("null", "a.example"),
            ("", "a.example"),
            ("https://", ""),
            ("file://a.example", "a.example"),
        ] {
            assert!(!same_host(origin, host), "{origin} at {host}");
        }
        assert!(is_same_host(&HeaderMap::new()), "a program has no origin");
    }

    #[test]
    fn wildcard_accepts_events() {
        let accepts =
            |accept: &str| accepts_events(&[(ACCEPT, accept.parse().unwrap())].into_iter().collect());
        assert!(accepts_events(&HeaderMap::new()));
        assert!(accepts("text/event-stream") && accepts("*/*") && accepts("application/json, text/*;q=0.1"));
        assert!(!accepts("application/json"));
    }
}
