//! The bars of a run, drawn with characters.

use super::{Bar, Doing, MarkKind, Row, Timeline};
use crate::table::wrapped;
use crate::time::{length, moment};

/// A step's name takes at most this many columns; the bars need the rest.
const NAME_MAX: usize = 24;

/// Fewer columns than this tell nothing.
const BARS_MIN: usize = 10;

/// `  2 h 59 min`: the column for how long a step took.
const LENGTH_WIDTH: usize = 12;

/// With which characters it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strokes {
    /// Blocks and shades.
    Shaded,
    /// ASCII alone.
    Plain,
}

impl Strokes {
    fn bar(self, bar: &Bar) -> char {
        let (shaded, plain) = match bar.doing {
            Doing::Working if bar.undo => ('◀', '<'),
            Doing::Working => ('█', '#'),
            Doing::Queued => ('·', '.'),
            Doing::BackingOff => ('░', '-'),
            Doing::AwaitingEvent => ('▒', '~'),
            Doing::AwaitingPeople => ('▓', '='),
            Doing::Paused => ('‖', '|'),
        };
        self.one(shaded, plain)
    }

    fn mark(self, kind: MarkKind) -> char {
        let (shaded, plain) = match kind {
            MarkKind::Retry => ('↻', 'r'),
            MarkKind::TakeOver => ('⇄', 't'),
            MarkKind::Unknown => ('?', '?'),
            MarkKind::Failed => ('✗', 'x'),
            MarkKind::Yes => ('✓', 'y'),
            MarkKind::No => ('✕', 'n'),
        };
        self.one(shaded, plain)
    }

    fn open(self) -> char {
        self.one('▶', '>')
    }

    fn edge(self) -> char {
        self.one('│', '|')
    }

    fn one(self, shaded: char, plain: char) -> char {
        match self {
            Self::Shaded => shaded,
            Self::Plain => plain,
        }
    }
}

/// The bars in lines of at most `width` columns, with what the characters mean below. Ends with a line feed.
pub fn chart(timeline: &Timeline, width: usize, strokes: Strokes) -> String {
    let name = timeline.rows.iter().map(|row| row.step.chars().count()).max().unwrap_or(0).min(NAME_MAX);
    let cells = width.saturating_sub(name + LENGTH_WIDTH + 4).max(BARS_MIN);
    let rows: String = timeline.rows.iter().map(|row| line(timeline, row, (name, cells), strokes)).collect();
    format!("{}{rows}\n{}", scale(timeline, (name, cells)), wrapped(&legend(timeline, strokes), width))
}

/// When it began, and how long it took, over the bars.
fn scale(timeline: &Timeline, (name, cells): (usize, usize)) -> String {
    let began = moment(timeline.from);
    let took = length(timeline.length());
    let took = if timeline.over { took } else { format!("{took} until now") };
    // Where there is no room for both, each still tells what it tells.
    let gap = cells.saturating_sub(began.chars().count()).max(took.chars().count() + 1);
    format!("{:name$}  {began}{took:>gap$}\n", "")
}

fn line(timeline: &Timeline, row: &Row, (name, cells): (usize, usize), strokes: Strokes) -> String {
    let step: String = row.step.chars().take(name).collect();
    let took = if row.bars.is_empty() { String::new() } else { length(row.length()) };
    let edge = strokes.edge();
    let bars: String = drawn(timeline, row, cells, strokes).into_iter().collect();
    format!("{step:<name$} {edge}{bars}{edge} {took}").trim_end().to_owned() + "\n"
}

fn drawn(timeline: &Timeline, row: &Row, cells: usize, strokes: Strokes) -> Vec<char> {
    let mut drawn = vec![' '; cells];
    let whole = u32::try_from(cells).unwrap_or(u32::MAX);
    let last = cells.saturating_sub(1);
    let cell = |at| (timeline.place(at, whole) as usize).min(last);
    // Waits first: where both fall into one cell, the work is what is looked for.
    for wait in [true, false] {
        for bar in row.bars.iter().filter(|bar| bar.doing.is_a_wait() == wait) {
            let from = cell(bar.from);
            // However short, it is seen.
            let until = (timeline.place(bar.until, whole) as usize).clamp(from + 1, cells.max(from + 1));
            drawn[from..until].fill(strokes.bar(bar));
        }
    }
    if row.bars.iter().any(|bar| bar.open) {
        drawn[last] = strokes.open();
    }
    for mark in &row.marks {
        drawn[cell(mark.at)] = strokes.mark(mark.kind);
    }
    drawn
}

/// What those characters mean that are there.
fn legend(timeline: &Timeline, strokes: Strokes) -> String {
    let mut told: Vec<String> = Vec::new();
    let mut tell = |stroke: char, words: &str| {
        let entry = format!("{stroke} {words}");
        if !told.contains(&entry) {
            told.push(entry);
        }
    };
    for bar in timeline.rows.iter().flat_map(|row| &row.bars) {
        let back = bar.undo && bar.doing == Doing::Working;
        tell(strokes.bar(bar), if back { "taken back" } else { bar.doing.words() });
    }
    for mark in timeline.rows.iter().flat_map(|row| &row.marks) {
        tell(strokes.mark(mark.kind), mark.kind.words());
    }
    if !timeline.over {
        tell(strokes.open(), "goes on");
    }
    told.join(", ")
}
