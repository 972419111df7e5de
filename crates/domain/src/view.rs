//! What a person is shown of a run.

use crate::id::{StepId, StepSeq};
use crate::key::IdempotencyKey;
use crate::machine::{RunStatus, StepStatus};
use crate::plan::{Plan, Undo};
use crate::record::{RunRecord, StepRecord};

/// The status of the step at `seq`: its finished record, the live state, or pending, as the pointer says.
pub fn step_status(run: &RunRecord, finished: &[StepRecord], seq: StepSeq) -> StepStatus {
    let ended = |undo: bool| finished.iter().find(|record| record.seq == seq && record.undo == undo);
    match (ended(true), ended(false)) {
        (Some(undone), _) => undone.status,
        (None, Some(done)) => done.status,
        (None, None) if run.status == RunStatus::Canceled => StepStatus::Canceled,
        (None, None) if seq == run.at && !run.is_undoing() => run.live.status(),
        // A step after one that failed stays pending for ever: it was never tried, and nobody stopped it.
        (None, None) => StepStatus::Pending,
    }
}

/// One line of a compensation log: an effect, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compensation {
    /// Which step had the effect.
    pub step: StepId,
    /// The effect's key.
    pub key: IdempotencyKey,
    /// What became of it.
    pub status: EffectStatus,
}

/// What became of an effect of a run that was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectStatus {
    /// It was taken back.
    RolledBack,
    /// It stands; the workflow says how it could be taken back.
    Reversible,
    /// It stands, and the workflow does not say how to take it back.
    InEffect,
}

/// What became of every effect of a run, newest first: the compensation log of a stopped run.
pub fn compensation_log(plan: &Plan, finished: &[StepRecord]) -> Vec<Compensation> {
    let mut done: Vec<_> =
        finished.iter().filter(|record| !record.undo && record.receipt.is_some()).collect();
    done.sort_by_key(|record| std::cmp::Reverse(record.seq));
    done.into_iter().filter_map(|record| compensation(plan, finished, record)).collect()
}

fn compensation(plan: &Plan, finished: &[StepRecord], record: &StepRecord) -> Option<Compensation> {
    let step = plan.step(record.seq)?;
    let undone = finished.iter().any(|other| other.undo && other.seq == record.seq);
    let status = match (&step.rollback, undone) {
        (_, true) => EffectStatus::RolledBack,
        (Some(Undo::Auto | Undo::Call(_)), false) => EffectStatus::Reversible,
        (None, false) => EffectStatus::InEffect,
    };
    Some(Compensation { step: step.id.clone(), key: record.receipt.clone()?, status })
}
