//! Approvals: users approve or reject one exact subject.
//!
//! An approval belongs to one step of one run and is bound to the hash of its subject. Every change to it is part of a
//! commit of its run, so there is exactly one decision.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::access::{Role, is_oidc_credential};
use crate::digest::Digest;
use crate::effect::Action;
use crate::id::{ApprovalId, ConnectionName, Fence, PersonId, RunKey, StepId, StepSeq, WorkflowName};
use crate::json;
use crate::participant::Participants;
use crate::plan::{Call, Environment, OnReject};
use crate::record::Rejection;
use crate::refusal::{NotApprover, Refusal};
use crate::tenant::Tenant;
use crate::time::{Millis, Timestamp};
use crate::verdict::{ApprovalRequirement, Verdict};

/// A request for approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The id.
    pub id: ApprovalId,
    /// The run.
    #[serde(flatten)]
    pub run: RunKey,
    /// The workflow of the run.
    pub workflow: WorkflowName,
    /// The environment of the workflow.
    pub environment: Environment,
    /// The step that needs the approval.
    pub step: StepId,
    /// The position of the step.
    pub seq: StepSeq,
    /// Whether the approval is for the rollback of the step.
    #[serde(default)]
    pub rollback: bool,
    /// What the approval is about.
    pub subject: Subject,
    /// Who must approve.
    pub requirement: ApprovalRequirement,
    /// The users who shaped the action, and so may not vote.
    #[serde(default, skip_serializing_if = "Participants::is_empty")]
    pub excluded: Participants,
    /// Set if the action may already have happened: when it was first attempted, with an unknown outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempted_at: Option<Timestamp>,
    /// The last rejection of the step's action, if it is requested again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Rejection>,
    /// What a rejection does.
    pub on_reject: OnReject,
    /// The status.
    pub status: ApprovalStatus,
    /// The votes, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
    /// When the approval was requested.
    pub requested_at: Timestamp,
    /// When the approval is overdue and escalated.
    pub sla_at: Timestamp,
    /// When the approval expires and the step fails.
    pub expires_at: Timestamp,
    /// The number of reminders.
    #[serde(default)]
    pub reminders: u32,
    /// When the approval was escalated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated_at: Option<Timestamp>,
    /// The attempt that used the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed: Option<ApprovalUse>,
    /// Incremented by every change.
    pub revision: u32,
}

/// The subject of an approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Subject {
    /// A gate of the workflow: a question in the author's words.
    Question {
        /// The question.
        message: String,
    },
    /// One exact action.
    Action {
        /// The action.
        action: Box<Action>,
        /// The verdict on it.
        verdict: Verdict,
        /// The rollback that the workflow declares for the step, before its expressions are evaluated. If it is
        /// performed, it is evaluated as an action of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rollback: Option<Call>,
    },
}

impl Subject {
    /// The hash that approvers approve: of the action, with the declared rollback if there is one, or of the question.
    pub fn hash(&self) -> Digest {
        match self {
            Self::Question { message } => json::digest("countersign/question/v1", message),
            Self::Action { action, rollback, .. } => {
                action_subject(action.hash(), rollback.as_ref().map(Call::hash))
            }
        }
    }

    /// The policy that required the approval, if one did.
    pub fn policy(&self) -> Option<Digest> {
        match self {
            Self::Question { .. } => None,
            Self::Action { verdict, .. } => Some(verdict.policy),
        }
    }
}

/// The hash that approvers of an action approve: the hash of the action, combined with that of the declared rollback if
/// there is one.
pub fn action_subject(action: Digest, rollback: Option<Digest>) -> Digest {
    match rollback {
        Some(rollback) => json::digest("countersign/action-with-rollback/v1", &(action, rollback)),
        None => action,
    }
}

/// The status of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ApprovalStatus {
    /// Open for votes.
    Requested,
    /// Approved by the required number of users.
    Approved,
    /// Rejected by one user.
    Rejected,
    /// Undecided when it expired.
    Expired,
    /// Withdrawn: the run stopped, or the subject changed.
    Canceled,
}

