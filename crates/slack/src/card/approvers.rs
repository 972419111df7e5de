//! Who must approve, who has approved, who cannot; and the outcome.

use domain::verdict::RequiredAssurance;
use domain::{Approval, ApprovalStatus, Vote};

use super::text;
use crate::escape::{self, TextLimit};

/// Names of groups and users; the console shows the complete list.
const NAMES_UNITS_MAX: usize = 300;

/// The reason of one decision.
const REASON_UNITS_MAX: usize = 200;

/// Two approvals, or an approval and a rejection.
const VOTES_MAX: usize = 3;

/// Who must approve.
pub(super) fn required(approval: &Approval) -> String {
    let requirement = &approval.requirement;
    let groups: Vec<_> = requirement.groups.iter().map(domain::GroupName::as_str).collect();
    let whom =
        if groups.is_empty() { String::new() } else { format!(" from {}", names(&groups.join(" or "))) };
    let mut lines = vec![
        format!(
            "Approval required from\n{}{whom}. Risk tier: {}.",
            text::people(requirement.people),
            text::tier(requirement.tier)
        ),
        text::on_reject(approval.on_reject).to_owned(),
    ];
    if requirement.assurance == RequiredAssurance::IdentityProvider {
        lines.push("Approvers must sign in to the console through the identity provider.".to_owned());
    }
    lines.extend(approved_by(approval));
    lines.extend(excluded(approval));
    lines.join("\n")
}

fn names(names: &str) -> String {
    escape::line(names, TextLimit::plain(NAMES_UNITS_MAX))
}

fn approved_by(approval: &Approval) -> Option<String> {
    let approvers: Vec<_> = approval.approvers().map(domain::PersonId::as_str).collect();
    let missing = match approval.missing() {
        0 => String::new(),
        missing if approval.is_open() => format!("; {missing} more needed"),
        _ => String::new(),
    };
    (!approvers.is_empty()).then(|| format!("Approved by: {}{missing}", names(&approvers.join(", "))))
}

fn excluded(approval: &Approval) -> Option<String> {
    let who: Vec<_> = approval
        .excluded
        .each()
        .map(|participant| format!("{} ({})", participant.person, text::participation(participant.role)))
        .collect();
    (!who.is_empty()).then(|| format!("Cannot approve: {}", names(&who.join(", "))))
}

/// Who decided what, and when.
pub(super) fn outcome(approval: &Approval) -> String {
    let mut lines = vec![match approval.status {
        ApprovalStatus::Requested => "Approval is pending.".to_owned(),
        ApprovalStatus::Approved => "Approved.".to_owned(),
        ApprovalStatus::Rejected => "Rejected.".to_owned(),
        ApprovalStatus::Expired => {
            format!("Expired: not decided before {}. Nothing was done.", text::utc(approval.expires_at))
        }
        ApprovalStatus::Canceled => {
            "Withdrawn: the run stopped, or the proposed action changed. Nothing is approved.".to_owned()
        }
    }];
    lines.extend(approval.votes.iter().rev().take(VOTES_MAX).rev().map(vote));
    if let Some(used) = &approval.consumed {
        lines.push(format!("Used at {}.", text::utc(used.at)));
    }
    lines.join("\n")
}

fn vote(vote: &Vote) -> String {
    let decision = if vote.approve { "approved" } else { "rejected" };
    let line = format!("{} {decision} at {}", vote.person, text::utc(vote.at));
    match escape::line(&vote.reason, TextLimit::plain(REASON_UNITS_MAX)) {
        reason if reason.is_empty() => line,
        reason => format!("{line}: {reason}"),
    }
}
