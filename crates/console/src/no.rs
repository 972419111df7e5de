//! A no, as a page.
//!
//! What belongs to another tenant, what there is not and what cannot be a name at all are the same page, byte for
//! byte: nothing of the request and nothing of whoever asks stands on it. Of a run of their own tenant that was not
//! started, the page says what has become of what came in to start it.

use api::Problem;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use engine::EngineError;
use maud::{Markup, html};

use crate::layout;
use crate::text::Seen;

/// Why there is no page.
#[derive(Debug)]
pub(crate) enum No {
    /// Nobody knows who asks.
    LogIn {
        /// Where they wanted to go.
        next: String,
        /// Whether a script asks, for a part of a page.
        script: bool,
    },
    /// Nobody knows who sends a form any more, and nothing was done.
    Lapsed {
        /// The page that it stands on.
        page: String,
    },
    /// A page elsewhere led here, and the browser keeps the session back until a page of ours does.
    Bounce {
        /// Where to.
        to: String,
    },
    /// Anything else.
    Told(Problem),
}

impl No {
    /// There is no such page.
    pub(crate) fn page() -> Self {
        Self::Told(Problem::not_found("page"))
    }

    /// There is no such thing, or it is another tenant's.
    pub(crate) fn such(what: &'static str) -> Self {
        Self::Told(Problem::not_found(what))
    }
}

impl From<Problem> for No {
    fn from(problem: Problem) -> Self {
        Self::Told(problem)
    }
}

impl From<EngineError> for No {
    fn from(error: EngineError) -> Self {
        Self::Told(error.into())
    }
}

impl IntoResponse for No {
    fn into_response(self) -> Response {
        match self {
            Self::LogIn { next, script: false } => {
                let next: String = layout::encoded(&next);
                Redirect::to(&format!("/login?next={next}")).into_response()
            }
            Self::LogIn { script: true, .. } => {
                let login = [("hx-redirect", HeaderValue::from_static("/login"))];
                (StatusCode::UNAUTHORIZED, login).into_response()
            }
            Self::Lapsed { page } => lapsed(&page),
            Self::Bounce { to } => Html(layout::bounce(&to).into_string()).into_response(),
            Self::Told(problem) => told(&problem),
        }
    }
}

fn lapsed(page: &str) -> Response {
    let problem =
        Problem::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", "your login has ended; nothing was done")
            .remedy("log in again, and send it once more");
    let main = html! {
        h1 { "Not done" }
        (notice(&problem))
        p { a href={ "/login?next=" (layout::encoded(page)) } { "Log in" } }
    };
    (StatusCode::UNAUTHORIZED, Html(layout::bare("Not done", &main).into_string())).into_response()
}

fn told(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::UNAUTHORIZED => "Log in first",
        StatusCode::SERVICE_UNAVAILABLE => "Try again",
        _ => "That was not done",
    };
    let page = layout::bare(title, &body(title, problem));
    let mut response = (status, Html(page.into_string())).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
    }
    response
}

fn body(title: &str, problem: &Problem) -> Markup {
    html! {
        h1 { (title) }
        (notice(problem))
        p { a href="/runs" { "All runs" } }
    }
}

/// What is wrong and what to do about it, on any page.
pub(crate) fn notice(problem: &Problem) -> Markup {
    html! {
        div.notice role="alert" {
            p { strong { (Seen(&sentence(&problem.detail))) } }
            @if !problem.remedy.is_empty() { p { (Seen(&sentence(problem.remedy))) } }
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

pub(crate) async fn no_page() -> No {
    No::page()
}

#[cfg(test)]
mod tests {
    use domain::{InboxStatus, RunKey, Timestamp};

    use super::*;

    #[test]
    fn of_a_run_that_was_not_started_the_page_says_why() {
        let run = RunKey { tenant: "acme".parse().unwrap(), run: "run-1".parse().unwrap() };
        let problem =
            Problem::from(EngineError::NotBegun { run, status: InboxStatus::Unmatched { at: Timestamp(0) } });
        let page = body("Not found", &problem).into_string();
        assert!(page.contains("no workflow wanted what came in"), "{page}");
        assert!(page.contains("Put a workflow to use"), "{page}");
    }
}
