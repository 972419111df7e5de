//! Draws a timeline with characters.

use super::{Activity, MarkKind, Segment, Timeline, TimelineRow};
use crate::table::wrapped;
use crate::time::{duration, timestamp};

/// The maximum width of a step name; the bars need the rest.
const NAME_MAX: usize = 24;

/// Fewer columns are not readable.
const BARS_MIN: usize = 10;

/// `59m 59s`: the width of the column for the duration of a step.
const DURATION_WIDTH: usize = 8;

/// The characters of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartStyle {
    Unicode,
    Ascii,
}

impl ChartStyle {
    fn segment(self, segment: &Segment) -> char {
        let (unicode, ascii) = match segment.activity {
            Activity::Working if segment.rollback => ('◀', '<'),
            Activity::Working => ('█', '#'),
            Activity::Queued => ('·', '.'),
            Activity::BackingOff => ('░', '-'),
            Activity::AwaitingEvent => ('▒', '~'),
            Activity::AwaitingApproval => ('▓', '='),
            Activity::Paused => ('‖', '|'),
        };
        self.choose(unicode, ascii)
    }

    fn mark(self, kind: MarkKind) -> char {
        let (unicode, ascii) = match kind {
            MarkKind::Retry => ('↻', 'r'),
            MarkKind::TakeOver => ('⇄', 't'),
            MarkKind::Unknown => ('?', '?'),
            MarkKind::Failed => ('✗', 'x'),
            MarkKind::Approved => ('✓', 'a'),
            MarkKind::Rejected => ('✕', 'd'),
        };
        self.choose(unicode, ascii)
    }

    fn open(self) -> char {
        self.choose('▶', '>')
    }

    fn edge(self) -> char {
        self.choose('│', '|')
    }

    fn choose(self, unicode: char, ascii: char) -> char {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
        }
    }
}

/// Draws the timeline in lines of at most `width` columns, with a legend. Ends with a line feed.
pub fn chart(timeline: &Timeline, width: usize, style: ChartStyle) -> String {
    let name = timeline.rows.iter().map(|row| row.step.chars().count()).max().unwrap_or(0).min(NAME_MAX);
    let cells = width.saturating_sub(name + DURATION_WIDTH + 4).max(BARS_MIN);
    let rows: String = timeline.rows.iter().map(|row| line(timeline, row, (name, cells), style)).collect();
    format!("{}{rows}\n{}", scale(timeline, (name, cells)), wrapped(&legend(timeline, style), width))
}

/// The start and the duration of the run, above the bars.
fn scale(timeline: &Timeline, (name, cells): (usize, usize)) -> String {
    let start = timestamp(timeline.from);
    let took = duration(timeline.length());
    let took = if timeline.finished { took } else { format!("{took} until now") };
    // A narrow chart is widened rather than cut.
    let gap = cells.saturating_sub(start.chars().count()).max(took.chars().count() + 1);
    format!("{:name$}  {start}{took:>gap$}\n", "")
}

fn line(timeline: &Timeline, row: &TimelineRow, (name, cells): (usize, usize), style: ChartStyle) -> String {
    let step: String = row.step.chars().take(name).collect();
    let took = if row.segments.is_empty() { String::new() } else { duration(row.length()) };
    let edge = style.edge();
    let bars: String = draw_cells(timeline, row, cells, style).into_iter().collect();
    format!("{step:<name$} {edge}{bars}{edge} {took}").trim_end().to_owned() + "\n"
}

fn draw_cells(timeline: &Timeline, row: &TimelineRow, cells: usize, style: ChartStyle) -> Vec<char> {
    let mut chars = vec![' '; cells];
    let whole = u32::try_from(cells).unwrap_or(u32::MAX);
    let last = cells.saturating_sub(1);
    let cell = |at| (timeline.position(at, whole) as usize).min(last);
    // Waits first, so that work in the same cell covers them.
    for wait in [true, false] {
        for segment in row.segments.iter().filter(|segment| segment.activity.is_a_wait() == wait) {
            let from = cell(segment.from);
            // Even a short segment takes one cell.
            let until =
                (timeline.position(segment.until, whole) as usize).clamp(from + 1, cells.max(from + 1));
            chars[from..until].fill(style.segment(segment));
        }
    }
    if row.segments.iter().any(|segment| segment.open) {
        chars[last] = style.open();
    }
    for mark in &row.marks {
        chars[cell(mark.at)] = style.mark(mark.kind);
    }
    chars
}

/// The meaning of the characters in the chart.
fn legend(timeline: &Timeline, style: ChartStyle) -> String {
    let mut entries: Vec<String> = Vec::new();
    let mut add = |character: char, words: &str| {
        let entry = format!("{character} {words}");
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    };
    for segment in timeline.rows.iter().flat_map(|row| &row.segments) {
        let rollback = segment.rollback && segment.activity == Activity::Working;
        add(style.segment(segment), if rollback { "rollback" } else { segment.activity.label() });
    }
    for mark in timeline.rows.iter().flat_map(|row| &row.marks) {
        add(style.mark(mark.kind), mark.kind.label());
    }
    if !timeline.finished {
        add(style.open(), "in progress");
    }
    entries.join(", ")
}
