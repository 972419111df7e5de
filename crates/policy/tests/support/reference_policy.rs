//! A second implementation of the default policy, written from the description below and not from the Rego. A mistake
//! in either shows as a difference.
//!
//! - Reads are allowed.
//! - A run at its limit of changes is denied further changes. Rollbacks do not count.
//! - An action with a high blast radius and a destructive action need two approvers in the highest tier, in every
//!   environment.
//! - A recorded inverse is allowed in every environment. A declared rollback is a change.
//! - In production every change needs one approver, in the tier of its blast radius.
//! - In dev and staging, reversible changes are allowed, and changes to values that are already set. Irreversible changes need one approver, in the tier of their
//!   blast radius.
//! - Every other action is denied.

use domain::plan::Environment;
use domain::{
    ActionOrigin, ApprovalRequirement, ApproverCount, BlastRadius, EffectClass, Reversibility, Ruling, Tier,
};

use crate::case::Case;

/// The expected ruling of the default policy.
pub(crate) fn ruling(case: &Case) -> Ruling {
    if case.action.class == EffectClass::ReadOnly {
        return Ruling::Allow;
    }
    if !case.rollback && case.caps.writes_done >= case.caps.writes_max {
        return Ruling::Deny;
    }
    if case.blast_radius == BlastRadius::High || case.action.destructive {
        return people(Tier::High, ApproverCount::Two);
    }
    if case.origin == ActionOrigin::RecordedInverse {
        return Ruling::Allow;
    }
    match (case.environment, &case.action.reversibility) {
        (Environment::Prod, _) | (_, Reversibility::Irreversible(_)) => {
            people(tier(case.blast_radius), ApproverCount::One)
        }
        (
            Environment::Dev | Environment::Staging,
            Reversibility::Inverse | Reversibility::Compensable | Reversibility::NoEffect,
        ) => Ruling::Allow,
    }
}

fn people(tier: Tier, people: ApproverCount) -> Ruling {
    Ruling::NeedsApproval(ApprovalRequirement {
        tier,
        people,
        groups: Vec::new(),
        ..ApprovalRequirement::default()
    })
}

fn tier(blast_radius: BlastRadius) -> Tier {
    match blast_radius {
        BlastRadius::Low => Tier::Low,
        BlastRadius::Medium => Tier::Medium,
        BlastRadius::High => Tier::High,
    }
}
