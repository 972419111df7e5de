//! How a listener asks: over a WebSocket or as server-sent events, and from where on.

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Query};
use axum::http::header::{ACCEPT, HOST, ORIGIN, UPGRADE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri};
use serde::Deserialize;

use crate::problem::Problem;

/// The header in which a browser says what it saw last.
const LAST_EVENT_ID: &str = "last-event-id";

/// What a listener sends in a frame that is heard: a pong, or that it leaves.
const FRAME_BYTES_MAX: usize = 1024;

/// One reads a few control frames and no more; the default of 128 KiB would be 128 MiB for a thousand listeners.
const READ_BYTES: usize = 4 * 1024;

/// How a listener asks.
pub(crate) struct Asked {
    /// The id of the last envelope it has seen.
    pub(super) last: Option<String>,
    /// The WebSocket it wants, or else it gets server-sent events.
    pub(super) socket: Option<WebSocketUpgrade>,
    pub(super) headers: HeaderMap,
    pub(super) uri: Uri,
}

#[derive(Deserialize)]
struct Parameters {
    last_event_id: Option<String>,
}

impl<T: Send + Sync> FromRequestParts<T> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &T) -> Result<Self, Problem> {
        let query = Query::<Parameters>::from_request_parts(parts, state).await;
        let Query(query) = query.map_err(|_| Problem::bad_request("the query cannot be read"))?;
        // A browser that comes back by itself asks with the address that it first came with, and tells in the header
        // how far it has got since.
        let header =
            parts.headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let last = header.or(query.last_event_id).filter(|id| !id.is_empty());
        let (headers, uri) = (parts.headers.clone(), parts.uri.clone());
        let socket = if wants_a_socket(&headers) { Some(socket(parts, state).await?) } else { None };
        if socket.is_none() && !takes_events(&headers) {
            let detail = "a stream is a WebSocket or `text/event-stream`, and this request takes neither";
            return Err(Problem::new(StatusCode::NOT_ACCEPTABLE, "NOT_ACCEPTABLE", detail)
                .remedy("send `Accept: text/event-stream`, or ask for a WebSocket"));
        }
        Ok(Self { last, socket, headers, uri })
    }
}

async fn socket<T: Send + Sync>(parts: &mut Parts, state: &T) -> Result<WebSocketUpgrade, Problem> {
    if !is_of_this_host(&parts.headers) {
        let detail = "the page that asks is of another host";
        return Err(Problem::new(StatusCode::FORBIDDEN, "FOREIGN_ORIGIN", detail)
            .remedy("open the stream from a page of this server, or from a program, without `Origin`"));
    }
    let upgrade = WebSocketUpgrade::from_request_parts(parts, state).await;
    let upgrade = upgrade.map_err(|rejection| Problem::bad_request(rejection.body_text()))?;
    let upgrade = upgrade.max_frame_size(FRAME_BYTES_MAX).max_message_size(FRAME_BYTES_MAX);
    Ok(upgrade.read_buffer_size(READ_BYTES).write_buffer_size(0))
}

fn wants_a_socket(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    upgrade.eq_ignore_ascii_case("websocket")
}

/// Whether the request takes server-sent events. One that does not say takes anything.
fn takes_events(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().peekable();
    let fits = |range: &str| {
        matches!(range.split(';').next().unwrap_or_default().trim(), "text/event-stream" | "text/*" | "*/*")
    };
    accepted.peek().is_none()
        || accepted.any(|value| value.to_str().is_ok_and(|text| text.split(',').any(fits)))
}

/// Whether the page that asks, if a page does, is of the host that it asks. A browser sends a session cookie with a
/// WebSocket whichever page opens it, and lets that page read what comes.
fn is_of_this_host(headers: &HeaderMap) -> bool {
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

    fn of_this_host(origin: &str, host: &str) -> bool {
        let headers = [(ORIGIN, origin), (HOST, host)];
        is_of_this_host(&headers.into_iter().map(|(name, text)| (name, text.parse().unwrap())).collect())
    }

    #[test]
    fn a_page_of_another_host_opens_no_socket() {
        for (origin, host) in [
            ("https://a.example", "a.example"),
            ("https://A.example:443", "a.example"),
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
        ] {
            assert!(of_this_host(origin, host), "{origin} at {host}");
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
            assert!(!of_this_host(origin, host), "{origin} at {host}");
        }
        assert!(is_of_this_host(&HeaderMap::new()), "a program has no origin");
    }

    #[test]
    fn whoever_takes_anything_takes_events() {
        let takes = |accept: &str| takes_events(&[(ACCEPT, accept.parse().unwrap())].into_iter().collect());
        assert!(takes_events(&HeaderMap::new()));
        assert!(takes("text/event-stream") && takes("*/*") && takes("application/json, text/*;q=0.1"));
        assert!(!takes("application/json"));
    }
}
