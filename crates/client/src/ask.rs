//! One request, and what came back.

use reqwest::{Method, StatusCode, header::HeaderName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::form_urlencoded::Serializer;

use crate::error::{ClientError, Problem};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Vec<u8>>,
    key: Option<String>,
    /// Whether asking twice is the same as asking once.
    pub(crate) repeatable: bool,
}

impl Ask {
    /// Looks at something.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path.into(), true)
    }

    /// Says something that counts once, however often it is said.
    pub(crate) fn say(method: Method, path: impl Into<String>) -> Self {
        Self::new(method, path.into(), true)
    }

    /// Says something that must not be said again unless somebody looks first.
    pub(crate) fn say_once(method: Method, path: impl Into<String>) -> Self {
        Self::new(method, path.into(), false)
    }

    fn new(method: Method, path: String, repeatable: bool) -> Self {
        Self { method, path, query: Vec::new(), body: None, key: None, repeatable }
    }

    pub(crate) fn with(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub(crate) fn sending(mut self, document: &impl Serialize) -> Result<Self, ClientError> {
        let body = serde_json::to_vec(document);
        self.body = Some(body.map_err(|error| ClientError::unreadable(error.to_string()))?);
        Ok(self)
    }

    /// The same, named by `key`: the server does it once.
    pub(crate) fn under(mut self, key: String) -> Self {
        self.key = Some(key);
        self.repeatable = true;
        self
    }

    /// Where it goes, from the root of the server.
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

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The document that it holds.
    pub(crate) fn document<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body).map_err(|error| ClientError::unreadable(error.to_string()))
    }

    /// Whether something that stands before the server could get no answer from it.
    pub(crate) fn is_from_between(&self) -> bool {
        use StatusCode as S;
        matches!(self.status, S::BAD_GATEWAY | S::SERVICE_UNAVAILABLE | S::GATEWAY_TIMEOUT)
            && serde_json::from_slice::<Problem>(&self.body).is_err()
    }

    /// The no that it is. What is no problem of ours came from something in between.
    pub(crate) fn problem(&self) -> ClientError {
        match serde_json::from_slice::<Problem>(&self.body) {
            Ok(problem) => ClientError::Refused(problem),
            Err(_) => ClientError::unreadable(format!("HTTP status {}", self.status.as_u16())),
        }
    }
}
