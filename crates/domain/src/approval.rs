//! Approvals: a question to people, about one exact thing.
//!
//! An approval belongs to one step of one run and is bound to the hash of what was shown. Everything that
//! happens to it happens in the same commit as the step it belongs to, so there is one answer, and whoever
//! comes second is shown the first.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::effect::Action;
use crate::id::{ApprovalId, Fence, PersonId, RunKey, StepId, StepSeq, WorkflowName};
use crate::json;
use crate::plan::{Environment, OnReject};
use crate::time::{Millis, Timestamp};
use crate::verdict::{Demand, Verdict};

/// A request for approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Which one.
    pub id: ApprovalId,
    /// Whose run asks.
    #[serde(flatten)]
    pub run: RunKey,
    /// Of which workflow.
    pub workflow: WorkflowName,
    /// Where it runs.
    pub environment: Environment,
    /// The step that asks.
    pub step: StepId,
    /// Its place in the run.
    pub seq: StepSeq,
    /// Whether it is about taking the step's effect back.
    #[serde(default)]
    pub undo: bool,
    /// What is asked about.
    pub subject: Subject,
    /// Who must say yes.
    pub demand: Demand,
    /// Who wanted the run, and so may not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<PersonId>,
    /// Who wrote the workflow, and so may not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<PersonId>,
    /// What a no means.
    pub on_reject: OnReject,
    /// How it stands.
    pub status: ApprovalStatus,
    /// What people said, in the order they did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When an answer is overdue.
    pub sla_at: Timestamp,
    /// When the question lapses, and the step fails.
    pub expires_at: Timestamp,
    /// How often people were reminded.
    #[serde(default)]
    pub reminders: u32,
    /// When it was escalated, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated_at: Option<Timestamp>,
    /// The attempt that used it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed: Option<Consumed>,
    /// Grows with every change.
    pub revision: u32,
}

/// What an approval is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "about")]
pub enum Subject {
    /// A gate in the workflow: a question in the author's words.
    Question {
        /// The question.
        message: String,
    },
    /// An action, exactly.
    Action {
        /// What would be done.
        action: Box<Action>,
        /// What policy said about it.
        verdict: Verdict,
    },
}

impl Subject {
    /// The hash that people approve: of the action, or of the question.
    pub fn hash(&self) -> Digest {
        match self {
            Self::Question { message } => json::digest("countersign/question/v1", message),
            Self::Action { action, .. } => action.hash(),
        }
    }

    /// The policy that asked for it, if one did.
    pub fn policy(&self) -> Option<Digest> {
        match self {
            Self::Question { .. } => None,
            Self::Action { verdict, .. } => Some(verdict.policy),
        }
    }
}

/// How an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// People are asked.
    Requested,
    /// Enough of them said yes.
    Approved,
    /// One of them said no.
    Rejected,
    /// Nobody answered in time.
    Expired,
    /// The question was withdrawn: the run stopped, or what was asked about has changed.
    Canceled,
}

impl ApprovalStatus {
    /// The status as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Canceled => "canceled",
        }
    }
}

/// What one person said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// Who.
    pub person: PersonId,
    /// Yes or no.
    pub approve: bool,
    /// In their words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// Through what, and how surely they were known.
    pub through: Channel,
}

/// Through what a person spoke, which says how surely they were known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "channel")]
pub enum Channel {
    /// The command line: whoever can open the store says who they are.
    CommandLine,
    /// A click in Slack, under Slack's signature.
    Slack {
        /// The workspace.
        team: String,
        /// The user in it.
        user: String,
    },
    /// The API, with a credential of their own.
    Api {
        /// Which credential, never the secret.
        credential: String,
    },
}

/// The attempt that used an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumed {
    /// Under which fence.
    pub fence: Fence,
    /// When.
    pub at: Timestamp,
}

impl Approval {
    /// Everybody who said yes.
    pub fn approvers(&self) -> impl Iterator<Item = &PersonId> {
        self.votes.iter().filter(|vote| vote.approve).map(|vote| &vote.person)
    }

    /// Which of its revisions people are to be shown. That it was used is no news to those who said yes: a card that shows
    /// their answer need not be changed for it.
    pub fn news(&self) -> u32 {
        self.revision.saturating_sub(u32::from(self.consumed.is_some()))
    }

    /// How many more people must say yes.
    pub fn missing(&self) -> usize {
        self.demand.people.count().saturating_sub(self.approvers().count())
    }

    /// Everybody who may not answer.
    pub fn excluded(&self) -> Vec<PersonId> {
        self.requester.iter().chain(&self.author).cloned().collect()
    }

    /// When people are to be reminded, or others told: halfway to the time an answer is overdue, then at
    /// that time, then no more until the question lapses.
    pub fn nudge_at(&self) -> Timestamp {
        let halfway = self.asked_at + Millis((self.sla_at - self.asked_at).0 / 2);
        let at = match (self.reminders, self.escalated_at) {
            (_, Some(_)) => self.expires_at,
            (0, None) => halfway,
            (_, None) => self.sla_at,
        };
        at.min(self.expires_at)
    }

    /// What became of it, for whoever comes second.
    pub fn outcome(&self) -> String {
        let last = self.votes.last().map(|vote| (vote.person.clone(), vote.at));
        match (self.status, last) {
            (ApprovalStatus::Approved | ApprovalStatus::Rejected, Some((person, at))) => {
                format!("{} by {person} at {at}", self.status.as_str())
            }
            (status, _) => status.as_str().to_owned(),
        }
    }

    /// Whether people can still answer.
    pub fn is_open(&self) -> bool {
        self.status == ApprovalStatus::Requested
    }
}

/// What people have been shown of an approval. Kept apart from it: the one who shows it holds no run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Where it stands, in the words of whoever shows it: a channel and a message.
    pub place: String,
    /// The revision that was last shown.
    pub shown: u32,
    /// How many reminders were posted.
    #[serde(default)]
    pub reminders: u32,
    /// Whether the escalation was posted.
    #[serde(default)]
    pub escalated: bool,
}
