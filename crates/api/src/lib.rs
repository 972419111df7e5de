//! The REST API.
//!
//! The [`Authenticator`] determines the caller and the tenant of a request. A handler gets the
//! [`TenantHandle`](engine::TenantHandle) of that tenant through an argument that checks a role. It parses the request,
//! calls the engine and responds. A handler reaches the store only through its handle.

mod approvals;
mod audit;
pub mod auth;
mod by_name;
mod connections;
mod dispatch;
mod evidence;
mod extract;
mod keys;
pub mod openapi;
mod page;
mod policy;
pub mod problem;
mod random;
mod role_guard;
mod routes;
mod runs;
mod status;
pub mod stream;
mod tenant;
mod workflows;

use std::collections::BTreeMap;
use std::sync::Arc;

use ::evidence::TrustedKeys;
use axum::Router;
use domain::TenantId;
use store::Store;

pub use auth::{Authenticator, Caller};
pub use extract::BODY_BYTES_MAX;
pub use keys::generate_key;
pub use page::{CursorSecret, List};
pub use problem::ApiError;
pub use random::{hex, random_bytes};
pub use role_guard::{Admin, Approver, Operator, Viewer};
pub use routes::{RouteInfo, route_table};
pub use runs::request_key;

/// The state of the API.
pub struct Api<S> {
    authenticator: Authenticator<S>,
    cursors: CursorSecret,
    trusted_keys: Option<TrustedKeys>,
    streams: stream::Streams,
    secrets: BTreeMap<TenantId, Vec<api_types::SecretName>>,
}

impl<S: Store> Api<S> {
    /// `cursors` is the secret that page cursors are encrypted with.
    pub fn new(authenticator: Authenticator<S>, cursors: CursorSecret) -> Self {
        Self {
            authenticator,
            cursors,
            trusted_keys: None,
            streams: stream::Streams::default(),
            secrets: BTreeMap::new(),
        }
    }

    /// Sets the keys to verify evidence with.
    #[must_use]
    pub fn with_trusted_keys(mut self, keys: TrustedKeys) -> Self {
        self.trusted_keys = Some(keys);
        self
    }

    /// Sets the names of the secrets of external systems.
    #[must_use]
    pub fn with_secret_names(
        mut self,
        secrets: impl IntoIterator<Item = (TenantId, api_types::SecretName)>,
    ) -> Self {
        for (tenant, secret) in secrets {
            self.secrets.entry(tenant).or_default().push(secret);
        }
        self
    }

    #[must_use]
    pub fn with_streams(mut self, streams: stream::Streams) -> Self {
        self.streams = streams;
        self
    }

    pub fn streams(&self) -> &stream::Streams {
        &self.streams
    }
}

pub type Shared<S> = Arc<Api<S>>;

/// The routes under `/api/v1`.
pub fn router<S: Store>(api: Shared<S>) -> Router {
    routes::router(api)
}
