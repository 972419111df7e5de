//! What somebody sends by a form.
//!
//! A form is believed if a page of this server sent it, as the browser says, and if it brings the token of the
//! session, which no other page can know.

use api::Problem;
use api::auth::session::is_from_here;
use axum::Form;
use axum::extract::{FromRequest, FromRequestParts as _, Request};
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use store::Store;

use crate::Shared;
use crate::at::Visitor;
use crate::no::No;

/// The name of the field with the token.
pub(crate) const TOKEN: &str = "token";

/// A form that is believed, and who sent it.
pub(crate) struct Sent<S, T> {
    pub(crate) visitor: Visitor<S>,
    pub(crate) form: T,
}

#[derive(Deserialize)]
struct Tokened<T> {
    #[serde(default)]
    token: String,
    #[serde(flatten)]
    form: T,
}

impl<S: Store, T: DeserializeOwned> FromRequest<Shared<S>> for Sent<S, T> {
    type Rejection = No;

    async fn from_request(request: Request, console: &Shared<S>) -> Result<Self, No> {
        must_be_from_here(request.headers())?;
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, console).await.map_err(|no| match no {
            No::LogIn { script: false, .. } => No::Lapsed { page: page_of(parts.uri.path()).to_owned() },
            no => no,
        })?;
        let Form(sent) = read::<Tokened<T>, S>(Request::from_parts(parts, body), console).await?;
        if !visitor.session.is_token(&sent.token) {
            return Err(stale().into());
        }
        Ok(Self { visitor, form: sent.form })
    }
}

/// The page that a form stands on: what is done to a thing is sent to an address below the thing's own.
fn page_of(path: &str) -> &str {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["", "runs", _, _] | ["", "workflows", _, "start"] | ["", "health", _] => {
            path.rsplit_once('/').map_or(path, |(page, _)| page)
        }
        ["", "logout"] => "/",
        _ => path,
    }
}

/// Refuses a form that another page sent.
pub(crate) fn must_be_from_here(headers: &HeaderMap) -> Result<(), Problem> {
    if is_from_here(headers) {
        return Ok(());
    }
    let detail = "the form was not sent by a page of this server";
    Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail)
        .remedy("open the page here and send it again"))
}

/// The fields of a form.
pub(crate) async fn read<T: DeserializeOwned, S: Store>(
    request: Request,
    console: &Shared<S>,
) -> Result<Form<T>, Problem> {
    let read = Form::from_request(request, console).await;
    read.map_err(|_| Problem::bad_request("the form cannot be read"))
}

fn stale() -> Problem {
    let detail = "the form belongs to another session";
    Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail)
        .remedy("open the page again and send it from there")
}
