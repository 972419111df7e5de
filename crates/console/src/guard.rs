//! What every answer tells the browser: nothing comes from elsewhere, nothing goes elsewhere, nobody frames it, and
//! nothing of it is kept.

use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::response::Response;

/// What a page may do: show our style and our pictures, run our scripts, and ask and tell this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The report of a run stands by itself, with its style in it. Nothing runs there and nothing is fetched.
pub(crate) const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; \
     frame-ancestors 'none'; base-uri 'none'; sandbox";

/// The same answer, guarded. What it says itself of one of these stands.
pub(crate) async fn guarded(mut answer: Response) -> Response {
    let always: [(HeaderName, &'static str); 5] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in always {
        answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    answer
}
