//! The two tools that are never called: a wait for an event, and a question to a person.
//!
//! The runtime opens them and something from outside closes them. They change nothing, so there is nothing
//! to try again and nothing to take back.

use domain::plan::{OnTimeout, Reads, Work};
use domain::{EventName, Millis};

use crate::error::{Fault, WorkflowError};
use crate::fields::{Fields, choice, duration, id, text};
use crate::governance;
use crate::parse::File;
use crate::yaml::{Node, to_json};

/// A tool that is never called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    /// Waits for an event.
    Wait,
    /// Asks a person.
    Gate,
}

impl Builtin {
    /// Both of them.
    pub(crate) const ALL: [Self; 2] = [Self::Wait, Self::Gate];

    /// The one called `name`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|builtin| builtin.name() == name)
    }

    /// How a file calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait.event",
            Self::Gate => "approval.gate",
        }
    }
}

/// A day: long enough for another team to answer, short enough that somebody notices.
pub(crate) const PATIENCE_DEFAULT: Millis = Millis::hours(24);

/// A shorter wait could not be met by anybody.
pub(crate) const PATIENCE_MIN: Millis = Millis::secs(1);

/// After a quarter nobody remembers what the run was for.
pub(crate) const PATIENCE_MAX: Millis = Millis::hours(24 * 90);

const WAIT_FIELDS: [&str; 3] = ["event", "timeout", "on_timeout"];
const GATE_FIELDS: [&str; 6] = ["message", "expires_after", "on_reject", "tier", "people", "groups"];
pub(crate) const ON_TIMEOUT: [&str; 2] = ["fail", "continue"];

/// Refuses what only a call can have.
pub(crate) fn refuse_call_fields(step: &Fields<'_>, builtin: Builtin) -> Result<(), WorkflowError> {
    match ["retry", "rollback", "on_reject", "confidence"]
        .into_iter()
        .find_map(|field| Some((field, step.key(field)?)))
    {
        Some((field, key)) => {
            Err(WorkflowError::of(key, Fault::NotForBuiltin { tool: builtin.name(), field }))
        }
        None => Ok(()),
    }
}

/// `wait.event`.
pub(crate) fn wait(with: &Node) -> Result<(Work, Reads), WorkflowError> {
    let fields = Fields::of(with, "the `with` of `wait.event`", &WAIT_FIELDS)?;
    let work = Work::Wait {
        event: event(fields.need("event")?)?,
        timeout: patience(&fields, "timeout", "`timeout`")?,
        on_timeout: match fields.get("on_timeout").map(|node| choice(node, "`on_timeout`", &ON_TIMEOUT)) {
            None => OnTimeout::default(),
            Some(chosen) => [OnTimeout::Fail, OnTimeout::Continue][chosen?],
        },
    };
    Ok((work, Reads::default()))
}

/// The event's name is part of the plan, which must know it before the run starts.
fn event(node: &Node) -> Result<EventName, WorkflowError> {
    if text(node, "`event`")?.contains("${") {
        return Err(WorkflowError::of(node, Fault::EventNotLiteral));
    }
    id(node, "`event`")
}

/// `approval.gate`, as the step at `seq`.
pub(crate) fn gate(file: &mut File<'_>, seq: usize, with: &Node) -> Result<(Work, Reads), WorkflowError> {
    let fields = Fields::of(with, "the `with` of `approval.gate`", &GATE_FIELDS)?;
    let message = fields.need("message")?;
    let work = Work::Gate {
        message: text(message, "`message`")?.to_owned(),
        expires_after: patience(&fields, "expires_after", "`expires_after`")?,
        on_reject: governance::on_reject(&fields)?,
        demand: governance::demand(&fields)?,
    };
    to_json(file.source, message)?;
    Ok((work, file.reads(message, seq)?))
}

fn patience(fields: &Fields<'_>, name: &str, what: &'static str) -> Result<Millis, WorkflowError> {
    let given = fields.get(name).map(|node| duration(node, what, PATIENCE_MIN..=PATIENCE_MAX));
    Ok(given.transpose()?.unwrap_or(PATIENCE_DEFAULT))
}
