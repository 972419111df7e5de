//! Forms with CSRF protection.
//!
//! A form is accepted if the browser reports that a page of this server sent it, and if it contains the session's token,
//! which pages of other sites cannot read.

use api::ApiError;
use api::auth::session::is_same_origin;
use axum::Form;
use axum::extract::{FromRequest, FromRequestParts as _, Request};
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use store::Store;

use crate::Shared;
use crate::extract::SessionUser;
use crate::page_error::PageError;

pub(crate) const TOKEN: &str = "token";

/// An accepted form, and the user who sent it.
pub(crate) struct SessionForm<S, T> {
    pub(crate) user: SessionUser<S>,
    pub(crate) form: T,
}

#[derive(Deserialize)]
struct FormWithToken<T> {
    #[serde(default)]
    token: String,
    #[serde(flatten)]
    form: T,
}

impl<S: Store, T: DeserializeOwned> FromRequest<Shared<S>> for SessionForm<S, T> {
    type Rejection = PageError;

    async fn from_request(request: Request, console: &Shared<S>) -> Result<Self, PageError> {
        require_same_site(request.headers())?;
        let (mut parts, body) = request.into_parts();
        let user =
            SessionUser::from_request_parts(&mut parts, console).await.map_err(|error| match error {
                PageError::LoginRequired { script: false, .. } => {
                    PageError::SessionExpired { page: page_of(parts.uri.path()).to_owned() }
                }
                error => error,
            })?;
        let Form(sent) = read::<FormWithToken<T>, S>(Request::from_parts(parts, body), console).await?;
        if !user.session.is_token(&sent.token) {
            return Err(wrong_session().into());
        }
        Ok(Self { user, form: sent.form })
    }
}

/// The page of a form. Forms that act on an object are sent to an address below the object's page.
fn page_of(path: &str) -> &str {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["", "runs" | "connections", _, _] | ["", "workflows", _, "start"] | ["", "health", _] => {
            path.rsplit_once('/').map_or(path, |(page, _)| page)
        }
        ["", "logout"] => "/",
        _ => path,
    }
}

/// Rejects a form from another site.
pub(crate) fn require_same_site(headers: &HeaderMap) -> Result<(), ApiError> {
    if is_same_origin(headers) {
        return Ok(());
    }
    let detail = "the form was not sent by a page of this server";
    Err(ApiError::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail)
        .remedy("open the page on this server and send the form again"))
}

pub(crate) async fn read<T: DeserializeOwned, S: Store>(
    request: Request,
    console: &Shared<S>,
) -> Result<Form<T>, ApiError> {
    let read = Form::from_request(request, console).await;
    read.map_err(|_| ApiError::bad_request("the form is invalid"))
}

fn wrong_session() -> ApiError {
    let detail = "the form belongs to another session";
    ApiError::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail)
        .remedy("reload the page and send the form again")
}
