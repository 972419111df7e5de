//! The list of workflows.

use axum::response::Html;
use maud::html;
use store::Store;

use super::trigger;
use crate::extract::SessionUser;
use crate::layout::{self, MenuItem, Page, Stream};
use crate::page_error::PageError;
use crate::text::{InlineText, relative_time};

pub(crate) async fn list<S: Store>(user: SessionUser<S>) -> Result<Html<String>, PageError> {
    let applied = user.handle.workflows().await?;
    let now = user.handle.now();
    let live = html! {
        @if applied.is_empty() {
            p.soft { "No workflows applied. Apply one with " code { "countersign workflow apply FILE" } "." }
        } @else {
            table.cards {
                thead { tr {
                    th scope="col" { "Workflow" } th scope="col" { "Version" } th scope="col" { "Trigger" }
                    th scope="col" { "Applied" } th scope="col" { "Applied by" }
                } }
                tbody { @for workflow in &applied { tr {
                    td data-label="Workflow" { a href={ "/workflows/" (workflow.workflow) } { (workflow.workflow) } }
                    td.number data-label="Version" { (workflow.version) }
                    td data-label="Trigger" { (trigger(workflow)) }
                    td data-label="Applied" { (relative_time(workflow.at, now)) }
                    td data-label="Applied by" { (InlineText(&workflow.by.id)) }
                } } }
            }
        }
    };
    let head = html! { h1 { "Workflows" } };
    let page = Page {
        title: "Workflows",
        menu_item: MenuItem::Workflows,
        stream: Stream::None,
        head,
        live,
        foot: html! {},
    };
    Ok(Html(layout::page(&user, &page).into_string()))
}
