//! Maps a click to the domain's command.
//!
//! Slack identifies the user and the workspace; the tenant's directory maps them to a tenant user and gives that user roles,
//! because a request from Slack carries none. The domain decides whether the user may approve this action: see
//! [`domain::command::RecordVote`].

use domain::command::RecordVote;
use domain::{Approval, PersonId, Role, Tenant};

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

/// The directory does not give the user the role that the request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this needs the role `{0}`; ask an administrator to add it to your `slack_roles`")]
pub struct MissingRole(pub Role);

/// Whether `person` may do in Slack what needs `role`: the check that the API makes with the roles of a key or token.
pub fn require_role(tenant: &Tenant, person: &PersonId, role: Role) -> Result<(), MissingRole> {
    if tenant.allows_in_slack(person, role) { Ok(()) } else { Err(MissingRole(role)) }
}

/// Why a click does not count as a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidClick {
    #[error(transparent)]
    UnknownUser(#[from] UnknownSlackUser),
    #[error(transparent)]
    Role(#[from] MissingRole),
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
    require_role(tenant, &person, Role::Approver)?;
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
