//! A run over time: one row for each step, with its work, its waits, its retries and its take-overs.
//!
//! [`Timeline::from_snapshot`] reads a run snapshot. [`Timeline::from_events`] reads the chain alone, for a caller that
//! has it from a server. Both are pure. [`chart()`] draws the timeline with characters; a page can draw it with
//! [`Timeline::position`].

mod chart;
mod json;
mod read;
#[cfg(test)]
mod tests;

use domain::plan::Plan;
use domain::{ChainError, Event, Millis, StepSeq, StepState, Timestamp};
use serde::Serialize;

use crate::RunSnapshot;
use crate::text::{numbered_steps, tool};

pub use chart::{ChartStyle, chart};
pub use json::timeline_json;

/// A run over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// The start of the run.
    pub from: Timestamp,
    /// The end of the run, or the time of the snapshot.
    pub until: Timestamp,
    pub finished: bool,
    /// The steps in the order of the plan. Steps that were not reached have no segments.
    pub rows: Vec<TimelineRow>,
}

/// One step over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineRow {
    pub seq: StepSeq,
    pub step: String,
    /// The name of the tool in the workflow file.
    pub tool: String,
    /// Oldest first, without overlaps.
    pub segments: Vec<Segment>,
    /// Oldest first.
    pub marks: Vec<Mark>,
}

/// A period of a step with one activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub activity: Activity,
    /// Whether the activity belongs to the rollback of the step.
    pub rollback: bool,
    pub from: Timestamp,
    /// The end, or the time of the snapshot.
    pub until: Timestamp,
    /// Whether the activity is still in progress.
    pub open: bool,
    /// Whether this is a failed attempt.
    pub failed: bool,
    /// The worker of the attempt, if known.
    pub worker: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Ready, but not claimed by a worker.
    Queued,
    /// In progress on a worker.
    Working,
    /// Waits for the next attempt.
    BackingOff,
    /// Waits for an external event.
    AwaitingEvent,
    AwaitingApproval,
    Paused,
}

/// An event of a step that the timeline marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub at: Timestamp,
    pub kind: MarkKind,
    /// The sentence for the event.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// An attempt failed and will be retried.
    Retry,
    /// The lease of a worker expired and another worker took over.
    TakeOver,
    /// The outcome of an effect is unknown.
    #[serde(rename = "outcome_unknown")]
    Unknown,
    /// The step failed permanently.
    Failed,
    /// An approver approved.
    Approved,
    /// An approver rejected, or the policy denied.
    Rejected,
}

/// The current step of a run, which the chain does not contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveStep {
    /// The time of the snapshot.
    pub at: Timestamp,
    pub seq: StepSeq,
    /// The worker that runs the step, and since when.
    pub held: Option<(String, Timestamp)>,
}

impl Timeline {
    /// The timeline of a run. Fails if the chain does not verify.
    pub fn from_snapshot(snapshot: &RunSnapshot) -> Result<Self, &ChainError> {
        let events = snapshot.view.events.as_ref()?;
        let record = &snapshot.view.record;
        let held = match &record.step_state {
            StepState::Running(lease) => Some((lease.owner.to_string(), lease.since)),
            _ => None,
        };
        let now = LiveStep { at: snapshot.now, seq: record.at, held };
        Ok(Self::from_events(rows(snapshot.view.plan()), events, &now))
    }

    /// The timeline of the steps in `rows` from `events`, the whole chain of a run.
    pub fn from_events(rows: Vec<TimelineRow>, events: &[Event], now: &LiveStep) -> Self {
        read::read(rows, events, now)
    }

    pub fn length(&self) -> Millis {
        self.until - self.from
    }

    /// The position of `at` on a scale from 0, the start, to `whole`, the end.
    pub fn position(&self, at: Timestamp, whole: u32) -> u32 {
        let length = u128::from(self.length().0.max(1));
        let share = u128::from((at - self.from).0) * u128::from(whole) / length;
        u32::try_from(share).unwrap_or(whole).min(whole)
    }
}

impl TimelineRow {
    /// A step without segments.
    pub fn new(seq: StepSeq, step: impl Into<String>, tool: impl Into<String>) -> Self {
        Self { seq, step: step.into(), tool: tool.into(), segments: Vec::new(), marks: Vec::new() }
    }

    /// The duration of the step, including waits.
    pub fn length(&self) -> Millis {
        Millis(self.segments.iter().map(|segment| (segment.until - segment.from).0).sum())
    }
}

impl Activity {
    pub fn is_a_wait(self) -> bool {
        self != Self::Working
    }

    pub fn label(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Working => "working",
            Self::BackingOff => "retry delay",
            Self::AwaitingEvent => "waits for an event",
            Self::AwaitingApproval => "waits for approval",
            Self::Paused => "paused",
        }
    }
}

impl MarkKind {
    pub fn label(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::TakeOver => "take-over",
            Self::Unknown => "outcome unknown",
            Self::Failed => "failed",
            Self::Approved => "approved",
            Self::Rejected => "rejected or denied",
        }
    }
}

fn rows(plan: &Plan) -> Vec<TimelineRow> {
    numbered_steps(plan)
        .map(|(seq, step)| TimelineRow::new(seq, step.id.as_str(), tool(&step.work)))
        .collect()
}
