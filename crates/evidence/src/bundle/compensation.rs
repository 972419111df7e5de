//! The status of the effects of a run that did not succeed.

use domain::{IdempotencyKey, RunStatus, StepId, view};
use serde::{Deserialize, Serialize};
use strum::Display;

use super::{EvidenceBundle, StepOutcome};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compensation {
    pub step: StepId,
    pub key: IdempotencyKey,
    pub status: EffectStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EffectStatus {
    RolledBack,
    /// Still in effect; the workflow defines a rollback.
    Reversible,
    /// Still in effect; the workflow defines no rollback.
    InEffect,
}

impl From<view::CompensationEntry> for Compensation {
    fn from(entry: view::CompensationEntry) -> Self {
        let status = match entry.status {
            view::EffectState::RolledBack => EffectStatus::RolledBack,
            view::EffectState::Reversible => EffectStatus::Reversible,
            view::EffectState::InEffect => EffectStatus::InEffect,
        };
        Self { step: entry.step, key: entry.key, status }
    }
}

/// Derives the compensation log from the other parts of the bundle, which does not contain the plan.
pub(crate) fn compensation_log(bundle: &EvidenceBundle) -> Vec<Compensation> {
    if bundle.run.status == RunStatus::Succeeded {
        return Vec::new();
    }
    let newest_first = bundle.outcomes.iter().rev().filter(|outcome| !outcome.rollback);
    newest_first.filter_map(|outcome| compensation(bundle, outcome)).collect()
}

fn compensation(bundle: &EvidenceBundle, outcome: &StepOutcome) -> Option<Compensation> {
    let step = bundle.step(outcome.seq)?;
    let undone = bundle.outcomes.iter().any(|other| other.rollback && other.seq == outcome.seq);
    let status = match (undone, step.rollback) {
        (true, _) => EffectStatus::RolledBack,
        (false, true) => EffectStatus::Reversible,
        (false, false) => EffectStatus::InEffect,
    };
    Some(Compensation { step: step.id.clone(), key: outcome.receipt.clone()?, status })
}
