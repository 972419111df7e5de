//! The style and the scripts. They are in the program; nothing is fetched from anywhere.

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use domain::Digest;

use crate::no::No;

/// A browser may keep them, and asks each time whether they still stand.
const ASK_AGAIN: &str = "no-cache";

const FILES: [(&str, &str, &str); 4] = [
    ("console.css", "text/css; charset=utf-8", include_str!("../static/console.css")),
    ("live.js", "text/javascript; charset=utf-8", include_str!("../static/live.js")),
    ("htmx.min.js", "text/javascript; charset=utf-8", include_str!("../static/htmx.min.js")),
    ("mark.svg", "image/svg+xml", include_str!("../static/mark.svg")),
];

pub(crate) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some((_, kind, text)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return No::page().into_response();
    };
    let tag = format!("\"{}\"", Digest::of_bytes(text.as_bytes()).short());
    let known = headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == tag.as_bytes());
    let about = [(ETAG, tag.as_str()), (CACHE_CONTROL, ASK_AGAIN), (CONTENT_TYPE, kind)];
    if known {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, *text).into_response()
}
