//! The list of administrative changes, newest first, filtered by kind.

use api::ApiError;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use domain::Role;
use domain::audit::AdminChange;
use domain::audit_chain::{AuditHead, AuditRecord};
use engine::AuditQuery;
use maud::{Markup, html};
use serde::Deserialize;
use store::{AuditPage, Store};

use crate::extract::SessionUser;
use crate::layout::{self, MenuItem, Page, Stream, query_encoded};
use crate::page_error::{PageError, notice};
use crate::text::{InlineText, relative_time};
use crate::{Shared, paging};

/// Two screens.
const ROWS_MAX: u32 = 50;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Filter {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    before: String,
}

impl Filter {
    /// The kind; `None` for all. An unknown kind is an error, because ignoring it would show all changes.
    fn kind(&self) -> Result<Option<String>, ApiError> {
        match self.kind.trim() {
            "" => Ok(None),
            kind if AdminChange::KINDS.contains(&kind) => Ok(Some(kind.to_owned())),
            _ => Err(ApiError::bad_request("the kind of change is unknown").remedy("choose one of the list")),
        }
    }
}

pub(crate) async fn list<S: Store>(
    State(console): State<Shared<S>>,
    user: SessionUser<S>,
    query: Result<Query<Filter>, QueryRejection>,
) -> Result<Response, PageError> {
    user.require_role(Role::Admin)?;
    let invalid = query.as_ref().err().map(|rejection| ApiError::bad_request(rejection.body_text()));
    let filter = query.map(|Query(filter)| filter).unwrap_or_default();
    let list = paging::list(&console, &user, "console-audit", filter.kind.clone());
    let read = || {
        let (kind, after) = (filter.kind()?, paging::open_cursor(&list, &filter.before)?);
        Ok(AuditQuery { after, limit: ROWS_MAX, kind })
    };
    let head = user.handle.audit_head().await?;
    let (found, error) = match invalid.map_or_else(read, Err) {
        Ok(query) => (user.handle.audit(query).await?, None),
        Err(problem) => (AuditPage { entries: Vec::new(), next: None }, Some(problem)),
    };
    let next = found.next.as_ref().map(|next| {
        format!("/audit?kind={}&before={}", query_encoded(&filter.kind), list.encode_cursor(next))
    });
    let live = html! {
        @if let Some(problem) = &error { (notice(problem)) }
        @else if found.entries.is_empty() && next.is_some() { p.soft { "No match among the newest changes." } }
        @else if found.entries.is_empty() { p.soft { "No administrative changes." } }
        @else { (table(&user, &found.entries)) }
        @if let Some(next) = &next { p.pages { a href=(next) rel="next" { "Older changes" } } }
    };
    let page = Page {
        title: "Audit log",
        menu_item: MenuItem::Audit,
        stream: Stream::None,
        head: html! { h1 { "Audit log" } (summary(&head)) (filters(&filter)) },
        live,
        foot: html! {},
    };
    let status = error.and_then(|problem| StatusCode::from_u16(problem.status).ok());
    let page = Html(layout::page(&user, &page).into_string());
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
}

fn summary(head: &AuditHead) -> Markup {
    html! {
        p.soft {
            "Entries: " (head.sequence) ". Each entry has the hash of the one before it. Newest hash: "
            code { (head.hash.short()) } ". Verify the log with " code { "countersign audit verify" } "."
        }
    }
}

fn filters(filter: &Filter) -> Markup {
    html! {
        form.filters method="get" action="/audit" role="search" aria-label="Audit log" {
            div {
                label for="kind" { "Change" }
                select #kind name="kind" {
                    option value="" { "any" }
                    @for kind in AdminChange::KINDS {
                        option value=(kind) selected[filter.kind.trim() == kind] { (kind.replace('_', " ")) }
                    }
                }
            }
            button type="submit" { "Filter" }
        }
    }
}

fn table<S: Store>(user: &SessionUser<S>, records: &[AuditRecord]) -> Markup {
    html! {
        table.cards {
            thead { tr {
                th scope="col" { "Entry" } th scope="col" { "Time" } th scope="col" { "User" }
                th scope="col" { "Credential" } th scope="col" { "Change" } th scope="col" { "Hash" }
            } }
            tbody { @for record in records { (row(user, record)) } }
        }
    }
}

fn row<S: Store>(user: &SessionUser<S>, record: &AuditRecord) -> Markup {
    let entry = record.entry();
    html! {
        tr {
            td.number data-label="Entry" { (record.sequence) }
            @match &entry {
                Ok(entry) => {
                    td data-label="Time" { (relative_time(entry.at, user.handle.now())) }
                    td data-label="User" { (InlineText(&entry.by.id)) }
                    td data-label="Credential" {
                        @if let Some(credential) = entry.by.context.get("credential") { code { (InlineText(credential)) } }
                    }
                    td.long data-label="Change" { (InlineText(&entry.change.to_string())) }
                },
                // It stays listed: a newer program wrote it, or it was altered, which a verification shows.
                Err(_) => {
                    td data-label="Time" {} td data-label="User" {} td data-label="Credential" {}
                    td.long data-label="Change" { "This program cannot read the entry." }
                },
            }
            td data-label="Hash" { code { (record.hash.short()) } }
        }
    }
}
