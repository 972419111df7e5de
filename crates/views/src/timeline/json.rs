//! A timeline as a JSON document.

use serde_json::{Value, json};

use super::{Mark, Segment, Timeline, TimelineRow};
use crate::time::rfc3339_millis;

pub fn timeline_json(timeline: &Timeline) -> Value {
    json!({
        "from": rfc3339_millis(timeline.from),
        "until": rfc3339_millis(timeline.until),
        "finished": timeline.finished,
        "steps": timeline.rows.iter().map(row).collect::<Value>(),
    })
}

fn row(row: &TimelineRow) -> Value {
    json!({
        "seq": row.seq,
        "id": row.step,
        "tool": row.tool,
        "segments": row.segments.iter().map(segment).collect::<Value>(),
        "marks": row.marks.iter().map(mark).collect::<Value>(),
    })
}

fn segment(segment: &Segment) -> Value {
    json!({
        "activity": segment.activity,
        "rollback": segment.rollback,
        "from": rfc3339_millis(segment.from),
        "until": rfc3339_millis(segment.until),
        "open": segment.open,
        "failed": segment.failed,
        "worker": segment.worker,
    })
}

fn mark(mark: &Mark) -> Value {
    json!({ "at": rfc3339_millis(mark.at), "kind": mark.kind, "text": mark.text })
}
