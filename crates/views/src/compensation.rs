//! What became of the effects of a run that was stopped.

use domain::RunStatus;
use domain::view::{Compensation, EffectStatus, compensation_log};
use engine::RunView;

use crate::json::{CompensationDocument, RunDocument};
use crate::table::table;

/// Whether the question arises: the run was stopped, or is being taken back.
fn arises(view: &RunView) -> bool {
    matches!(view.record.status, RunStatus::Canceled | RunStatus::RollingBack)
}

/// One line for each effect, newest first, and one for those nobody can account for; empty where the
/// question does not arise.
pub(super) fn text(run: &RunDocument) -> String {
    let Some(log) = &run.compensation else { return String::new() };
    let rows: Vec<_> =
        log.iter().map(|line| [line.step.to_string(), words(&line.status), line.key.to_string()]).collect();
    let known = if rows.is_empty() {
        "no effect is known to stand\n".to_owned()
    } else {
        table(["STEP", "EFFECT", "KEY"], &rows)
    };
    match run.effects.unknown {
        0 => known,
        1 => format!("{known}1 effect was given up on; nobody knows whether it happened\n"),
        many => format!("{known}{many} effects were given up on; nobody knows whether they happened\n"),
    }
}

pub(super) fn document(view: &RunView) -> Option<Vec<CompensationDocument>> {
    let line = |line: Compensation| CompensationDocument {
        step: line.step,
        key: line.key,
        status: name(line.status).to_owned(),
    };
    arises(view).then(|| compensation_log(view.plan(), &view.steps).into_iter().map(line).collect())
}

/// A status in words; one that a newer server tells of, as it tells it.
fn words(status: &str) -> String {
    let told = match status {
        "rolled_back" => "was taken back",
        "reversible" => "stands; the workflow says how to take it back",
        "in_effect" => "stands; the workflow does not say how to take it back",
        other => other,
    };
    told.to_owned()
}

fn name(status: EffectStatus) -> &'static str {
    match status {
        EffectStatus::RolledBack => "rolled_back",
        EffectStatus::Reversible => "reversible",
        EffectStatus::InEffect => "in_effect",
    }
}