impl ApprovalStatus {
    /// The name used in the API and in files.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The vote of one user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// The user.
    pub person: PersonId,
    /// Whether the user approves.
    pub approve: bool,
    /// The user's reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When the user voted.
    pub at: Timestamp,
    /// The channel that authenticated the user.
    pub through: Channel,
}

impl Vote {
    /// This vote as a rejection.
    pub fn rejection(&self) -> Rejection {
        Rejection { by: self.person.clone(), at: self.at, reason: self.reason.clone() }
    }

    /// How the user was authenticated.
    pub fn assurance(&self) -> Assurance {
        self.through.assurance()
    }

    /// Whether the user still has the role for the vote, as far as `tenant` says. Its directory has the roles in Slack.
    /// Those of an API key or a token were checked when the user voted, and are not known afterwards.
    pub fn has_role(&self, tenant: &Tenant) -> bool {
        match self.through {
            Channel::Slack { .. } => {
                tenant.people.is_empty() || tenant.allows_in_slack(&self.person, Role::Approver)
            }
            Channel::Api { .. } | Channel::CommandLine => true,
        }
    }
}

/// How a vote arrived, which says how the user was authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "channel")]
pub enum Channel {
    /// The command line with direct access to the store: the caller states the user without proof.
    CommandLine,
    /// A signed request from Slack.
    Slack {
        /// The Slack team.
        team: String,
        /// The Slack user.
        user: String,
    },
    /// The API.
    Api {
        /// The id of the credential, never its secret.
        credential: String,
    },
}

/// How a user was authenticated when they voted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Assurance {
    /// By the identity provider: a token, or a session in the console that was started with one.
    IdentityProvider,
    /// By Slack.
    Slack,
    /// By an API key, or a session that was started with one.
    ApiKey,
    /// Not at all: the user can open the store.
    Local,
}

impl Assurance {
    /// The name used in the API and in files.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Channel {
    /// How the channel authenticated the user.
    pub fn assurance(&self) -> Assurance {
        match self {
            Self::CommandLine => Assurance::Local,
            Self::Slack { .. } => Assurance::Slack,
            Self::Api { credential } if is_oidc_credential(credential) => Assurance::IdentityProvider,
            Self::Api { .. } => Assurance::ApiKey,
        }
    }
}

/// The attempt that used an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalUse {
    /// The fence of the attempt.
    pub fence: Fence,
    /// When it started.
    pub at: Timestamp,
}

impl Approval {
    /// The users who approved.
    pub fn approvers(&self) -> impl Iterator<Item = &PersonId> {
        self.votes.iter().filter(|vote| vote.approve).map(|vote| &vote.person)
    }

    /// The approvers who are no longer in the directory of `tenant` or in a required group, or who approved in Slack and
    /// have lost the role there.
    pub fn departed_approvers(&self, tenant: &Tenant) -> Vec<PersonId> {
        let may_approve = |vote: &&Vote| {
            tenant.knows(&vote.person)
                && tenant.belongs(&vote.person, &self.requirement.groups)
                && vote.has_role(tenant)
                && self.requirement.assurance.accepts(vote.assurance())
        };
        let departed = self.votes.iter().filter(|vote| vote.approve).filter(|vote| !may_approve(vote));
        departed.map(|vote| vote.person.clone()).collect()
    }

    /// The revision that approval cards must show. Use by an attempt does not change the card, so it does not count.
    pub fn card_revision(&self) -> u32 {
        self.revision.saturating_sub(u32::from(self.consumed.is_some()))
    }

    /// Whether the directory of `tenant` has too few users who may still approve, so that nothing but a change of the
    /// directory or the expiry ends the wait.
    pub fn lacks_approvers(&self, tenant: &Tenant) -> bool {
        let possible = possible_approvers(&self.requirement, &self.excluded, tenant);
        self.is_open() && possible.is_some_and(|possible| possible < self.requirement.people.count())
    }

