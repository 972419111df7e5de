//! Security headers for every response: no content from other hosts, no requests to other hosts, no framing, no caching.

use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::response::Response;

/// Pages load styles, images and scripts from this server only, and send requests to this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The report of a run is self-contained, with inline style. It runs no script and loads nothing.
pub(crate) const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; \
     frame-ancestors 'none'; base-uri 'none'; sandbox";

/// Adds the headers that the response does not set itself.
pub(crate) async fn add_security_headers(mut response: Response) -> Response {
    let headers: [(HeaderName, &'static str); 5] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
