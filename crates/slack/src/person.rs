//! From a click to the domain's own command.
//!
//! Slack says which user of which workspace clicked; the tenant's directory says who that is. Whether they
//! may answer, and what their answer does, is the domain's business: see [`domain::command::Answer`].

use domain::command::Answer;
use domain::{Approval, PersonId, Tenant};

use crate::interaction::Click;

/// Why nobody in the directory is behind a click. To whoever clicked all of these read the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stranger {
    /// The click is about another tenant's run.
    #[error("you are not known here")]
    OtherTenant,
    /// Nobody in the directory belongs to the click's workspace.
    #[error("you are not known here")]
    OtherWorkspace,
    /// The workspace is known, but not this user.
    #[error("you are not known here")]
    UnknownUser,
}

/// Why a click is no answer to an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswerable {
    /// Nobody in the directory is behind it.
    #[error(transparent)]
    Stranger(#[from] Stranger),
    /// It names another approval, or an approval of another run.
    #[error("there is no such approval")]
    OtherApproval,
    /// What was shown is not what the approval is about.
    #[error("what you saw is not what would happen; look at the newest card")]
    OtherSubject,
}

/// The person behind `click`.
pub fn person_of(click: &Click, tenant: &Tenant) -> Result<PersonId, Stranger> {
    if click.run.tenant != tenant.tenant {
        return Err(Stranger::OtherTenant);
    }
    match tenant.slack_person(&click.team, &click.user) {
        Some(person) => Ok(person.clone()),
        None if knows_workspace(tenant, &click.team) => Err(Stranger::UnknownUser),
        None => Err(Stranger::OtherWorkspace),
    }
}

fn knows_workspace(tenant: &Tenant, team: &str) -> bool {
    let teams = tenant.people.values().filter_map(|person| person.slack.as_deref()?.split_once(':'));
    teams.into_iter().any(|(known, _)| known == team)
}

/// Who answers, if `click` is about `approval` as it stands.
pub fn answerer(click: &Click, approval: &Approval, tenant: &Tenant) -> Result<PersonId, Unanswerable> {
    let person = person_of(click, tenant)?;
    if click.approval != approval.id || click.run != approval.run {
        return Err(Unanswerable::OtherApproval);
    }
    if click.subject != approval.subject.hash() {
        return Err(Unanswerable::OtherSubject);
    }
    Ok(person)
}

/// What `click` asks of the run, if it is about `approval` as it stands. The domain decides whether it
/// counts.
pub fn answer(click: Click, approval: Approval, tenant: Tenant) -> Result<Answer, Unanswerable> {
    let person = answerer(&click, &approval, &tenant)?;
    let through = click.through();
    let Click { approve, reason, .. } = click;
    Ok(Answer { approval, person, approve, reason, through, tenant })
}
