//! Requests and replies.

use reqwest::{Method, StatusCode, header::HeaderName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::form_urlencoded::Serializer;

use api_types::Problem;

use crate::error::ClientError;

#[derive(Debug, Clone)]
pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Vec<u8>>,
    key: Option<String>,
    /// Whether the request may be sent twice.
    pub(crate) repeatable: bool,
}

impl ApiRequest {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path.into(), true)
    }

    /// A request that has the same result if it is repeated.
    pub(crate) fn repeatable(method: Method, path: impl Into<String>) -> Self {
        Self::new(method, path.into(), true)
    }

    /// A request that must not be repeated automatically.
    pub(crate) fn once(method: Method, path: impl Into<String>) -> Self {
        Self::new(method, path.into(), false)
    }

    fn new(method: Method, path: String, repeatable: bool) -> Self {
        Self { method, path, query: Vec::new(), body: None, key: None, repeatable }
    }

    pub(crate) fn query(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub(crate) fn json(mut self, document: &impl Serialize) -> Result<Self, ClientError> {
        let body = serde_json::to_vec(document);
        self.body = Some(body.map_err(|error| ClientError::invalid_response(error.to_string()))?);
        Ok(self)
    }

    /// Sends `key` as the idempotency key, which makes the request repeatable.
    pub(crate) fn with_key(mut self, key: String) -> Self {
        self.key = Some(key);
        self.repeatable = true;
        self
    }

    /// The path and query of the request.
    pub(crate) fn path(&self) -> String {
        if self.query.is_empty() {
            return format!("{}{}", api_types::PREFIX, self.path);
        }
        let query = Serializer::new(String::new()).extend_pairs(&self.query).finish();
        format!("{}{}?{query}", api_types::PREFIX, self.path)
    }

    pub(crate) fn headers(&self) -> impl Iterator<Item = (HeaderName, &str)> {
        let key = self.key.as_deref();
        key.map(|key| (HeaderName::from_static("idempotency-key"), key)).into_iter()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn document<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body).map_err(|error| ClientError::invalid_response(error.to_string()))
    }

    /// Whether the reply comes from a proxy that got no response from the server.
    pub(crate) fn is_from_proxy(&self) -> bool {
        use StatusCode as S;
        matches!(self.status, S::BAD_GATEWAY | S::SERVICE_UNAVAILABLE | S::GATEWAY_TIMEOUT)
            && serde_json::from_slice::<Problem>(&self.body).is_err()
    }

    /// The error of the reply. A body that is no problem document does not come from our server.
    pub(crate) fn problem(&self) -> ClientError {
        match serde_json::from_slice::<Problem>(&self.body) {
            Ok(problem) => ClientError::Refused(problem),
            Err(_) => ClientError::invalid_response(format!("HTTP status {}", self.status.as_u16())),
        }
    }
}
