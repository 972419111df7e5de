//! Requests for approval without the values that people were shown.

use std::collections::BTreeSet;

use domain::approval::Consumed;
use domain::plan::OnReject;
use domain::{
    Action, Approval, ApprovalId, ApprovalStatus, Demand, Digest, EffectClass, PersonId, Reversibility,
    StepId, StepSeq, Subject, Timestamp, ToolName, Vote,
};
use serde::{Deserialize, Serialize};

/// What people were asked, what they said, and what their answer was used for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalSummary {
    /// Which request.
    pub id: ApprovalId,
    /// The step that asked.
    pub step: StepId,
    /// Its place in the run.
    pub seq: StepSeq,
    /// Whether it was about taking the step's effect back.
    pub undo: bool,
    /// The hash of what was asked about.
    pub subject: Digest,
    /// What that was.
    pub about: About,
    /// Who had to say yes.
    pub demand: Demand,
    /// Who wanted the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<PersonId>,
    /// Who wrote the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<PersonId>,
    /// What a no meant.
    pub on_reject: OnReject,
    /// How it ended.
    pub status: ApprovalStatus,
    /// What people said, in the order they did.
    pub votes: Vec<Vote>,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When an answer was overdue.
    pub sla_at: Timestamp,
    /// When the question lapsed.
    pub expires_at: Timestamp,
    /// How often people were reminded.
    pub reminders: u32,
    /// When it was escalated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated_at: Option<Timestamp>,
    /// The attempt that used it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed: Option<Consumed>,
}

/// What people were asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum About {
    /// A question in the author's words.
    Question,
    /// An action.
    Action {
        /// The tool.
        tool: ToolName,
        /// What it changes.
        target: String,
        /// What is promised about being asked again.
        class: EffectClass,
        /// Whether it can be taken back.
        reversibility: Reversibility,
        /// Whether it destroys something.
        destructive: bool,
        /// The names of its fields.
        fields: Vec<String>,
        /// The names of what it changes, field by field.
        changes: Vec<String>,
        /// The digest of the verdict that asked for people.
        verdict: Digest,
        /// The version of the policy that gave it.
        policy: Digest,
    },
}

impl From<&Approval> for ApprovalSummary {
    fn from(approval: &Approval) -> Self {
        Self {
            id: approval.id.clone(),
            step: approval.step.clone(),
            seq: approval.seq,
            undo: approval.undo,
            subject: approval.subject.hash(),
            about: About::from(&approval.subject),
            demand: approval.demand.clone(),
            requester: approval.requester.clone(),
            author: approval.author.clone(),
            on_reject: approval.on_reject,
            status: approval.status,
            votes: approval.votes.clone(),
            asked_at: approval.asked_at,
            sla_at: approval.sla_at,
            expires_at: approval.expires_at,
            reminders: approval.reminders,
            escalated_at: approval.escalated_at,
            consumed: approval.consumed,
        }
    }
}

impl From<&Subject> for About {
    fn from(subject: &Subject) -> Self {
        match subject {
            Subject::Question { .. } => Self::Question,
            Subject::Action { action, verdict } => Self::Action {
                tool: action.tool.clone(),
                target: action.target.clone(),
                class: action.class,
                reversibility: action.reversibility.clone(),
                destructive: action.destructive,
                fields: field_names(action),
                changes: action.changes.iter().map(|change| change.field.clone()).collect(),
                verdict: verdict.hash(),
                policy: verdict.policy,
            },
        }
    }
}

fn field_names(action: &Action) -> Vec<String> {
    let names: BTreeSet<&String> =
        action.fields.as_object().into_iter().flat_map(serde_json::Map::keys).collect();
    names.into_iter().cloned().collect()
}

impl ApprovalSummary {
    /// Everybody who may not answer.
    pub fn excluded(&self) -> Vec<PersonId> {
        self.requester.iter().chain(&self.author).cloned().collect()
    }
}
