//! Requests for approval, and what people answer.

use domain::{ApprovalId, ApprovalStatus, Demand, Digest, PersonId, RunId, StepId, Subject, WorkflowName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use views::time::moment;

/// A request for approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    /// Which one.
    #[schema(value_type = String)]
    pub approval: ApprovalId,
    /// Which run asks.
    #[schema(value_type = String)]
    pub run: RunId,
    /// Of which workflow.
    #[schema(value_type = String)]
    pub workflow: WorkflowName,
    /// Where it runs: `dev`, `staging` or `prod`.
    pub environment: String,
    /// The step that asks.
    #[schema(value_type = String)]
    pub step: StepId,
    /// Whether it is about taking the step's effect back.
    pub undo: bool,
    /// How it stands.
    #[schema(value_type = String)]
    pub status: ApprovalStatus,
    /// The hash of what is asked about; an answer may name it.
    #[schema(value_type = String)]
    pub subject: Digest,
    /// What is asked about: a question, or an action with its verdict.
    #[schema(value_type = Object)]
    pub about: Subject,
    /// Who must say yes.
    #[schema(value_type = Object)]
    pub demand: Demand,
    /// How many more people must say yes.
    pub missing: usize,
    /// Who may not answer: whoever asked for the run or wrote the workflow.
    #[schema(value_type = Vec<String>)]
    pub excluded: Vec<PersonId>,
    /// `fail` or `pause`: what a no means.
    pub on_reject: String,
    /// What people said, in the order they did.
    pub votes: Vec<Vote>,
    /// When it was asked.
    pub asked_at: String,
    /// When an answer is overdue.
    pub sla_at: String,
    /// When the question lapses.
    pub expires_at: String,
}

/// What one person said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Vote {
    /// Who.
    #[schema(value_type = String)]
    pub person: PersonId,
    /// Yes or no.
    pub approve: bool,
    /// In their words.
    pub reason: String,
    /// When.
    pub at: String,
}

impl From<domain::Approval> for Approval {
    fn from(asked: domain::Approval) -> Self {
        let vote = |vote: &domain::Vote| Vote {
            person: vote.person.clone(),
            approve: vote.approve,
            reason: vote.reason.clone(),
            at: moment(vote.at),
        };
        Self {
            subject: asked.subject.hash(),
            missing: asked.missing(),
            excluded: asked.excluded(),
            votes: asked.votes.iter().map(vote).collect(),
            approval: asked.id,
            run: asked.run.run,
            workflow: asked.workflow,
            environment: crate::word(&asked.environment),
            step: asked.step,
            undo: asked.undo,
            status: asked.status,
            about: asked.subject,
            demand: asked.demand,
            on_reject: crate::word(&asked.on_reject),
            asked_at: moment(asked.asked_at),
            sla_at: moment(asked.sla_at),
            expires_at: moment(asked.expires_at),
        }
    }
}

/// A page of requests that people can still answer, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Approvals {
    /// The requests. With `mine`, a page may hold fewer than were asked for and still have a next one.
    pub approvals: Vec<Approval>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// What a person answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// In their words.
    #[serde(default)]
    #[schema(pattern = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\ufffe\\uffff]*$")]
    pub reason: String,
    /// The hash of what they saw: an answer to something else does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[0-9a-f]{64}$")]
    pub subject: Option<Digest>,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOutcome {
    /// It decided the request.
    Decided,
    /// It counts, and more people must say yes.
    Counted,
    /// The same person had said the same before; nothing changed.
    Duplicate,
}

/// A request after an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Answered {
    /// Which request.
    #[schema(value_type = String)]
    pub approval: ApprovalId,
    /// How it stands now.
    #[schema(value_type = String)]
    pub status: ApprovalStatus,
    /// What became of the answer.
    pub outcome: AnswerOutcome,
    /// How many more people must say yes.
    pub missing: usize,
}
