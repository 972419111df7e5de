//! Draws the timeline as SVG.
//!
//! Horizontal positions are percentages, so that it fills its column while text and marks keep their size. It has no
//! inline style, which the content security policy forbids; the style sheet has the classes.

use domain::view::step_status;
use domain::{StepStatus, Timestamp};
use maud::{Markup, html};
use views::RunSnapshot;
use views::time::{duration, timestamp};
use views::timeline::{Activity, Mark, MarkKind, Segment, Timeline, TimelineRow};

use crate::text::visible;

/// The height of a row: a line of text and a bar.
const ROW: usize = 46;
/// The offset of the bar below the top of its row, and its height.
const BAR: usize = 20;
const BAR_HIGH: usize = 16;
/// The height of the axis labels.
const AXIS: usize = 24;
/// The whole width in thousandths of a percent, and the minimum width of a visible bar.
const FULL_WIDTH: u32 = 100_000;
const BAR_WIDTH_MIN: u32 = 600;
/// The distance of a mark from both ends.
const MARK_MARGIN: u32 = 1_000;
const TICKS: u32 = 4;

pub(super) fn render(snapshot: &RunSnapshot, timeline: &Timeline) -> Markup {
    let high = timeline.rows.len() * ROW + AXIS;
    html! {
        svg.timeline width="100%" height=(high) role="group" aria-label="Timeline of the steps" {
            (patterns())
            (grid(timeline, high - AXIS))
            @for (n, row) in timeline.rows.iter().enumerate() {
                @let status = step_status(&snapshot.view.record, &snapshot.view.steps, row.seq);
                svg x="0" y=(n * ROW) width="100%" height=(ROW) { (row_markup(timeline, row, status)) }
            }
        }
        (legend())
    }
}

/// A width as an SVG attribute.
fn percent(thousandths: u32) -> String {
    format!("{}.{:03}%", thousandths / 1_000, thousandths % 1_000)
}

fn position(timeline: &Timeline, at: Timestamp) -> u32 {
    timeline.position(at.max(timeline.from), FULL_WIDTH)
}

