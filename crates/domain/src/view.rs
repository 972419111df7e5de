//! Derived views of a run.

use strum::IntoStaticStr;

use crate::id::{StepId, StepSeq};
use crate::key::IdempotencyKey;
use crate::machine::{RunStatus, StepStatus};
use crate::plan::{Plan, Undo};
use crate::record::{RunRecord, StepRecord};

/// The status of the step at `seq`, from its record, or from the state of the current step, or pending.
pub fn step_status(run: &RunRecord, finished: &[StepRecord], seq: StepSeq) -> StepStatus {
    let ended =
        |rollback: bool| finished.iter().find(|record| record.seq == seq && record.rollback == rollback);
    match (ended(true), ended(false)) {
        (Some(undone), _) => undone.status,
        (None, Some(done)) => done.status,
        (None, None) if run.status == RunStatus::Canceled => StepStatus::Canceled,
        (None, None) if seq == run.at && !run.is_rolling_back() => run.step_state.status(),
        // A step after a failed one stays pending.
        (None, None) => StepStatus::Pending,
    }
}

/// One line of a compensation log: an effect and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompensationEntry {
    /// The step.
    pub step: StepId,
    /// The idempotency key of the effect.
    pub key: IdempotencyKey,
    /// The state of the effect.
    pub status: EffectState,
}

/// The state of an effect of a stopped run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum EffectState {
    /// It was undone.
    RolledBack,
    /// It is in effect; the workflow defines a rollback.
    Reversible,
    /// It is in effect, and the workflow defines no rollback.
    InEffect,
}

/// The compensation log of a stopped run: the state of every effect, newest first.
pub fn compensation_log(plan: &Plan, finished: &[StepRecord]) -> Vec<CompensationEntry> {
    let mut done: Vec<_> =
        finished.iter().filter(|record| !record.rollback && record.receipt.is_some()).collect();
    done.sort_by_key(|record| std::cmp::Reverse(record.seq));
    done.into_iter().filter_map(|record| compensation(plan, finished, record)).collect()
}

fn compensation(plan: &Plan, finished: &[StepRecord], record: &StepRecord) -> Option<CompensationEntry> {
    let step = plan.step(record.seq)?;
    let undone = finished.iter().any(|other| other.rollback && other.seq == record.seq);
    let status = match (&step.rollback, undone) {
        (_, true) => EffectState::RolledBack,
        (Some(Undo::Auto | Undo::Call(_)), false) => EffectState::Reversible,
        (None, false) => EffectState::InEffect,
    };
    Some(CompensationEntry { step: step.id.clone(), key: record.receipt.clone()?, status })
}
