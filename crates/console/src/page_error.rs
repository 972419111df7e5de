//! Error pages.
//!
//! An object of another tenant, an unknown object and an invalid name get the same page, byte for byte: it contains
//! nothing of the request or the user. For a run of the user's tenant that was not started, the page shows the status of
//! its inbox entry.

use api::ApiError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use engine::EngineError;
use maud::{Markup, html};

use crate::layout;
use crate::text::InlineText;

#[derive(Debug)]
pub(crate) enum PageError {
    LoginRequired {
        /// Where to go after the login.
        next: String,
        /// Whether a script requests a part of a page.
        script: bool,
    },
    /// A form was sent without a valid session; it has no effect.
    SessionExpired {
        /// The page of the form.
        page: String,
    },
    /// A navigation from another site, without the `SameSite` cookie. It is repeated from a page of this server.
    RedirectPage {
        to: String,
    },
    Api(ApiError),
}

impl PageError {
    pub(crate) fn page_not_found() -> Self {
        Self::Api(ApiError::not_found("page"))
    }

    /// The object is unknown, or belongs to another tenant.
    pub(crate) fn not_found(what: &'static str) -> Self {
        Self::Api(ApiError::not_found(what))
    }
}

impl From<ApiError> for PageError {
    fn from(problem: ApiError) -> Self {
        Self::Api(problem)
    }
}

impl From<EngineError> for PageError {
    fn from(error: EngineError) -> Self {
        Self::Api(error.into())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        match self {
            Self::LoginRequired { next, script: false } => {
                let next: String = layout::query_encoded(&next);
                Redirect::to(&format!("/login?next={next}")).into_response()
            }
            Self::LoginRequired { script: true, .. } => {
                let login = [("hx-redirect", HeaderValue::from_static("/login"))];
                (StatusCode::UNAUTHORIZED, login).into_response()
            }
            Self::SessionExpired { page } => session_expired(&page),
            Self::RedirectPage { to } => Html(layout::redirect_page(&to).into_string()).into_response(),
            Self::Api(problem) => error_page(&problem),
        }
    }
}

fn session_expired(page: &str) -> Response {
    let problem = ApiError::new(
        StatusCode::UNAUTHORIZED,
        "UNAUTHENTICATED",
        "your session has expired; nothing was changed",
    )
    .remedy("log in and send the form again");
    let main = html! {
        h1 { "Session expired" }
        (notice(&problem))
        p { a href={ "/login?next=" (layout::query_encoded(page)) } { "Log in" } }
    };
    (StatusCode::UNAUTHORIZED, Html(layout::page_without_user("Session expired", &main).into_string()))
        .into_response()
}

fn error_page(problem: &ApiError) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::UNAUTHORIZED => "Log in",
        StatusCode::SERVICE_UNAVAILABLE => "Try again",
        _ => "Request failed",
    };
    let page = layout::page_without_user(title, &body(title, problem));
    let mut response = (status, Html(page.into_string())).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
    }
    response
}

fn body(title: &str, problem: &ApiError) -> Markup {
    html! {
        h1 { (title) }
        (notice(problem))
        p { a href="/runs" { "All runs" } }
    }
}

/// An error and its remedy, on any page.
pub(crate) fn notice(problem: &ApiError) -> Markup {
    html! {
        div.notice role="alert" {
            p { strong { (InlineText(&sentence(&problem.detail))) } }
            @if !problem.remedy.is_empty() { p { (InlineText(&sentence(problem.remedy))) } }
            p.soft { code { (problem.code) } }
        }
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

pub(crate) async fn not_found_page() -> PageError {
    PageError::page_not_found()
}

#[cfg(test)]
mod tests {
    use domain::{InboxStatus, RunKey, Timestamp};

    use super::*;

    #[test]
    fn page_of_an_unstarted_run_shows_the_reason() {
        let run = RunKey { tenant: "acme".parse().unwrap(), run: "run-1".parse().unwrap() };
        let problem = ApiError::from(EngineError::NotStarted {
            run,
            status: InboxStatus::Unmatched { at: Timestamp(0) },
        });
        let page = body("Not found", &problem).into_string();
        assert!(page.contains("no workflow matched the event"), "{page}");
        assert!(page.contains("Apply a workflow"), "{page}");
    }
}
