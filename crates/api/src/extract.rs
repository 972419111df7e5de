//! Extractors for path parameters, query parameters and bodies.
//!
//! Every rejection is an [`ApiError`]; the texts of the framework are not sent. A malformed name gets the same response
//! as an unknown name.

use std::collections::HashMap;
use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use domain::{ApprovalId, ConnectionName, KeyId, RunId, WorkflowName, json};
use serde::de::DeserializeOwned;

use crate::by_name;
use crate::problem::ApiError;

/// Larger than any request needs. Larger data belongs in an external store, by reference.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// The type of a path parameter.
pub(crate) trait PathId: FromStr {
    /// The name of the path parameter.
    const PART: &'static str;
    /// The name of the resource in error messages.
    const WHAT: &'static str;
}

impl PathId for RunId {
    const PART: &'static str = "run";
    const WHAT: &'static str = "run";
}

impl PathId for ApprovalId {
    const PART: &'static str = "approval";
    const WHAT: &'static str = "approval";
}

impl PathId for WorkflowName {
    const PART: &'static str = "workflow";
    const WHAT: &'static str = "workflow";
}

impl PathId for ConnectionName {
    const PART: &'static str = "connection";
    const WHAT: &'static str = "connection";
}

impl PathId for KeyId {
    const PART: &'static str = "key";
    const WHAT: &'static str = "key";
}

/// A path parameter.
pub(crate) struct PathParam<T>(pub(crate) T);

impl<T: PathId, S: Send + Sync> FromRequestParts<S> for PathParam<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let unknown = || ApiError::not_found(T::WHAT);
        let named = Path::<HashMap<String, String>>::from_request_parts(parts, state).await;
        let Path(named) = named.map_err(|_| unknown())?;
        let text = named.get(T::PART).ok_or_else(unknown)?;
        text.parse().map(Self).map_err(|_| unknown())
    }
}

/// The query parameters.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(ApiError::bad_request(truncated(&rejection.body_text()))
                .remedy("see /api/v1/openapi.json for the query parameters of this route")),
        }
    }
}

/// A JSON body that every parser reads the same way.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UNSUPPORTED_MEDIA_TYPE",
                "the body must be JSON",
            )
            .remedy("send it with `Content-Type: application/json`"));
        }
        let bytes =
            Bytes::from_request(request, state).await.map_err(|rejection| body_error(rejection.status()))?;
        let value = json::parse(&bytes).map_err(|error| ApiError::bad_request(error.to_string()))?;
        by_name::read(value).map(Self).map_err(|error| ApiError::bad_request(truncated(&error.to_string())))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return false };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

fn body_error(status: StatusCode) -> ApiError {
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        let detail = format!("the body is larger than {BODY_BYTES_MAX} bytes");
        ApiError::new(status, "TOO_LARGE", detail).remedy("send a reference to large data instead")
    } else {
        ApiError::bad_request("the body is incomplete")
    }
}

/// Truncates text of the request.
fn truncated(text: &str) -> String {
    domain::failure::bounded(text, domain::failure::MESSAGE_CHARS_MAX)
}
