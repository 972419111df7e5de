//! The workflows in use.

use axum::response::Html;
use maud::html;
use store::Store;

use super::started_by;
use crate::at::Visitor;
use crate::layout::{self, Entry, Page, Stream};
use crate::no::No;
use crate::text::{Seen, when};

pub(crate) async fn list<S: Store>(visitor: Visitor<S>) -> Result<Html<String>, No> {
    let applied = visitor.handle.workflows().await?;
    let now = visitor.handle.now();
    let live = html! {
        @if applied.is_empty() {
            p.soft { "None is in use yet. " code { "countersign workflow apply FILE" } " puts one to use." }
        } @else {
            table.cards {
                thead { tr {
                    th scope="col" { "Workflow" } th scope="col" { "Version" } th scope="col" { "Started by" }
                    th scope="col" { "In use since" } th scope="col" { "Put to use by" }
                } }
                tbody { @for workflow in &applied { tr {
                    td data-label="Workflow" { a href={ "/workflows/" (workflow.workflow) } { (workflow.workflow) } }
                    td.number data-label="Version" { (workflow.version) }
                    td data-label="Started by" { (started_by(workflow)) }
                    td data-label="In use since" { (when(workflow.at, now)) }
                    td data-label="Put to use by" { (Seen(&workflow.by.id)) }
                } } }
            }
        }
    };
    let head = html! { h1 { "Workflows" } };
    let page = Page {
        title: "Workflows",
        under: Entry::Workflows,
        stream: Stream::None,
        head,
        live,
        foot: html! {},
    };
    Ok(Html(layout::page(&visitor, &page).into_string()))
}
