//! Login with an API key or an identity provider. The session stores the id of the key, not the key.

use api::auth::session::SessionOrigin;
use api::{ApiError, random_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use store::Store;

use crate::Shared;
use crate::extract::QueryParams;
use crate::form::{self, SessionForm};
use crate::layout::{self, local_path, query_encoded};
use crate::oidc;
use crate::page_error::{PageError, notice};

#[derive(Default, Deserialize)]
pub(crate) struct LoginQuery {
    #[serde(default)]
    pub(crate) next: String,
}

#[derive(Deserialize)]
struct LoginForm {
    #[serde(default)]
    key: String,
    #[serde(default)]
    next: String,
}

#[derive(Deserialize)]
pub(crate) struct EmptyForm {}

pub(crate) async fn show<S: Store>(
    State(console): State<Shared<S>>,
    QueryParams(query): QueryParams<LoginQuery>,
) -> Html<String> {
    Html(page(&console, &query.next, None).into_string())
}

pub(crate) async fn log_in<S: Store>(
    State(console): State<Shared<S>>,
    request: Request,
) -> Result<Response, PageError> {
    form::require_same_site(request.headers())?;
    let form: LoginForm = form::read(request, &console).await?.0;
    let (caller, key) = match console.authenticator.key_caller(form.key.trim()).await {
        Ok(known) => known,
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED.as_u16() => {
            return Ok(login_page(&console, &form.next, &invalid_key()));
        }
        Err(problem) => return Err(problem.into()),
    };
    tracing::info!(event = "login", tenant = %caller.tenant, person = %caller.person, credential = %key, "user logged in");
    let origin = SessionOrigin::Key(key);
    let cookie = console.sessions.start(&caller.tenant, origin, console.engine.now(), random_bytes()?);
    Ok(with_cookie(Redirect::to(local_path(&form.next)).into_response(), &cookie))
}

pub(crate) async fn log_out<S: Store>(
    State(console): State<Shared<S>>,
    SessionForm { user, form: EmptyForm {} }: SessionForm<S, EmptyForm>,
) -> Response {
    let cookie = console.sessions.end(&user.session, console.engine.now());
    with_cookie(Redirect::to("/login").into_response(), &cookie)
}

pub(crate) fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// The login page with an error.
pub(crate) fn login_page<S: Store>(console: &Shared<S>, next: &str, problem: &ApiError) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Html(page(console, next, Some(problem)).into_string())).into_response()
}

fn invalid_key() -> ApiError {
    let detail = "the API key is not valid";
    ApiError::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail)
        .remedy("it may be mistyped, revoked or expired; ask an admin of your tenant for a new one")
}

fn page<S: Store>(console: &Shared<S>, next: &str, problem: Option<&ApiError>) -> Markup {
    let main = html! {
        div.narrow {
            h1 { "Log in" }
            @if let Some(problem) = problem { (notice(problem)) }
            form.stack method="post" action="/login" {
                input type="hidden" name="next" value=(local_path(next));
                label for="key" { "API key" }
                input #key name="key" type="password" required autocomplete="current-password" spellcheck="false"
                    autofocus aria-describedby="key-hint";
                p #key-hint .soft { "It starts with " code { "csk_" } ". An admin of your tenant can create one for you." }
                button.primary type="submit" { "Log in" }
            }
            @if let Some(login) = &console.login {
                p { a href={ (oidc::START) "?next=" (query_encoded(local_path(next))) } { "Log in with " (login.name()) } }
            }
        }
    };
    layout::page_without_user("Log in", &main)
}
