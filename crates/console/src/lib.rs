//! The web console.
//!
//! Every page is rendered on the server and works without scripts; a script only fetches it again after an event. The
//! API's [`Authenticator`] checks the session of a request, which then uses its tenant's
//! [`TenantHandle`](engine::TenantHandle), like a request with an API key. A request that changes something also needs
//! the session's token and must come from a page of this server.
//!
//! Pages show untrusted text. All of it is escaped, invisible characters are shown as code points
//! ([`text::InlineText`]), and security headers forbid everything that the pages do not need ([`guard`]).

mod approvals;
mod assets;
mod audit;
mod connections;
mod evidence;
mod extract;
mod form;
mod guard;
mod health;
mod layout;
mod login;
mod oidc;
mod overview;
mod page_error;
mod paging;
mod runs;
mod text;
mod workflows;

use std::sync::Arc;

use ::evidence::TrustedKeys;
use api::auth::login::{CALLBACK, Login};
use api::auth::session::Sessions;
use api::{Authenticator, CursorSecret};
use axum::Router;
use axum::middleware::map_response;
use axum::routing::{get, post};
use engine::Engine;
use store::Store;

/// The state of the handlers.
pub struct Console<S> {
    authenticator: Authenticator<S>,
    engine: Arc<Engine<S>>,
    sessions: Arc<Sessions>,
    cursors: CursorSecret,
    keys: Option<TrustedKeys>,
    login: Option<Login>,
}

pub struct Parts<S> {
    pub engine: Arc<Engine<S>>,
    /// The same sessions as the API's, because pages call the API.
    pub sessions: Arc<Sessions>,
    /// Encrypts the cursors of lists. It can be the API's secret.
    pub cursors: CursorSecret,
    /// Verifies evidence. Without it the pages show that they cannot verify.
    pub keys: Option<TrustedKeys>,
}

impl<S: Store> Console<S> {
    pub fn new(parts: Parts<S>) -> Self {
        let Parts { engine, sessions, cursors, keys } = parts;
        let authenticator = Authenticator::new(Arc::clone(&engine)).with_sessions(Arc::clone(&sessions));
        Self { authenticator, engine, sessions, cursors, keys, login: None }
    }

    /// Enables login with an identity provider.
    #[must_use]
    pub fn with_login(mut self, login: Login) -> Self {
        self.login = Some(login);
        self
    }
}

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
        .route("/workflows/{workflow}", get(workflows::show::<S>).post(workflows::dry_run_form::<S>))
        .route("/workflows/{workflow}/start", post(workflows::start::<S>))
        .route(
            "/workflows/{workflow}/versions/{version}",
            get(workflows::show_version::<S>).post(workflows::dry_run_version::<S>),
        )
        .route("/connections", get(connections::list::<S>))
        .route("/connections/{connection}", get(connections::show::<S>))
        .route("/connections/{connection}/test", post(connections::test::<S>))
        .route("/connections/{connection}/remove", post(connections::remove::<S>))
        .route("/evidence/{run}", get(evidence::show::<S>))
        .route("/evidence/{run}/bundle", get(evidence::bundle::<S>))
        .route("/evidence/{run}/report", get(evidence::report::<S>))
        .route("/audit", get(audit::list::<S>))
        .route("/health", get(health::show::<S>))
        .route("/health/{verb}", post(health::switch_dispatch::<S>))
        .route("/static/{file}", get(assets::file))
        .fallback(page_error::not_found_page)
        .method_not_allowed_fallback(page_error::not_found_page);
    pages.layer(map_response(guard::add_security_headers)).with_state(console)
}
