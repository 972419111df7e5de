//! A run as bars over time: one row for each step, with what was done when, what it waited for, and where it was
//! tried again or taken over.
//!
//! [`Timeline::of`] reads a run that was looked at; [`Timeline::told`] reads the chain alone, for whoever has it from
//! somewhere else. Both are pure. [`chart()`] draws the bars with characters; a page can draw the same bars with
//! [`Timeline::place`], which gives each moment its share of the whole.

mod chart;
mod json;
mod read;
#[cfg(test)]
mod tests;

use domain::plan::Plan;
use domain::{ChainFault, Event, Live, Millis, StepSeq, Timestamp};

use crate::Seen;
use crate::text::{numbered, tool};

pub use chart::{Strokes, chart};
pub use json::timeline_json;

/// A run as bars over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// When the run was admitted.
    pub from: Timestamp,
    /// When it was over, or when it was looked at.
    pub until: Timestamp,
    /// Whether it is over.
    pub over: bool,
    /// The steps in the order of the plan; those that were never reached have no bars.
    pub rows: Vec<Row>,
}

/// The bars of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its place in the run.
    pub seq: StepSeq,
    /// Its name.
    pub step: String,
    /// The tool it calls, as the workflow file writes it.
    pub tool: String,
    /// What was done, oldest first; bars do not overlap.
    pub bars: Vec<Bar>,
    /// What happened at one moment, oldest first.
    pub marks: Vec<Mark>,
}

/// A length of time in which one thing was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    /// What was done.
    pub doing: Doing,
    /// Whether that was for taking the step back.
    pub undo: bool,
    /// Since when.
    pub from: Timestamp,
    /// Until when; until the run was looked at, if it goes on.
    pub until: Timestamp,
    /// Whether it goes on.
    pub open: bool,
    /// Whether it was work that came to nothing.
    pub vain: bool,
    /// Who worked, where that is known.
    pub worker: Option<String>,
}

/// What is done with a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It could be worked on, and nobody has taken it.
    Queued,
    /// Somebody works on it.
    Working,
    /// It failed, and the next attempt is not due yet.
    BackingOff,
    /// It waits for an event from outside.
    AwaitingEvent,
    /// It waits for people to answer.
    AwaitingPeople,
    /// The run is paused at it.
    Paused,
}

/// What happened at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: MarkKind,
    /// The same in words.
    pub text: String,
}

/// What can happen at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// An attempt failed, and another one follows.
    Retry,
    /// A worker went silent, and another took over.
    TakeOver,
    /// Nobody knows whether an effect happened.
    Unknown,
    /// The step failed for good.
    Failed,
    /// Somebody said yes.
    Yes,
    /// Somebody, or policy, said no.
    No,
}

/// What is known of a run beside its chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Now {
    /// When it was looked at.
    pub at: Timestamp,
    /// The step it stands at.
    pub seq: StepSeq,
    /// Who works on that step, and since when.
    pub held: Option<(String, Timestamp)>,
}

impl Timeline {
    /// The bars of a run that was looked at. None if its chain is broken: what cannot be verified is not shown.
    pub fn of(seen: &Seen) -> Result<Self, &ChainFault> {
        let events = seen.view.events.as_ref()?;
        let record = &seen.view.record;
        let held = match &record.live {
            Live::Running(lease) => Some((lease.owner.to_string(), lease.since)),
            _ => None,
        };
        let now = Now { at: seen.now, seq: record.at, held };
        Ok(Self::told(rows(seen.view.plan()), events, &now))
    }

    /// The bars that `events`, the whole chain of a run, tell of the steps in `rows`.
    pub fn told(rows: Vec<Row>, events: &[Event], now: &Now) -> Self {
        read::read(rows, events, now)
    }

    /// How long the whole took until now.
    pub fn length(&self) -> Millis {
        self.until - self.from
    }

    /// Where `at` is between the beginning, 0, and the end, `whole`.
    pub fn place(&self, at: Timestamp, whole: u32) -> u32 {
        let length = u128::from(self.length().0.max(1));
        let share = u128::from((at - self.from).0) * u128::from(whole) / length;
        u32::try_from(share).unwrap_or(whole).min(whole)
    }
}

impl Row {
    /// A step of which nothing has been told yet.
    pub fn new(seq: StepSeq, step: impl Into<String>, tool: impl Into<String>) -> Self {
        Self { seq, step: step.into(), tool: tool.into(), bars: Vec::new(), marks: Vec::new() }
    }

    /// How long it took, waits and all.
    pub fn length(&self) -> Millis {
        Millis(self.bars.iter().map(|bar| (bar.until - bar.from).0).sum())
    }
}

impl Doing {
    /// Whether nothing is done but waiting.
    pub fn is_a_wait(self) -> bool {
        self != Self::Working
    }

    /// Its name, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Working => "working",
            Self::BackingOff => "backing_off",
            Self::AwaitingEvent => "awaiting_event",
            Self::AwaitingPeople => "awaiting_people",
            Self::Paused => "paused",
        }
    }

    /// The same in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Queued => "no worker yet",
            Self::Working => "work",
            Self::BackingOff => "until the next attempt",
            Self::AwaitingEvent => "waits for an event",
            Self::AwaitingPeople => "asks people",
            Self::Paused => "paused",
        }
    }
}

impl MarkKind {
    /// Its name, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::TakeOver => "take_over",
            Self::Unknown => "outcome_unknown",
            Self::Failed => "failed",
            Self::Yes => "yes",
            Self::No => "no",
        }
    }

    /// The same in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Retry => "tried again",
            Self::TakeOver => "taken over",
            Self::Unknown => "outcome unknown",
            Self::Failed => "failed",
            Self::Yes => "said yes",
            Self::No => "said no",
        }
    }
}

/// The steps of a plan, with nothing told of them yet.
fn rows(plan: &Plan) -> Vec<Row> {
    numbered(plan).map(|(seq, step)| Row::new(seq, step.id.as_str(), tool(&step.work))).collect()
}
