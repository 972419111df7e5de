//! Login with an identity provider. A link starts it, because the content security policy restricts forms to this
//! server.

use api::auth::login::{CallbackQuery, Login};
use api::auth::session::SessionOrigin;
use api::random_bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use store::Store;

use crate::Shared;
use crate::extract::QueryParams;
use crate::layout::{self, local_path};
use crate::login::{LoginQuery, login_page, with_cookie};
use crate::page_error::PageError;

pub(crate) const START: &str = "/login/oidc";

pub(crate) async fn start<S: Store>(
    State(console): State<Shared<S>>,
    QueryParams(query): QueryParams<LoginQuery>,
) -> Result<Response, PageError> {
    let Some(login) = &console.login else { return Err(PageError::page_not_found()) };
    let next = local_path(&query.next);
    Ok(match login.start(&console.sessions, next, console.engine.now(), random_bytes()?).await {
        Ok(started) => with_cookie(Redirect::to(started.to.as_str()).into_response(), &started.cookie),
        Err(problem) => login_page(&console, next, &problem),
    })
}

/// Finishes the login. The cookie of the login is removed in any case.
pub(crate) async fn finish<S: Store>(
    State(console): State<Shared<S>>,
    headers: HeaderMap,
    QueryParams(callback): QueryParams<CallbackQuery>,
) -> Result<Response, PageError> {
    let Some(login) = &console.login else { return Err(PageError::page_not_found()) };
    let now = console.engine.now();
    let response = match login.finish(&console.sessions, &headers, &callback, now).await {
        Ok(logged_in) => {
            let (tenant, person) = (&logged_in.tenant, &logged_in.claims.person);
            tracing::info!(event = "login", %tenant, %person, credential = logged_in.claims.credential, "user logged in");
            let cookie = console.sessions.start(
                &logged_in.tenant,
                SessionOrigin::Token(logged_in.claims),
                now,
                random_bytes()?,
            );
            // The navigation comes from another site: with a direct redirect the browser would not send the session cookie.
            with_cookie(Html(layout::redirect_page(&logged_in.next).into_string()).into_response(), &cookie)
        }
        Err(problem) => login_page(&console, "/", &problem),
    };
    Ok(with_cookie(response, &Login::forget(&console.sessions)))
}
