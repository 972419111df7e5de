//! Calls the API's routes in the same process.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use tower::ServiceExt as _;

use crate::request::{ApiRequest, Reply};
use crate::{ClientError, REPLY_BYTES_MAX};

pub(crate) async fn call(router: Router, call: &ApiRequest) -> Result<Reply, ClientError> {
    let mut request = Request::builder().method(call.method.clone()).uri(call.path());
    for (name, value) in call.headers() {
        request = request.header(name, value);
    }
    if call.body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let body = call.body.clone().map_or_else(Body::empty, Body::from);
    let request = request.body(body).map_err(|error| ClientError::invalid_response(error.to_string()))?;
    let response = match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let status = response.status();
    let bytes = to_bytes(response.into_body(), REPLY_BYTES_MAX).await;
    let body = bytes.map_err(|error| ClientError::invalid_response(error.to_string()))?.to_vec();
    Ok(Reply { status, body })
}
