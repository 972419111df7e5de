//! What a handler is given of a request, and how a request that cannot be used is refused.
//!
//! Every refusal is a [`Problem`]; the framework's own texts never leave the house. A name that cannot be one
//! is told in the words for a name that nobody has.

use std::collections::HashMap;
use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use domain::{ApprovalId, KeyId, RunId, WorkflowName, json};
use serde::de::DeserializeOwned;

use crate::by_name;
use crate::problem::Problem;

/// More than any request needs; larger things belong into a file store, by pointer.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Something that an address names.
pub(crate) trait Nameable: FromStr {
    /// The name of the part of the address.
    const PART: &'static str;
    /// What it names.
    const WHAT: &'static str;
}

impl Nameable for RunId {
    const PART: &'static str = "run";
    const WHAT: &'static str = "run";
}

impl Nameable for ApprovalId {
    const PART: &'static str = "approval";
    const WHAT: &'static str = "request for approval";
}

impl Nameable for WorkflowName {
    const PART: &'static str = "workflow";
    const WHAT: &'static str = "workflow";
}

impl Nameable for KeyId {
    const PART: &'static str = "key";
    const WHAT: &'static str = "key";
}

/// What the address names.
pub(crate) struct Named<T>(pub(crate) T);

impl<T: Nameable, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let unknown = || Problem::not_found(T::WHAT);
        let named = Path::<HashMap<String, String>>::from_request_parts(parts, state).await;
        let Path(named) = named.map_err(|_| unknown())?;
        let text = named.get(T::PART).ok_or_else(unknown)?;
        text.parse().map(Self).map_err(|_| unknown())
    }
}

/// What is asked for behind the `?`.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejection) => Err(Problem::bad_request(in_short(&rejection.body_text()))
                .remedy("see /api/v1/openapi.json for what can be asked for here")),
        }
    }
}

/// What was sent, as JSON that every reader agrees on.
pub(crate) struct Sent<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UNSUPPORTED_MEDIA_TYPE",
                "the body must be JSON",
            )
            .remedy("send it with `Content-Type: application/json`"));
        }
        let bytes =
            Bytes::from_request(request, state).await.map_err(|rejection| unread(rejection.status()))?;
        let value = json::parse(&bytes).map_err(|error| Problem::bad_request(error.to_string()))?;
        by_name::read(value).map(Self).map_err(|error| Problem::bad_request(in_short(&error.to_string())))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return false };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

fn unread(status: StatusCode) -> Problem {
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        let detail = format!("the body has more than {BODY_BYTES_MAX} bytes");
        Problem::new(status, "TOO_LARGE", detail).remedy("send large things by pointer")
    } else {
        Problem::bad_request("the body did not come whole")
    }
}

/// As much of what a stranger sent as a person reads.
fn in_short(text: &str) -> String {
    domain::failure::bounded(text, domain::failure::MESSAGE_CHARS_MAX)
}
