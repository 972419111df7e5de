//! Who must say yes, who has, and who may not; and what came of it.

use domain::{Approval, ApprovalStatus, Vote};

use super::words;
use crate::escape::{self, Bound};

/// The names of groups and people; a demand that names more is read in the console.
const NAMES_UNITS_MAX: usize = 300;

/// What one person said.
const REASON_UNITS_MAX: usize = 200;

/// Two yeses, or a yes and a no; more are only counted.
const VOTES_MAX: usize = 3;

/// Who must say yes.
pub(super) fn wanted(approval: &Approval) -> String {
    let demand = &approval.demand;
    let groups: Vec<_> = demand.groups.iter().map(domain::GroupName::as_str).collect();
    let whom = if groups.is_empty() { String::new() } else { format!(" of {}", names(&groups.join(" or "))) };
    let mut lines = vec![
        format!(
            "Who must say yes\n{}{whom}. Tier {}.",
            words::people(demand.people),
            words::tier(demand.tier)
        ),
        words::on_reject(approval.on_reject).to_owned(),
    ];
    lines.extend(said_yes(approval));
    lines.extend(excluded(approval));
    lines.join("\n")
}

fn names(names: &str) -> String {
    escape::line(names, Bound::plain(NAMES_UNITS_MAX))
}

fn said_yes(approval: &Approval) -> Option<String> {
    let yes: Vec<_> = approval.approvers().map(domain::PersonId::as_str).collect();
    let missing = match approval.missing() {
        0 => String::new(),
        missing if approval.is_open() => format!("; {missing} more needed"),
        _ => String::new(),
    };
    (!yes.is_empty()).then(|| format!("Said yes: {}{missing}", names(&yes.join(", "))))
}

fn excluded(approval: &Approval) -> Option<String> {
    let requester = approval.requester.as_ref().map(|person| format!("{person} (asked for the run)"));
    let author = approval.author.as_ref().map(|person| format!("{person} (wrote the workflow)"));
    let who: Vec<_> = requester.into_iter().chain(author).collect();
    (!who.is_empty()).then(|| format!("May not answer: {}", names(&who.join(", "))))
}

/// What came of it: who decided what, and when.
pub(super) fn outcome(approval: &Approval) -> String {
    let mut lines = vec![match approval.status {
        ApprovalStatus::Requested => "People are asked.".to_owned(),
        ApprovalStatus::Approved => "Approved.".to_owned(),
        ApprovalStatus::Rejected => "Rejected.".to_owned(),
        ApprovalStatus::Expired => {
            format!("Expired: nobody decided before {}. Nothing was done.", words::utc(approval.expires_at))
        }
        ApprovalStatus::Canceled => {
            "Withdrawn: the run stopped, or what was asked about has changed. Nothing is approved.".to_owned()
        }
    }];
    lines.extend(approval.votes.iter().rev().take(VOTES_MAX).rev().map(vote));
    if let Some(used) = &approval.consumed {
        lines.push(format!("Used at {}.", words::utc(used.at)));
    }
    lines.join("\n")
}

fn vote(vote: &Vote) -> String {
    let said = if vote.approve { "approved" } else { "rejected" };
    let line = format!("{} {said} at {}", vote.person, words::utc(vote.at));
    match escape::line(&vote.reason, Bound::plain(REASON_UNITS_MAX)) {
        reason if reason.is_empty() => line,
        reason => format!("{line}: {reason}"),
    }
}
