//! The bars of a run as one JSON document, for programs.

use serde_json::{Value, json};

use super::{Bar, Mark, Row, Timeline};
use crate::time::moment;

/// The bars of a run.
pub fn timeline_json(timeline: &Timeline) -> Value {
    json!({
        "from": moment(timeline.from),
        "until": moment(timeline.until),
        "over": timeline.over,
        "steps": timeline.rows.iter().map(row).collect::<Value>(),
    })
}

fn row(row: &Row) -> Value {
    json!({
        "seq": row.seq,
        "id": row.step,
        "tool": row.tool,
        "bars": row.bars.iter().map(bar).collect::<Value>(),
        "marks": row.marks.iter().map(mark).collect::<Value>(),
    })
}

fn bar(bar: &Bar) -> Value {
    json!({
        "doing": bar.doing.name(),
        "undo": bar.undo,
        "from": moment(bar.from),
        "until": moment(bar.until),
        "open": bar.open,
        "vain": bar.vain,
        "worker": bar.worker,
    })
}

fn mark(mark: &Mark) -> Value {
    json!({ "at": moment(mark.at), "kind": mark.kind.name(), "text": mark.text })
}
