//! What became of the effects of a run that did not succeed.

use domain::{IdempotencyKey, RunStatus, StepId, view};
use serde::{Deserialize, Serialize};

use super::{Bundle, Outcome};

/// An effect, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compensation {
    /// Which step had it.
    pub step: StepId,
    /// Its key.
    pub key: IdempotencyKey,
    /// What became of it.
    pub status: EffectStatus,
}

/// What became of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectStatus {
    /// It was taken back.
    RolledBack,
    /// It stands; the workflow says how it could be taken back.
    Reversible,
    /// It stands, and the workflow does not say how to take it back.
    InEffect,
}

impl EffectStatus {
    /// The status as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RolledBack => "rolled_back",
            Self::Reversible => "reversible",
            Self::InEffect => "in_effect",
        }
    }
}

impl From<view::Compensation> for Compensation {
    fn from(line: view::Compensation) -> Self {
        let status = match line.status {
            view::EffectStatus::RolledBack => EffectStatus::RolledBack,
            view::EffectStatus::Reversible => EffectStatus::Reversible,
            view::EffectStatus::InEffect => EffectStatus::InEffect,
        };
        Self { step: line.step, key: line.key, status }
    }
}

/// The compensation log as it follows from the rest of the bundle, which holds no plan.
pub(crate) fn log_of(bundle: &Bundle) -> Vec<Compensation> {
    if bundle.run.status == RunStatus::Succeeded {
        return Vec::new();
    }
    let newest_first = bundle.outcomes.iter().rev().filter(|outcome| !outcome.undo);
    newest_first.filter_map(|outcome| line(bundle, outcome)).collect()
}

fn line(bundle: &Bundle, outcome: &Outcome) -> Option<Compensation> {
    let step = bundle.step(outcome.seq)?;
    let undone = bundle.outcomes.iter().any(|other| other.undo && other.seq == outcome.seq);
    let status = match (undone, step.rollback) {
        (true, _) => EffectStatus::RolledBack,
        (false, true) => EffectStatus::Reversible,
        (false, false) => EffectStatus::InEffect,
    };
    Some(Compensation { step: step.id.clone(), key: outcome.receipt.clone()?, status })
}
