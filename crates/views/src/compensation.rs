//! The effects of a run that was canceled or is rolling back.

use domain::RunStatus;
use domain::view::{CompensationEntry, compensation_log};
use engine::RunView;

use crate::json::{CompensationDocument, RunDocument};
use crate::table::table;

fn has_compensation(view: &RunView) -> bool {
    matches!(view.record.status, RunStatus::Canceled | RunStatus::RollingBack)
}

/// One line for each effect, newest first, and one for effects with an unknown outcome; empty if the run is neither
/// canceled nor rolling back.
pub(super) fn text(run: &RunDocument) -> String {
    let Some(log) = &run.compensation else { return String::new() };
    let rows: Vec<_> = log
        .iter()
        .map(|line| [line.step.to_string(), status_text(&line.status), line.key.to_string()])
        .collect();
    let known =
        if rows.is_empty() { "no effects\n".to_owned() } else { table(["STEP", "EFFECT", "KEY"], &rows) };
    match run.effects.unknown {
        0 => known,
        1 => format!("{known}1 effect has an unknown outcome\n"),
        many => format!("{known}{many} effects have an unknown outcome\n"),
    }
}

pub(super) fn document(view: &RunView) -> Option<Vec<CompensationDocument>> {
    let line = |line: CompensationEntry| CompensationDocument {
        step: line.step,
        key: line.key,
        status: <&str>::from(line.status).to_owned(),
    };
    has_compensation(view).then(|| compensation_log(view.plan(), &view.steps).into_iter().map(line).collect())
}

/// A status in words. A status of a newer server is shown unchanged.
fn status_text(status: &str) -> String {
    let words = match status {
        "rolled_back" => "rolled back",
        "reversible" => "still in place; the workflow defines a rollback for it",
        "in_effect" => "still in place; the workflow defines no rollback for it",
        other => other,
    };
    words.to_owned()
}
