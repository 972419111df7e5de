//! Logging in, with an API key or, where there is one, an identity provider. The key itself is not kept: the session
//! names it.

use api::auth::session::Begun;
use api::{Problem, chance};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use store::Store;

use crate::Shared;
use crate::at::Wish;
use crate::form::{self, Sent};
use crate::layout::{self, encoded, inside};
use crate::no::{No, notice};
use crate::oidc;

#[derive(Default, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    pub(crate) next: String,
}

#[derive(Deserialize)]
struct Shown {
    #[serde(default)]
    key: String,
    #[serde(default)]
    next: String,
}

#[derive(Deserialize)]
pub(crate) struct Nothing {}

pub(crate) async fn show<S: Store>(
    State(console): State<Shared<S>>,
    Wish(wanted): Wish<Wanted>,
) -> Html<String> {
    Html(page(&console, &wanted.next, None).into_string())
}

pub(crate) async fn log_in<S: Store>(
    State(console): State<Shared<S>>,
    request: Request,
) -> Result<Response, No> {
    form::must_be_from_here(request.headers())?;
    let shown: Shown = form::read(request, &console).await?.0;
    let (caller, key) = match console.gate.owner(shown.key.trim()).await {
        Ok(known) => known,
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED.as_u16() => {
            return Ok(again(&console, &shown.next, &refused()));
        }
        Err(problem) => return Err(problem.into()),
    };
    tracing::info!(tenant = %caller.tenant, person = %caller.person, key = %key, "somebody logged in");
    let begun = Begun::Key(key);
    let cookie = console.sessions.begin(&caller.tenant, begun, console.engine.now(), chance()?);
    Ok(with_cookie(Redirect::to(inside(&shown.next)).into_response(), &cookie))
}

pub(crate) async fn log_out<S: Store>(
    State(console): State<Shared<S>>,
    Sent { visitor, form: Nothing {} }: Sent<S, Nothing>,
) -> Response {
    let cookie = console.sessions.end(&visitor.session, console.engine.now());
    with_cookie(Redirect::to("/login").into_response(), &cookie)
}

/// The same answer, with one more cookie.
pub(crate) fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// The page once more, with why nobody was let in.
pub(crate) fn again<S: Store>(console: &Shared<S>, next: &str, problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Html(page(console, next, Some(problem)).into_string())).into_response()
}

fn refused() -> Problem {
    let detail = "this key opens nothing here";
    Problem::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail)
        .remedy("it may be mistyped, taken back or over; an admin of the tenant can give you another")
}

fn page<S: Store>(console: &Shared<S>, next: &str, problem: Option<&Problem>) -> Markup {
    let main = html! {
        div.narrow {
            h1 { "Log in" }
            @if let Some(problem) = problem { (notice(problem)) }
            form.stack method="post" action="/login" {
                input type="hidden" name="next" value=(inside(next));
                label for="key" { "API key" }
                input #key name="key" type="password" required autocomplete="current-password" spellcheck="false"
                    autofocus aria-describedby="key-hint";
                p #key-hint .soft { "It begins with " code { "csk_" } ". An admin of your tenant makes one for you." }
                button.primary type="submit" { "Log in" }
            }
            @if let Some(login) = &console.login {
                p { a href={ (oidc::START) "?next=" (encoded(inside(next))) } { "Log in with " (login.name()) } }
            }
        }
    };
    layout::bare("Log in", &main)
}
