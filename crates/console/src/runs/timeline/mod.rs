//! A run as a picture: a row for each step, bars for what its time was spent on, marks for what befell it.
//!
//! What was when is read by [`views::timeline`], as for a terminal; [`svg`] draws it. Each bar and each mark says in
//! words what it shows, can be reached with the keyboard, and is told from the others by its pattern or shape as well
//! as by its colour.

mod svg;

use maud::{Markup, html};
use views::Seen;
use views::timeline::Timeline;

/// The picture of a run.
pub(super) fn drawn(look: &Seen) -> Markup {
    match Timeline::of(look) {
        Ok(timeline) => svg::drawn(look, &timeline),
        Err(fault) => html! {
            div.notice role="alert" {
                p { strong { "The chain of events is broken: " (fault.to_string()) "." } }
                p { "What happened is not shown, because nothing proves it." }
            }
        },
    }
}
