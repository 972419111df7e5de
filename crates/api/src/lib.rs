//! The REST API.
//!
//! A request passes the [`Gate`], which says who asks and for which tenant; a handler then stands at that
//! tenant's [`TenantHandle`](engine::TenantHandle) with the role that it names in its arguments. It parses, calls the engine, and
//! replies. There is no way to the store that does not go over a handle.

mod approvals;
mod at;
pub mod auth;
mod by_name;
mod chance;
mod dispatch;
mod evidence;
mod extract;
mod keys;
mod me;
pub mod openapi;
mod page;
mod policy;
pub mod problem;
mod routes;
mod runs;
pub mod stream;
mod tenant;
mod workers;
mod workflows;

use std::collections::BTreeMap;
use std::sync::Arc;

use ::evidence::PublicKey;
use axum::Router;
use domain::TenantId;
use store::Store;

pub use at::{Admin, Approver, Operator, Viewer};
pub use auth::{Caller, Gate};
pub use chance::{chance, hex};
pub use extract::BODY_BYTES_MAX;
pub use keys::forged;
pub use page::{CursorSecret, List};
pub use problem::Problem;
pub use routes::{Row, rows};
pub use runs::request_key;

/// What every handler needs.
pub struct Api<S> {
    gate: Gate<S>,
    cursors: CursorSecret,
    verifies: Option<PublicKey>,
    streams: stream::Streams,
    secrets: BTreeMap<TenantId, Vec<api_types::SecretName>>,
}

impl<S: Store> Api<S> {
    /// The API for whoever passes `gate`; its cursors are sealed with `cursors`.
    pub fn new(gate: Gate<S>, cursors: CursorSecret) -> Self {
        Self { gate, cursors, verifies: None, streams: stream::Streams::default(), secrets: BTreeMap::new() }
    }

    /// The same, which also verifies evidence: with this key.
    #[must_use]
    pub fn verifying(mut self, key: PublicKey) -> Self {
        self.verifies = Some(key);
        self
    }

    /// The same, which knows by what names other systems' secrets are found.
    #[must_use]
    pub fn naming(mut self, secrets: impl IntoIterator<Item = (TenantId, api_types::SecretName)>) -> Self {
        for (tenant, secret) in secrets {
            self.secrets.entry(tenant).or_default().push(secret);
        }
        self
    }

    /// The same, with streams of this kind.
    #[must_use]
    pub fn with_streams(mut self, streams: stream::Streams) -> Self {
        self.streams = streams;
        self
    }

    /// Who listens to what.
    pub fn streams(&self) -> &stream::Streams {
        &self.streams
    }

    /// Who may come in.
    pub fn gate(&self) -> &Gate<S> {
        &self.gate
    }
}

/// What handlers are given.
pub type Shared<S> = Arc<Api<S>>;

/// The routes under `/api/v1`.
pub fn router<S: Store>(api: Shared<S>) -> Router {
    routes::router(api)
}
