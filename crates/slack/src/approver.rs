//! Maps a click to the domain's command.
//!
//! Slack identifies the user and the workspace; the tenant's directory maps them to a tenant user. The domain decides
//! whether that user may approve: see [`domain::command::RecordVote`].

use domain::command::RecordVote;
use domain::{Approval, PersonId, Tenant};

use crate::interaction::Click;

/// Why a Slack user has no tenant user. All variants have the same message, so it reveals nothing about the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnknownSlackUser {
    /// The click names a run of another tenant.
    #[error("your Slack user is not registered here; ask an administrator to add it")]
    OtherTenant,
    /// No tenant user belongs to the click's workspace.
    #[error("your Slack user is not registered here; ask an administrator to add it")]
    OtherWorkspace,
    /// The workspace is known, but not this user.
    #[error("your Slack user is not registered here; ask an administrator to add it")]
    UnknownUser,
}

/// Why a click does not count as a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidClick {
    #[error(transparent)]
    UnknownUser(#[from] UnknownSlackUser),
    /// The click names another approval, or an approval of another run.
    #[error("this approval does not exist")]
    OtherApproval,
    /// The click's hash is not the approval's.
    #[error("the action changed since this card was posted; use the newest card")]
    OtherSubject,
}

/// The tenant user of `click`.
pub fn person_of(click: &Click, tenant: &Tenant) -> Result<PersonId, UnknownSlackUser> {
    if click.run.tenant != tenant.tenant {
        return Err(UnknownSlackUser::OtherTenant);
    }
    match tenant.slack_person(&click.team, &click.user) {
        Some(person) => Ok(person.clone()),
        None if knows_workspace(tenant, &click.team) => Err(UnknownSlackUser::UnknownUser),
        None => Err(UnknownSlackUser::OtherWorkspace),
    }
}

fn knows_workspace(tenant: &Tenant, team: &str) -> bool {
    let teams = tenant.people.values().filter_map(|person| person.slack.as_deref()?.split_once(':'));
    teams.into_iter().any(|(known, _)| known == team)
}

/// The tenant user of `click`, if it is about the current `approval`.
pub fn approver_of(click: &Click, approval: &Approval, tenant: &Tenant) -> Result<PersonId, InvalidClick> {
    let person = person_of(click, tenant)?;
    if click.approval != approval.id || click.run != approval.run {
        return Err(InvalidClick::OtherApproval);
    }
    if click.subject != approval.subject.hash() {
        return Err(InvalidClick::OtherSubject);
    }
    Ok(person)
}

/// The command for `click`, if it is about the current `approval`. The domain decides whether it counts.
pub fn answer(click: Click, approval: Approval, tenant: Tenant) -> Result<RecordVote, InvalidClick> {
    let person = approver_of(&click, &approval, &tenant)?;
    let through = click.through();
    let Click { approve, reason, .. } = click;
    Ok(RecordVote { approval, person, approve, reason, through, tenant })
}
