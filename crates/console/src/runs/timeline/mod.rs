//! The timeline of a run: a row for each step, bars for how its time was spent, and marks for events.
//!
//! [`views::timeline`] computes it, as for the terminal; [`svg`] draws it. Each bar and mark has a text, can be reached
//! with the keyboard, and differs from the others in pattern or shape as well as in color.

mod svg;

use maud::{Markup, html};
use views::RunSnapshot;
use views::timeline::Timeline;

pub(super) fn render(snapshot: &RunSnapshot) -> Markup {
    match Timeline::from_snapshot(snapshot) {
        Ok(timeline) => svg::render(snapshot, &timeline),
        Err(error) => html! {
            div.notice role="alert" {
                p { strong { "The event chain is broken: " (error.to_string()) "." } }
                p { "The timeline is not shown because the events cannot be verified." }
            }
        },
    }
}
