//! Whether messages pile up, and what was given up.

use axum::response::Html;
use domain::Role;
use engine::Health;
use maud::{Markup, html};
use store::Store;

use crate::at::Visitor;
use crate::layout::{self, Entry, Page, Stream};
use crate::no::No;
use crate::text::when;

pub(crate) async fn show<S: Store>(visitor: Visitor<S>) -> Result<Html<String>, No> {
    visitor.must_be(Role::Operator)?;
    let desk = &visitor.desk;
    let health = desk.health().await?;
    let oldest = desk.open_approvals(None, 1).await?.approvals.into_iter().next();
    let live = html! {
        (lanes(&health))
        section aria-labelledby="waiting" {
            h2 #waiting { "What waits longest" }
            @match &oldest {
                Some(asked) => p {
                    "The oldest open request: " a href={ "/approvals/" (asked.id) } { (asked.workflow) ": " (asked.step) }
                    ", asked " (when(asked.asked_at, desk.now())) "."
                },
                None => p.soft { "Nobody is asked anything." },
            }
            @if health.overdue.is_empty() { p.soft { "No run is overdue." } } @else {
                p { "Overdue: nobody has looked at these in time. Is a worker running?" }
                ul { @for run in &health.overdue { li { a href={ "/runs/" (run.run) } { code { (run.run) } } } } }
            }
        }
        (dead(&health, &visitor))
    };
    let head = html! { h1 { "Health" } };
    let page =
        Page { title: "Health", under: Entry::Health, stream: Stream::Untold, head, live, foot: html! {} };
    Ok(Html(layout::page(&visitor, &page).into_string()))
}

fn lanes(health: &Health) -> Markup {
    html! {
        section aria-labelledby="queues" {
            h2 #queues { "Queues" }
            p.soft { "Messages of the whole fleet." }
            table.cards {
                thead { tr { th scope="col" { "Lane" } th scope="col" { "Nobody has taken" } th scope="col" { "In all" } } }
                tbody { @for lane in &health.lanes { tr {
                    td data-label="Lane" { (lane.lane) }
                    td.number data-label="Nobody has taken" { (lane.waiting) }
                    td.number data-label="In all" { (lane.depth) }
                } } }
            }
        }
    }
}

fn dead<S: Store>(health: &Health, visitor: &Visitor<S>) -> Markup {
    html! {
        section aria-labelledby="dead" {
            h2 #dead { "Dead letters" }
            @if health.dead.is_empty() { p.soft { "None." } } @else {
                p { (health.dead.len()) " given up. Their runs are still looked at when they are due." }
                table.cards {
                    thead { tr { th scope="col" { "Run" } th scope="col" { "Lane" } th scope="col" { "Delivered" } th scope="col" { "Given up" } } }
                    tbody { @for letter in &health.dead { tr {
                        td data-label="Run" { a href={ "/runs/" (letter.run.run) } { code { (letter.run.run) } } }
                        td data-label="Lane" { (letter.lane) }
                        td.number data-label="Delivered" { (letter.receives) " times" }
                        td data-label="Given up" { (when(letter.at, visitor.desk.now())) }
                    } } }
                }
            }
        }
    }
}
