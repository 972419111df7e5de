//! The picture.
//!
//! Places along it are percentages, so that it is as wide as its column while letters and marks keep their size. No
//! style stands in it: the policy of the page refuses that, and the style sheet knows the classes.

use domain::view::step_status;
use domain::{StepStatus, Timestamp};
use maud::{Markup, html};
use views::Seen;
use views::time::{length, moment};
use views::timeline::{Bar, Doing, Mark, MarkKind, Row, Timeline};

use crate::text::visible;

/// The height of a row: a line of text and a bar.
const ROW: usize = 46;
/// Where the bar of a row begins, below its name; and how high it is.
const BAR: usize = 20;
const BAR_HIGH: usize = 16;
/// Room below for the times.
const AXIS: usize = 24;
/// The whole width, in thousandths of a percent; a bar that is shorter than the second is not seen.
const WHOLE: u32 = 100_000;
const SHORTEST: u32 = 600;
/// A mark keeps so much room to either side.
const ASIDE: u32 = 1_000;
/// The parts of the axis.
const TICKS: u32 = 4;

/// The picture of `timeline`, which is that of `look`.
pub(super) fn drawn(look: &Seen, timeline: &Timeline) -> Markup {
    let high = timeline.rows.len() * ROW + AXIS;
    html! {
        svg.timeline width="100%" height=(high) role="group" aria-label="Timeline of the steps" {
            (patterns())
            (grid(timeline, high - AXIS))
            @for (n, row) in timeline.rows.iter().enumerate() {
                @let status = step_status(&look.view.record, &look.view.steps, row.seq);
                svg x="0" y=(n * ROW) width="100%" height=(ROW) { (row_drawn(timeline, row, status)) }
            }
        }
        (legend())
    }
}

/// A share of the width, as an attribute says it.
fn percent(thousandths: u32) -> String {
    format!("{}.{:03}%", thousandths / 1_000, thousandths % 1_000)
}

/// Where a moment stands.
fn place(timeline: &Timeline, at: Timestamp) -> u32 {
    timeline.place(at.max(timeline.from), WHOLE)
}

fn grid(timeline: &Timeline, high: usize) -> Markup {
    let whole = timeline.length().0;
    html! {
        g.axis aria-hidden="true" {
            @for tick in 0..=TICKS {
                @let x = percent(WHOLE * tick / TICKS);
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

fn row_drawn(timeline: &Timeline, row: &Row, status: StepStatus) -> Markup {
    html! {
        text.step x="0" y="14" { (row.step) " " tspan.soft { (status.as_str().replace('_', " ")) } }
        line.base x1="0" x2="100%" y1=(BAR + BAR_HIGH) y2=(BAR + BAR_HIGH) aria-hidden="true" {}
        @for bar in &row.bars { (bar_drawn(timeline, row, bar)) }
        @for mark in &row.marks { (marked(timeline, mark)) }
    }
}

fn bar_drawn(timeline: &Timeline, row: &Row, bar: &Bar) -> Markup {
    let from = place(timeline, bar.from).min(WHOLE - SHORTEST);
    let wide = place(timeline, bar.until).saturating_sub(from).max(SHORTEST);
    let says = visible(&format!("{}: {}", row.step, in_words(bar)), false);
    let (class, pattern) = Look::of(bar).drawn();
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

/// What a bar shows, and for how long it was so.
fn in_words(bar: &Bar) -> String {
    let what = match (Look::of(bar), &bar.worker) {
        (Look::Undo, Some(worker)) => format!("taken back by {worker}"),
        (Look::Vain, Some(worker)) => format!("tried by {worker}, in vain,"),
        (_, Some(worker)) => format!("worked on by {worker}"),
        (_, None) => bar.doing.words().to_owned(),
    };
    format!("{what} for {}, from {}", length(bar.until - bar.from), moment(bar.from))
}

/// How a bar looks.
#[derive(Debug, Clone, Copy)]
enum Look {
    Ready,
    Work,
    Vain,
    Waits,
    Paused,
    Undo,
}

impl Look {
    const ALL: [Self; 6] = [Self::Ready, Self::Work, Self::Vain, Self::Waits, Self::Paused, Self::Undo];

    fn of(bar: &Bar) -> Self {
        match bar.doing {
            Doing::Queued => Self::Ready,
            Doing::Working if bar.vain => Self::Vain,
            Doing::Working if bar.undo => Self::Undo,
            Doing::Working => Self::Work,
            Doing::BackingOff | Doing::AwaitingEvent | Doing::AwaitingPeople => Self::Waits,
            Doing::Paused => Self::Paused,
        }
    }

    /// The class of the bar, and the pattern over it.
    fn drawn(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Ready => ("ready", None),
            Self::Work => ("work", None),
            Self::Vain => ("lost", Some("url(#crossed)")),
            Self::Waits => ("waiting", Some("url(#dotted)")),
            Self::Paused => ("paused", Some("url(#striped)")),
            Self::Undo => ("undo", Some("url(#slanted)")),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Work => "work",
            Self::Vain => "in vain",
            Self::Waits => "waits",
            Self::Paused => "paused",
            Self::Undo => "taken back",
        }
    }
}

fn marked(timeline: &Timeline, mark: &Mark) -> Markup {
    let says = visible(&format!("{}, at {}", mark.text, moment(mark.at)), false);
    let x = percent(place(timeline, mark.at).clamp(ASIDE, WHOLE - ASIDE));
    html! {
        svg.mark x=(x) y=(BAR + BAR_HIGH / 2) {
            g tabindex="0" role="img" aria-label=(says) { title { (says) } (shape(mark.kind)) }
        }
    }
}

fn shape(kind: MarkKind) -> Markup {
    html! {
        @match kind {
            MarkKind::Retry | MarkKind::Failed => { circle.bad r="7" {} path d="M-3,-3 L3,3 M3,-3 L-3,3" {} }
            MarkKind::TakeOver => { path.warns d="M0,-8 L8,6 L-8,6 Z" {} path d="M0,-3 L0,2" {} }
            MarkKind::Yes => { circle.good r="7" {} path d="M-3,0 L-1,3 L4,-3" {} }
            MarkKind::No => { rect.bad x="-7" y="-7" width="14" height="14" {} path d="M-3,0 L3,0" {} }
            MarkKind::Unknown => { path.warns d="M0,-8 L8,0 L0,8 L-8,0 Z" {} path d="M0,-3 L0,1 M0,3 L0,4" {} }
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
    let marks = [
        (MarkKind::Failed, "failed"),
        (MarkKind::TakeOver, "taken over"),
        (MarkKind::Yes, "yes"),
        (MarkKind::No, "no"),
        (MarkKind::Unknown, "unknown"),
    ];
    html! {
        ul.legend aria-label="What the bars and marks mean" {
            @for look in Look::ALL {
                @let (class, pattern) = look.drawn();
                li {
                    svg.timeline width="22" height="14" aria-hidden="true" {
                        rect class=(class) width="22" height="14" rx="2" {}
                        @if let Some(pattern) = pattern { rect width="22" height="14" rx="2" fill=(pattern) {} }
                    }
                    (look.word())
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
