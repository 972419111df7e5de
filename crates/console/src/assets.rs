//! Static files, embedded in the binary.

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use domain::Digest;

use crate::page_error::PageError;

/// Browsers cache the files and revalidate them with every use.
const REVALIDATE: &str = "no-cache";

const FILES: [(&str, &str, &str); 4] = [
    ("console.css", "text/css; charset=utf-8", include_str!("../static/console.css")),
    ("live.js", "text/javascript; charset=utf-8", include_str!("../static/live.js")),
    ("htmx.min.js", "text/javascript; charset=utf-8", include_str!("../static/htmx.min.js")),
    ("mark.svg", "image/svg+xml", include_str!("../static/mark.svg")),
];

pub(crate) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some((_, kind, text)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return PageError::page_not_found().into_response();
    };
    let tag = format!("\"{}\"", Digest::of_bytes(text.as_bytes()).short());
    let known = headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == tag.as_bytes());
    let headers = [(ETAG, tag.as_str()), (CACHE_CONTROL, REVALIDATE), (CONTENT_TYPE, kind)];
    if known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, *text).into_response()
}
