//! A second implementation of the default policy, written from the description below and not from the Rego. A mistake
//! in either shows as a difference.
//!
//! - No rule matches read-only actions.
//! - A run at its limit of changes is denied further changes. Undo actions do not count.
//! - An action with a high blast radius and a destructive action need two approvers in the highest tier, in every
//!   environment.
//! - In production every change needs one approver, in the tier of its blast radius. An undo action needs one approver
//!   too, unless it is the recorded inverse, which is allowed.
//! - In dev and staging, reversible changes and undo actions are allowed. Irreversible changes need one approver, in the
//!   tier of their blast radius.
//! - Every other action is denied.

use domain::plan::Environment;
use domain::{ApprovalRequirement, ApproverCount, BlastRadius, EffectClass, Reversibility, Ruling, Tier};

use crate::case::Case;

/// The expected ruling of the default policy.
pub(crate) fn ruling(case: &Case) -> Ruling {
    if case.action.class == EffectClass::ReadOnly {
        return Ruling::Deny;
    }
    if !case.undo && case.caps.writes_done >= case.caps.writes_max {
        return Ruling::Deny;
    }
    if case.blast_radius == BlastRadius::High || case.action.destructive {
        return people(Tier::High, ApproverCount::Two);
    }
    match (case.undo, case.environment, &case.action.reversibility) {
        (true, Environment::Dev | Environment::Staging, _)
        | (true, Environment::Prod, Reversibility::Inverse)
        | (
            false,
            Environment::Dev | Environment::Staging,
            Reversibility::Inverse | Reversibility::Compensable,
        ) => Ruling::Allow,
        (_, Environment::Prod, _)
        | (false, Environment::Dev | Environment::Staging, Reversibility::Irreversible(_)) => {
            people(tier(case.blast_radius), ApproverCount::One)
        }
        (false, Environment::Dev | Environment::Staging, Reversibility::NoEffect) => Ruling::Deny,
    }
}

fn people(tier: Tier, people: ApproverCount) -> Ruling {
    Ruling::NeedsApproval(ApprovalRequirement { tier, people, groups: Vec::new() })
}

fn tier(blast_radius: BlastRadius) -> Tier {
    match blast_radius {
        BlastRadius::Low => Tier::Low,
        BlastRadius::Medium => Tier::Medium,
        BlastRadius::High => Tier::High,
    }
}