    /// The rejection that decided it, if a user rejected it.
    pub fn rejection(&self) -> Option<Rejection> {
        self.votes.iter().rev().find(|vote| !vote.approve).map(Vote::rejection)
    }

    /// The number of approvals still needed.
    pub fn missing(&self) -> usize {
        self.requirement.people.count().saturating_sub(self.approvers().count())
    }

    /// When the next reminder or escalation is due: a reminder halfway to the SLA, the escalation at the SLA, then
    /// nothing until the approval expires.
    pub fn next_reminder_at(&self) -> Timestamp {
        let halfway = self.requested_at + Millis((self.sla_at - self.requested_at).0 / 2);
        let at = match (self.reminders, self.escalated_at) {
            (_, Some(_)) => self.expires_at,
            (0, None) => halfway,
            (_, None) => self.sla_at,
        };
        at.min(self.expires_at)
    }

    /// The decision as text, for a refused later vote.
    pub fn outcome(&self) -> String {
        let last = self.votes.last().map(|vote| (vote.person.clone(), vote.at));
        match (self.status, last) {
            (ApprovalStatus::Approved | ApprovalStatus::Rejected, Some((person, at))) => {
                format!("{} by {person} at {at}", self.status.as_str())
            }
            (status, _) => status.as_str().to_owned(),
        }
    }

    /// Whether the approval is open for votes.
    pub fn is_open(&self) -> bool {
        self.status == ApprovalStatus::Requested
    }
}

/// Refuses a user who may not vote on `approval`: a user who shaped the action, a user outside the tenant's directory,
/// or one outside the required groups.
pub fn may_approve(approval: &Approval, person: &PersonId, tenant: &Tenant) -> Result<(), Refusal> {
    let why = match person {
        person if let Some(role) = approval.excluded.role_of(person) => NotApprover::Participant(role),
        person if !tenant.knows(person) => NotApprover::UnknownUser,
        person if !tenant.belongs(person, &approval.requirement.groups) => NotApprover::NotInGroup,
        _ => return Ok(()),
    };
    Err(Refusal::NotApprover { approval: approval.id.clone(), person: person.clone(), why })
}

/// Refuses a user whose authentication the requirement of `approval` does not accept.
pub fn check_assurance(approval: &Approval, person: &PersonId, through: &Channel) -> Result<(), Refusal> {
    if approval.requirement.assurance.accepts(through.assurance()) {
        return Ok(());
    }
    let (approval, person) = (approval.id.clone(), person.clone());
    Err(Refusal::NotApprover { approval, person, why: NotApprover::Assurance })
}

/// How many users of the tenant's directory may approve under `requirement`, apart from `excluded`; `None` without a
/// directory, where every approver may. There may be fewer: the roles of API keys and tokens are not in the directory.
pub fn possible_approvers(
    requirement: &ApprovalRequirement,
    excluded: &Participants,
    tenant: &Tenant,
) -> Option<usize> {
    let may_approve = |person: &&PersonId| {
        excluded.role_of(person).is_none() && tenant.belongs(person, &requirement.groups)
    };
    (!tenant.people.is_empty()).then(|| tenant.people.keys().filter(may_approve).count())
}

/// The card that was posted for an approval. Stored apart from it, because the process that posts it holds no run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The location of the message, in the notifier's format: a channel and a message.
    pub message: String,
    /// The connection on which the message was posted. Every update uses it, also if another one is chosen for new cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionName>,
    /// The revision that was last posted.
    pub revision: u32,
    /// The number of posted reminders.
    #[serde(default)]
    pub reminders: u32,
    /// Whether the escalation was posted.
    #[serde(default)]
    pub escalated: bool,
}

/// The page of the on-call about an overdue approval. Stored apart from the card, because each is delivered and fails on
/// its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The status.
    pub status: PageStatus,
    /// The connection on which the on-call was paged. The page is resolved there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionName>,
}

/// The status of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageStatus {
    /// The on-call was paged.
    Paged,
    /// The page was resolved, because the approval was decided.
    Resolved,
}
