//! Approvals and the decisions of approvers.

use domain::{
    ApprovalId, ApprovalRequirement, ApprovalStatus, Digest, PersonId, RunId, StepId, Subject, WorkflowName,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use views::time::rfc3339_millis;

/// An approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    #[schema(value_type = String)]
    pub approval: ApprovalId,
    /// The run that waits for the approval.
    #[schema(value_type = String)]
    pub run: RunId,
    #[schema(value_type = String)]
    pub workflow: WorkflowName,
    /// `dev`, `staging` or `prod`.
    pub environment: String,
    /// The step that needs the approval.
    #[schema(value_type = String)]
    pub step: StepId,
    /// Whether the approval is for rolling back the effect of the step.
    pub rollback: bool,
    #[schema(value_type = String)]
    pub status: ApprovalStatus,
    /// The hash of the subject. A decision can name it.
    #[schema(value_type = String)]
    pub subject_hash: Digest,
    /// The subject: a question, or an action with its verdict.
    #[schema(value_type = Object)]
    pub subject: Subject,
    /// Who must approve.
    #[schema(value_type = Object)]
    pub requirement: ApprovalRequirement,
    /// The number of approvers that are still missing.
    pub missing: usize,
    /// Users who may not decide, because they participated in the run: for example its requester, the author of the
    /// workflow, and the user who applied it.
    #[schema(value_type = Vec<String>)]
    pub excluded: Vec<PersonId>,
    /// Set if the action may already have happened: when it was first attempted, with an unknown outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempted_at: Option<String>,
    /// The last rejection of the step's action, if it is requested again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Rejection>,
    /// What a rejection does to the run: `fail` or `pause`.
    pub on_reject: String,
    /// The decisions so far, oldest first.
    pub votes: Vec<Vote>,
    pub requested_at: String,
    /// The approval is overdue after this time.
    pub sla_at: String,
    /// When the approval was found overdue and was escalated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated_at: Option<String>,
    pub expires_at: String,
}

/// An earlier rejection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rejection {
    #[schema(value_type = String)]
    pub by: PersonId,
    pub at: String,
    pub reason: String,
}

/// The decision of one approver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Vote {
    #[schema(value_type = String)]
    pub person: PersonId,
    /// True for an approval, false for a rejection.
    pub approve: bool,
    pub reason: String,
    pub at: String,
    /// How the user was authenticated: `identity_provider`, `slack`, `api_key`, or `local` for a user who can open the
    /// store.
    pub assurance: String,
}

impl From<domain::Approval> for Approval {
    fn from(approval: domain::Approval) -> Self {
        let vote = |vote: &domain::Vote| Vote {
            person: vote.person.clone(),
            approve: vote.approve,
            reason: vote.reason.clone(),
            at: rfc3339_millis(vote.at),
            assurance: vote.assurance().as_str().to_owned(),
        };
        Self {
            subject_hash: approval.subject.hash(),
            missing: approval.missing(),
            excluded: approval.excluded.each().map(|participant| participant.person.clone()).collect(),
            votes: approval.votes.iter().map(vote).collect(),
            attempted_at: approval.attempted_at.map(rfc3339_millis),
            rejected: approval.rejected.map(|rejection| Rejection {
                by: rejection.by,
                at: rfc3339_millis(rejection.at),
                reason: rejection.reason,
            }),
            approval: approval.id,
            run: approval.run.run,
            workflow: approval.workflow,
            environment: crate::enum_name(&approval.environment),
            step: approval.step,
            rollback: approval.rollback,
            status: approval.status,
            subject: approval.subject,
            requirement: approval.requirement,
            on_reject: crate::enum_name(&approval.on_reject),
            requested_at: rfc3339_millis(approval.requested_at),
            sla_at: rfc3339_millis(approval.sla_at),
            escalated_at: approval.escalated_at.map(rfc3339_millis),
            expires_at: rfc3339_millis(approval.expires_at),
        }
    }
}

/// A page of open approvals, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Approvals {
    /// The approvals. With `mine`, a page can hold fewer than `limit` and still have a `next`.
    pub approvals: Vec<Approval>,
    /// The cursor of the next page; null on the last page.
    pub next: Option<String>,
}

/// The decision to record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    #[serde(default)]
    pub reason: String,
    /// The hash of the subject that the approver saw. The decision is refused if the subject differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[0-9a-f]{64}$")]
    pub subject_hash: Option<Digest>,
}

/// The result of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionOutcome {
    /// The decision resolved the approval.
    Decided,
    /// The decision is recorded; another approver must decide.
    Recorded,
    /// The approver made the same decision before; nothing changed.
    Duplicate,
}

/// The approval after a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecisionResponse {
    #[schema(value_type = String)]
    pub approval: ApprovalId,
    #[schema(value_type = String)]
    pub status: ApprovalStatus,
    pub outcome: DecisionOutcome,
    /// The number of approvers that are still missing.
    pub missing: usize,
}
