//! A run as a picture: a row for each step, bars for what its time was spent on, marks for what befell it.
//!
//! [`spans`] reads the chain and says what was when; [`svg`] draws it. Each bar and each mark says in words what it
//! shows, can be reached with the keyboard, and is told from the others by its pattern or shape as well as by its
//! colour.

mod spans;
mod svg;

use maud::{Markup, html};
use telling::Seen;

use spans::Timeline;

/// The picture of a run.
pub(super) fn drawn(look: &Seen) -> Markup {
    match &look.view.events {
        Ok(events) => svg::drawn(&Timeline::of(look, events)),
        Err(fault) => html! {
            div.notice role="alert" {
                p { strong { "The chain of events is broken: " (fault.to_string()) "." } }
                p { "What happened is not shown, because nothing proves it." }
            }
        },
    }
}
