//! The console: pages for people at a browser.
//!
//! Every page is made on the server and works without a script; a script only fetches it again when something has
//! happened. A request passes the API's [`Gate`] with its session and stands at its tenant's
//! [`TenantHandle`](engine::TenantHandle), as one with a key does. What changes anything takes the session's token besides, and
//! comes from a page of this server.
//!
//! Much of what is shown was written by strangers. All of it is escaped, what cannot be seen in it is written out
//! ([`text::Seen`]), and the answer forbids the browser whatever the pages do not need ([`guard`]).

mod approvals;
mod assets;
mod at;
mod evidence;
mod form;
mod guard;
mod health;
mod layout;
mod login;
mod no;
mod oidc;
mod overview;
mod pages;
mod runs;
mod text;
mod workflows;

use std::sync::Arc;

use ::evidence::PublicKey;
use api::auth::login::{CALLBACK, Login};
use api::auth::session::Sessions;
use api::{CursorSecret, Gate};
use axum::Router;
use axum::middleware::map_response;
use axum::routing::{get, post};
use engine::Engine;
use store::Store;

/// What every page needs.
pub struct Console<S> {
    gate: Gate<S>,
    engine: Arc<Engine<S>>,
    sessions: Arc<Sessions>,
    cursors: CursorSecret,
    key: Option<PublicKey>,
    login: Option<Login>,
}

/// What a console is made of.
pub struct Parts<S> {
    /// The runtime.
    pub engine: Arc<Engine<S>>,
    /// The sessions; the API's gate is given the same, so that pages may look there.
    pub sessions: Arc<Sessions>,
    /// What says where a page of a list goes on is sealed with this; it may be the API's.
    pub cursors: CursorSecret,
    /// What evidence is verified with; without it the pages say that they cannot.
    pub key: Option<PublicKey>,
}

impl<S: Store> Console<S> {
    /// A console of these parts.
    pub fn new(parts: Parts<S>) -> Self {
        let Parts { engine, sessions, cursors, key } = parts;
        let gate = Gate::new(Arc::clone(&engine)).with_sessions(Arc::clone(&sessions));
        Self { gate, engine, sessions, cursors, key, login: None }
    }

    /// The same, where people may also log in with an identity provider.
    #[must_use]
    pub fn with_login(mut self, login: Login) -> Self {
        self.login = Some(login);
        self
    }
}

/// What handlers are given.
pub(crate) type Shared<S> = Arc<Console<S>>;

/// The pages, under `/`.
pub fn router<S: Store>(console: Arc<Console<S>>) -> Router {
    let pages = Router::new()
        .route("/", get(overview::show::<S>))
        .route("/login", get(login::show::<S>).post(login::log_in::<S>))
        .route(oidc::START, get(oidc::start::<S>))
        .route(CALLBACK, get(oidc::finish::<S>))
        .route("/logout", post(login::log_out::<S>))
        .route("/runs", get(runs::list::<S>))
        .route("/runs/{run}", get(runs::show::<S>))
        .route("/runs/{run}/{verb}", post(runs::act::<S>))
        .route("/approvals", get(approvals::list::<S>))
        .route("/approvals/{approval}", get(approvals::show::<S>).post(approvals::answer::<S>))
        .route("/workflows", get(workflows::list::<S>))
        .route("/workflows/{workflow}", get(workflows::show::<S>).post(workflows::try_out::<S>))
        .route("/workflows/{workflow}/start", post(workflows::start::<S>))
        .route(
            "/workflows/{workflow}/versions/{version}",
            get(workflows::show_version::<S>).post(workflows::try_out_version::<S>),
        )
        .route("/evidence/{run}", get(evidence::show::<S>))
        .route("/evidence/{run}/bundle", get(evidence::bundle::<S>))
        .route("/evidence/{run}/report", get(evidence::report::<S>))
        .route("/health", get(health::show::<S>))
        .route("/health/{verb}", post(health::turn::<S>))
        .route("/static/{file}", get(assets::file))
        .fallback(no::no_page)
        .method_not_allowed_fallback(no::no_page);
    pages.layer(map_response(guard::guarded)).with_state(console)
}
