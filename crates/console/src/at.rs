//! Who looks at a page, and the handle they stand at.

use std::convert::Infallible;

use api::auth::session::Session;
use api::{Caller, Problem};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use domain::Role;
use engine::TenantHandle;
use serde::de::DeserializeOwned;
use store::Store;

use crate::Shared;
use crate::no::No;

/// Somebody with a session, at the handle of their tenant.
pub(crate) struct Visitor<S> {
    pub(crate) handle: TenantHandle<S>,
    pub(crate) caller: Caller,
    pub(crate) session: Session,
    /// The address they asked for, to be fetched again.
    pub(crate) address: String,
}

impl<S> Visitor<S> {
    /// Whether they may do what `role` may.
    pub(crate) fn may(&self, role: Role) -> bool {
        self.caller.roles.allow(role)
    }

    /// Refuses whoever has not this role.
    pub(crate) fn must_be(&self, role: Role) -> Result<(), Problem> {
        if self.may(role) { Ok(()) } else { Err(Problem::forbidden(role)) }
    }
}

impl<S: Store> FromRequestParts<Shared<S>> for Visitor<S> {
    type Rejection = No;

    async fn from_request_parts(parts: &mut Parts, console: &Shared<S>) -> Result<Self, No> {
        let address = parts.uri.path_and_query().map_or("/", |address| address.as_str()).to_owned();
        let (caller, session) = match console.gate.visitor(&parts.headers).await {
            Ok(known) => known,
            Err(problem) if problem.status == StatusCode::UNAUTHORIZED.as_u16() => {
                return Err(unknown(&parts.headers, address));
            }
            Err(problem) => return Err(problem.into()),
        };
        let handle = console.gate.handle(&caller, Role::Viewer)?;
        Ok(Self { handle, caller, session, address })
    }
}

/// The names in an address. Those that cannot be read are nobody's, like any other that cannot be a name.
pub(crate) struct Named<T>(pub(crate) T);

impl<T: DeserializeOwned + Default + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let named = Path::<T>::from_request_parts(parts, state).await;
        Ok(Self(named.map(|Path(named)| named).unwrap_or_default()))
    }
}

/// What an address asks for after its `?`. What cannot be read asks for nothing.
pub(crate) struct Wish<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequestParts<S> for Wish<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(Query::try_from_uri(&parts.uri).map(|Query(wish)| wish).unwrap_or_default()))
    }
}

/// What is said to somebody without a session. A browser that was led here from elsewhere keeps the session back, and
/// is led here once more, by us.
fn unknown(headers: &HeaderMap, address: String) -> No {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let led = matches!(text("sec-fetch-site"), Some("cross-site" | "same-site"));
    if led && text("sec-fetch-mode") == Some("navigate") {
        return No::Bounce { to: address };
    }
    No::LogIn { next: address, script: headers.contains_key("hx-request") }
}
