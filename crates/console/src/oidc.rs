//! Logging in with an identity provider. It is begun by a link: forms go nowhere but here.

use api::auth::login::{Login, Returned};
use api::auth::session::Begun;
use api::chance;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use store::Store;

use crate::Shared;
use crate::at::Wish;
use crate::layout::{self, inside};
use crate::login::{Wanted, again, with_cookie};
use crate::no::No;

/// Where it begins.
pub(crate) const START: &str = "/login/oidc";

pub(crate) async fn start<S: Store>(
    State(console): State<Shared<S>>,
    Wish(wanted): Wish<Wanted>,
) -> Result<Response, No> {
    let Some(login) = &console.login else { return Err(No::page()) };
    let next = inside(&wanted.next);
    Ok(match login.start(&console.sessions, next, console.engine.now(), chance()?).await {
        Ok(started) => with_cookie(Redirect::to(started.to.as_str()).into_response(), &started.cookie),
        Err(problem) => again(&console, next, &problem),
    })
}

/// Whatever comes of it, the browser forgets that it was under way.
pub(crate) async fn finish<S: Store>(
    State(console): State<Shared<S>>,
    headers: HeaderMap,
    Wish(returned): Wish<Returned>,
) -> Result<Response, No> {
    let Some(login) = &console.login else { return Err(No::page()) };
    let now = console.engine.now();
    let answer = match login.finish(&console.sessions, &headers, &returned, now).await {
        Ok(entered) => {
            let (tenant, person) = (&entered.tenant, &entered.word.person);
            tracing::info!(%tenant, %person, credential = entered.word.credential, "somebody logged in");
            let cookie = console.sessions.begin(&entered.tenant, Begun::Token(entered.word), now, chance()?);
            // A page elsewhere led here, so the browser would keep the session back from wherever we led it at once.
            with_cookie(Html(layout::bounce(&entered.next).into_string()).into_response(), &cookie)
        }
        Err(problem) => again(&console, "/", &problem),
    };
    Ok(with_cookie(answer, &Login::forget(&console.sessions)))
}