fn grid(timeline: &Timeline, high: usize) -> Markup {
    let whole = timeline.length().0;
    html! {
        g.axis aria-hidden="true" {
            @for tick in 0..=TICKS {
                @let x = percent(FULL_WIDTH * tick / TICKS);
                line x1=(x) x2=(x) y1="0" y2=(high) {}
                text x=(x) y=(high + 16) text-anchor=(anchor(tick)) {
                    (duration(domain::Millis(whole * u64::from(tick) / u64::from(TICKS))))
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

fn row_markup(timeline: &Timeline, row: &TimelineRow, status: StepStatus) -> Markup {
    html! {
        text.step x="0" y="14" { (row.step) " " tspan.soft { (status.as_str().replace('_', " ")) } }
        line.base x1="0" x2="100%" y1=(BAR + BAR_HIGH) y2=(BAR + BAR_HIGH) aria-hidden="true" {}
        @for bar in &row.segments { (bar_markup(timeline, row, bar)) }
        @for mark in &row.marks { (mark_markup(timeline, mark)) }
    }
}

fn bar_markup(timeline: &Timeline, row: &TimelineRow, bar: &Segment) -> Markup {
    let from = position(timeline, bar.from).min(FULL_WIDTH - BAR_WIDTH_MIN);
    let width = position(timeline, bar.until).saturating_sub(from).max(BAR_WIDTH_MIN);
    let text = visible(&format!("{}: {}", row.step, describe(bar)), false);
    let (class, pattern) = BarStyle::of(bar).class();
    html! {
        g.bar tabindex="0" role="img" aria-label=(text) {
            title { (text) }
            rect class=(class) x=(percent(from)) y=(BAR) width=(percent(width)) height=(BAR_HIGH) rx="2" {}
            @if let Some(pattern) = pattern {
                rect x=(percent(from)) y=(BAR) width=(percent(width)) height=(BAR_HIGH) rx="2" fill=(pattern) {}
            }
        }
    }
}

/// The text of a bar.
fn describe(bar: &Segment) -> String {
    let activity = match (BarStyle::of(bar), &bar.worker) {
        (BarStyle::Rollback, Some(worker)) => format!("rolled back by {worker}"),
        (BarStyle::FailedAttempt, Some(worker)) => format!("failed attempt by {worker}"),
        (_, Some(worker)) => format!("executed by {worker}"),
        (_, None) => bar.activity.label().to_owned(),
    };
    format!("{activity} for {}, from {}", duration(bar.until - bar.from), timestamp(bar.from))
}

#[derive(Debug, Clone, Copy)]
enum BarStyle {
    Queued,
    Executing,
    FailedAttempt,
    Waiting,
    Paused,
    Rollback,
}

impl BarStyle {
    const ALL: [Self; 6] =
        [Self::Queued, Self::Executing, Self::FailedAttempt, Self::Waiting, Self::Paused, Self::Rollback];

    fn of(bar: &Segment) -> Self {
        match bar.activity {
            Activity::Queued => Self::Queued,
            Activity::Working if bar.failed => Self::FailedAttempt,
            Activity::Working if bar.rollback => Self::Rollback,
            Activity::Working => Self::Executing,
            Activity::BackingOff | Activity::AwaitingEvent | Activity::AwaitingApproval => Self::Waiting,
            Activity::Paused => Self::Paused,
        }
    }

    /// The class of the bar, and the pattern over it.
    fn class(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Queued => ("ready", None),
            Self::Executing => ("work", None),
            Self::FailedAttempt => ("failed", Some("url(#crossed)")),
            Self::Waiting => ("waiting", Some("url(#dotted)")),
            Self::Paused => ("paused", Some("url(#striped)")),
            Self::Rollback => ("undo", Some("url(#slanted)")),
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Executing => "executing",
            Self::FailedAttempt => "failed attempt",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Rollback => "rolled back",
        }
    }
}

fn mark_markup(timeline: &Timeline, mark: &Mark) -> Markup {
    let text = visible(&format!("{}, at {}", mark.text, timestamp(mark.at)), false);
    let x = percent(position(timeline, mark.at).clamp(MARK_MARGIN, FULL_WIDTH - MARK_MARGIN));
    html! {
        svg.mark x=(x) y=(BAR + BAR_HIGH / 2) {
            g tabindex="0" role="img" aria-label=(text) { title { (text) } (shape(mark.kind)) }
        }
    }
}

fn shape(kind: MarkKind) -> Markup {
    html! {
        @match kind {
            MarkKind::Retry | MarkKind::Failed => { circle.bad r="7" {} path d="M-3,-3 L3,3 M3,-3 L-3,3" {} }
            MarkKind::TakeOver => { path.warns d="M0,-8 L8,6 L-8,6 Z" {} path d="M0,-3 L0,2" {} }
            MarkKind::Approved => { circle.good r="7" {} path d="M-3,0 L-1,3 L4,-3" {} }
            MarkKind::Rejected => { rect.bad x="-7" y="-7" width="14" height="14" {} path d="M-3,0 L3,0" {} }
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
        (MarkKind::TakeOver, "take-over"),
        (MarkKind::Approved, "approved"),
        (MarkKind::Rejected, "rejected"),
        (MarkKind::Unknown, "outcome unknown"),
    ];
    html! {
        ul.legend aria-label="Legend" {
            @for style in BarStyle::ALL {
                @let (class, pattern) = style.class();
                li {
                    svg.timeline width="22" height="14" aria-hidden="true" {
                        rect class=(class) width="22" height="14" rx="2" {}
                        @if let Some(pattern) = pattern { rect width="22" height="14" rx="2" fill=(pattern) {} }
                    }
                    (style.label())
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
