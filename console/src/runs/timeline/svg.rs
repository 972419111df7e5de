//! The picture.
//!
//! Places along it are percentages, so that it is as wide as its column while letters and marks keep their size. No
//! style stands in it: the policy of the page refuses that, and the style sheet knows the classes.

use domain::Timestamp;
use maud::{Markup, html};
use telling::time::length;

use super::spans::{Befell, Mark, Row, Span, Spent, Timeline};
use crate::text::visible;

/// The height of a row: a line of text and a bar.
const ROW: usize = 46;
/// Where the bar of a row begins, below its name; and how high it is.
const BAR: usize = 20;
const BAR_HIGH: usize = 16;
/// Room below for the times.
const AXIS: usize = 24;
/// A bar that is shorter than this is not seen.
const SHORTEST: f64 = 0.6;
/// The parts of the axis.
const TICKS: u32 = 4;

/// The picture of `timeline`.
pub(super) fn drawn(timeline: &Timeline) -> Markup {
    let high = timeline.rows.len() * ROW + AXIS;
    html! {
        svg.timeline width="100%" height=(high) role="group" aria-label="Timeline of the steps" {
            (patterns())
            (grid(timeline, high - AXIS))
            @for (n, row) in timeline.rows.iter().enumerate() {
                svg x="0" y=(n * ROW) width="100%" height=(ROW) { (row_drawn(timeline, row)) }
            }
        }
        (legend())
    }
}

/// Where a moment stands, in percent of the width.
#[expect(clippy::cast_precision_loss, reason = "a picture is not that precise")]
fn place(timeline: &Timeline, at: Timestamp) -> f64 {
    let whole = (timeline.until - timeline.from).0.max(1) as f64;
    let part = (at.max(timeline.from).min(timeline.until) - timeline.from).0 as f64;
    part * 100.0 / whole
}

fn percent(number: f64) -> String {
    format!("{number:.3}%")
}

fn grid(timeline: &Timeline, high: usize) -> Markup {
    let whole = (timeline.until - timeline.from).0;
    html! {
        g.axis aria-hidden="true" {
            @for tick in 0..=TICKS {
                @let x = percent(f64::from(tick) * 100.0 / f64::from(TICKS));
                line x1=(x) x2=(x) y1="0" y2=(high) {}
                text x=(x) y=(high + 16) text-anchor=(anchor(tick)) {
                    (length(domain::Millis(whole * u64::from(tick) / u64::from(TICKS))))
                }
            }
        }
    }
}

fn anchor(tick: u32) -> &'static str {
    match tick {
        0 => "start",
        TICKS => "end",
        _ => "middle",
    }
}

fn row_drawn(timeline: &Timeline, row: &Row) -> Markup {
    html! {
        text.step x="0" y="14" { (row.step) " " tspan.soft { (row.status.as_str().replace('_', " ")) } }
        line.base x1="0" x2="100%" y1=(BAR + BAR_HIGH) y2=(BAR + BAR_HIGH) aria-hidden="true" {}
        @for span in &row.spans { (bar(timeline, row, span)) }
        @for mark in &row.marks { (marked(timeline, row, mark)) }
    }
}

fn bar(timeline: &Timeline, row: &Row, span: &Span) -> Markup {
    let from = place(timeline, span.from).min(100.0 - SHORTEST);
    let wide = (place(timeline, span.until) - from).max(SHORTEST);
    let says = visible(&format!("{}: {}", row.step, span.says), false);
    let (class, pattern) = look(span.spent);
    html! {
        g.bar tabindex="0" role="img" aria-label=(says) {
            title { (says) }
            rect class=(class) x=(percent(from)) y=(BAR) width=(percent(wide)) height=(BAR_HIGH) rx="2" {}
            @if let Some(pattern) = pattern {
                rect x=(percent(from)) y=(BAR) width=(percent(wide)) height=(BAR_HIGH) rx="2" fill=(pattern) {}
            }
        }
    }
}

/// The class of a bar, and the pattern over it.
fn look(spent: Spent) -> (&'static str, Option<&'static str>) {
    match spent {
        Spent::Ready => ("ready", None),
        Spent::Work => ("work", None),
        Spent::Lost => ("lost", Some("url(#crossed)")),
        Spent::Waiting => ("waiting", Some("url(#dotted)")),
        Spent::Paused => ("paused", Some("url(#striped)")),
        Spent::Undo => ("undo", Some("url(#slanted)")),
    }
}

fn marked(timeline: &Timeline, row: &Row, mark: &Mark) -> Markup {
    let says = visible(&format!("{}: {}", row.step, mark.says), false);
    let x = percent(place(timeline, mark.at).clamp(1.0, 99.0));
    html! {
        svg.mark x=(x) y=(BAR + BAR_HIGH / 2) {
            g tabindex="0" role="img" aria-label=(says) { title { (says) } (shape(mark.kind)) }
        }
    }
}

fn shape(kind: Befell) -> Markup {
    html! {
        @match kind {
            Befell::Failed => { circle.bad r="7" {} path d="M-3,-3 L3,3 M3,-3 L-3,3" {} }
            Befell::TakenOver => { path.warns d="M0,-8 L8,6 L-8,6 Z" {} path d="M0,-3 L0,2" {} }
            Befell::Yes => { circle.good r="7" {} path d="M-3,0 L-1,3 L4,-3" {} }
            Befell::No => { rect.bad x="-7" y="-7" width="14" height="14" {} path d="M-3,0 L3,0" {} }
            Befell::Unknown => { path.warns d="M0,-8 L8,0 L0,8 L-8,0 Z" {} path d="M0,-3 L0,1 M0,3 L0,4" {} }
        }
    }
}

fn patterns() -> Markup {
    html! {
        defs {
            pattern id="crossed" width="8" height="8" patternUnits="userSpaceOnUse" { path.ink d="M0,0 L8,8 M8,0 L0,8" {} }
            pattern id="dotted" width="6" height="6" patternUnits="userSpaceOnUse" { circle.dot cx="3" cy="3" r="1.2" {} }
            pattern id="striped" width="6" height="6" patternUnits="userSpaceOnUse" { path.ink d="M3,0 L3,6" {} }
            pattern id="slanted" width="8" height="8" patternUnits="userSpaceOnUse" { path.ink d="M0,8 L8,0" {} }
        }
    }
}

fn legend() -> Markup {
    let bars = [
        (Spent::Ready, "ready"),
        (Spent::Work, "work"),
        (Spent::Lost, "in vain"),
        (Spent::Waiting, "waits"),
        (Spent::Paused, "paused"),
        (Spent::Undo, "taken back"),
    ];
    let marks = [
        (Befell::Failed, "failed"),
        (Befell::TakenOver, "taken over"),
        (Befell::Yes, "yes"),
        (Befell::No, "no"),
        (Befell::Unknown, "unknown"),
    ];
    html! {
        ul.legend aria-label="What the bars and marks mean" {
            @for (spent, word) in bars {
                @let (class, pattern) = look(spent);
                li {
                    svg.timeline width="22" height="14" aria-hidden="true" {
                        rect class=(class) width="22" height="14" rx="2" {}
                        @if let Some(pattern) = pattern { rect width="22" height="14" rx="2" fill=(pattern) {} }
                    }
                    (word)
                }
            }
            @for (kind, word) in marks {
                li {
                    svg.timeline width="20" height="18" viewBox="-10 -9 20 18" aria-hidden="true" { g.mark { (shape(kind)) } }
                    (word)
                }
            }
        }
    }
}
