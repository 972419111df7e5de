//! The REST API.
//!
//! A request passes the [`Gate`], which says who asks and for which tenant; a handler then stands at that
//! tenant's [`Desk`](engine::Desk) with the role that it names in its arguments. It parses, calls the engine, and
//! replies. There is no way to the store that does not go over a desk.

mod at;
pub mod auth;
pub mod problem;
mod runs;
pub mod stream;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use store::Store;

pub use at::{Admin, Approver, Operator, Viewer};
pub use auth::{Caller, Gate};
pub use problem::Problem;

/// What every handler needs.
pub struct Api<S> {
    gate: Gate<S>,
    streams: stream::Streams,
}

impl<S: Store> Api<S> {
    /// The API for whoever passes `gate`.
    pub fn new(gate: Gate<S>) -> Self {
        Self { gate, streams: stream::Streams::default() }
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
    let routes = Router::new().route("/runs/{run}", get(runs::show::<S>)).merge(stream::routes());
    let routes = routes.fallback(problem::no_route).with_state(api);
    Router::new().nest("/api/v1", routes)
}
