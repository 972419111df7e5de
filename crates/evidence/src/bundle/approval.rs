//! Approval requests, without the values that approvers saw.

use std::collections::BTreeSet;

use domain::approval::ApprovalUse;
use domain::plan::{Call, OnReject};
use domain::{
    Action, Approval, ApprovalId, ApprovalRequirement, ApprovalStatus, Digest, EffectClass, Participants,
    Reversibility, StepId, StepSeq, Subject, Timestamp, ToolName, Vote,
};
use serde::{Deserialize, Serialize};

/// An approval request with its votes and its use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalSummary {
    pub id: ApprovalId,
    pub step: StepId,
    pub seq: StepSeq,
    /// Whether the request is for the rollback of the step.
    pub rollback: bool,
    /// The hash of the subject.
    pub subject_hash: Digest,
    pub subject: SubjectSummary,
    pub requirement: ApprovalRequirement,
    /// The users who may not vote, with what each of them did.
    pub excluded: Participants,
    pub on_reject: OnReject,
    pub status: ApprovalStatus,
    /// In chronological order.
    pub votes: Vec<Vote>,
    pub requested_at: Timestamp,
    pub sla_at: Timestamp,
    pub expires_at: Timestamp,
    /// The number of reminders.
    pub reminders: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated_at: Option<Timestamp>,
    /// The last attempt that used the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed: Option<ApprovalUse>,
}

/// The subject of an approval request, without values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
#[expect(clippy::large_enum_variant, reason = "a bundle has few approvals, and most are of actions")]
pub enum SubjectSummary {
    /// An approval gate of the workflow.
    Question,
    Action {
        tool: ToolName,
        target: String,
        class: EffectClass,
        reversibility: Reversibility,
        destructive: bool,
        /// Field names only.
        fields: Vec<String>,
        /// The names of the changed fields.
        changes: Vec<String>,
        /// The digest of the verdict that requires approval.
        verdict: Digest,
        /// The hash of the policy.
        policy: Digest,
        /// The digest of the rollback that the workflow declares for the step. The subject includes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rollback: Option<Digest>,
    },
}

impl From<&Approval> for ApprovalSummary {
    fn from(approval: &Approval) -> Self {
        Self {
            id: approval.id.clone(),
            step: approval.step.clone(),
            seq: approval.seq,
            rollback: approval.rollback,
            subject_hash: approval.subject.hash(),
            subject: SubjectSummary::from(&approval.subject),
            requirement: approval.requirement.clone(),
            excluded: approval.excluded.clone(),
            on_reject: approval.on_reject,
            status: approval.status,
            votes: approval.votes.clone(),
            requested_at: approval.requested_at,
            sla_at: approval.sla_at,
            expires_at: approval.expires_at,
            reminders: approval.reminders,
            escalated_at: approval.escalated_at,
            consumed: approval.consumed,
        }
    }
}

impl From<&Subject> for SubjectSummary {
    fn from(subject: &Subject) -> Self {
        match subject {
            Subject::Question { .. } => Self::Question,
            Subject::Action { action, verdict, rollback } => Self::Action {
                tool: action.tool.clone(),
                target: action.target.clone(),
                class: action.class,
                reversibility: action.reversibility.clone(),
                destructive: action.destructive,
                fields: field_names(action),
                changes: action.changes.iter().map(|change| change.field.clone()).collect(),
                verdict: verdict.hash(),
                policy: verdict.policy,
                rollback: rollback.as_ref().map(Call::hash),
            },
        }
    }
}

fn field_names(action: &Action) -> Vec<String> {
    let names: BTreeSet<&String> =
        action.fields.as_object().into_iter().flat_map(serde_json::Map::keys).collect();
    names.into_iter().cloned().collect()
}
