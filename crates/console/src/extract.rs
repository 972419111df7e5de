//! Extractors: the session's user, path parameters and query parameters.

use std::convert::Infallible;

use api::auth::session::Session;
use api::{ApiError, Caller};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use domain::Role;
use engine::TenantHandle;
use serde::de::DeserializeOwned;
use store::Store;

use crate::Shared;
use crate::page_error::PageError;

/// The user of a session, with the engine's API for their tenant.
pub(crate) struct SessionUser<S> {
    pub(crate) handle: TenantHandle<S>,
    pub(crate) caller: Caller,
    pub(crate) session: Session,
    /// The requested address, which live updates fetch again.
    pub(crate) address: String,
}

impl<S> SessionUser<S> {
    pub(crate) fn has_role(&self, role: Role) -> bool {
        self.caller.roles.allow(role)
    }

    pub(crate) fn require_role(&self, role: Role) -> Result<(), ApiError> {
        if self.has_role(role) { Ok(()) } else { Err(self.caller.lacks(role)) }
    }
}

impl<S: Store> FromRequestParts<Shared<S>> for SessionUser<S> {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, console: &Shared<S>) -> Result<Self, PageError> {
        let address = parts.uri.path_and_query().map_or("/", |address| address.as_str()).to_owned();
        let (caller, session) = match console.authenticator.session_caller(&parts.headers).await {
            Ok(known) => known,
            Err(problem) if problem.status == StatusCode::UNAUTHORIZED.as_u16() => {
                return Err(no_session(&parts.headers, address));
            }
            Err(problem) => return Err(problem.into()),
        };
        let handle = console.authenticator.handle(&caller, Role::Viewer)?;
        Ok(Self { handle, caller, session, address })
    }
}

/// The path parameters. Invalid ones become the default, an empty name, which no record has.
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Default + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let params = Path::<T>::from_request_parts(parts, state).await;
        Ok(Self(params.map(|Path(params)| params).unwrap_or_default()))
    }
}

/// The query parameters. An invalid query becomes the default.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(Query::try_from_uri(&parts.uri).map(|Query(params)| params).unwrap_or_default()))
    }
}

/// The response without a session. A browser does not send the `SameSite` cookie with a navigation from another site, so
/// such a navigation is repeated from a page of this server.
fn no_session(headers: &HeaderMap, address: String) -> PageError {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let cross_site = matches!(text("sec-fetch-site"), Some("cross-site" | "same-site"));
    if cross_site && text("sec-fetch-mode") == Some("navigate") {
        return PageError::RedirectPage { to: address };
    }
    PageError::LoginRequired { next: address, script: headers.contains_key("hx-request") }
}
