//! The two built-in tools: a wait for an event, and an approval gate.
//!
//! The runtime opens them, and an external event or decision completes them. They have no effect, so they are neither
//! retried nor rolled back.

use domain::plan::{InputRefs, OnTimeout, Work};
use domain::{EventName, Millis};

use crate::error::{ParseErrorKind, WorkflowError};
use crate::fields::{Fields, choice, duration, id, text};
use crate::governance;
use crate::parse::File;
use crate::yaml::{Node, to_json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    Wait,
    Gate,
}

impl Builtin {
    pub(crate) const ALL: [Self; 2] = [Self::Wait, Self::Gate];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|builtin| builtin.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait.event",
            Self::Gate => "approval.gate",
        }
    }
}

/// Long enough for another team to respond within a working day.
pub(crate) const TIMEOUT_DEFAULT: Millis = Millis::hours(24);

/// A shorter wait always times out.
pub(crate) const TIMEOUT_MIN: Millis = Millis::secs(1);

/// A quarter. A run that waits longer is most likely forgotten.
pub(crate) const TIMEOUT_MAX: Millis = Millis::hours(24 * 90);

const WAIT_FIELDS: [&str; 3] = ["event", "timeout", "on_timeout"];
const GATE_FIELDS: [&str; 6] = ["message", "expires_after", "on_reject", "tier", "people", "groups"];
pub(crate) const ON_TIMEOUT: [&str; 2] = ["fail", "continue"];

/// Refuses fields that apply to calls only.
pub(crate) fn refuse_call_fields(step: &Fields<'_>, builtin: Builtin) -> Result<(), WorkflowError> {
    match ["retry", "rollback", "on_reject", "confidence"]
        .into_iter()
        .find_map(|field| Some((field, step.key(field)?)))
    {
        Some((field, key)) => {
            Err(WorkflowError::of(key, ParseErrorKind::NotForBuiltin { tool: builtin.name(), field }))
        }
        None => Ok(()),
    }
}

pub(crate) fn wait(with: &Node) -> Result<(Work, InputRefs), WorkflowError> {
    let fields = Fields::of(with, "the `with` of `wait.event`", &WAIT_FIELDS)?;
    let work = Work::Wait {
        event: event(fields.require("event")?)?,
        timeout: timeout(&fields, "timeout", "`timeout`")?,
        on_timeout: match fields.get("on_timeout").map(|node| choice(node, "`on_timeout`", &ON_TIMEOUT)) {
            None => OnTimeout::default(),
            Some(chosen) => [OnTimeout::Fail, OnTimeout::Continue][chosen?],
        },
    };
    Ok((work, InputRefs::default()))
}

/// The event name is part of the plan, so it must be a literal.
fn event(node: &Node) -> Result<EventName, WorkflowError> {
    if text(node, "`event`")?.contains("${") {
        return Err(WorkflowError::of(node, ParseErrorKind::EventNotLiteral));
    }
    id(node, "`event`")
}

pub(crate) fn gate(file: &mut File<'_>, seq: usize, with: &Node) -> Result<(Work, InputRefs), WorkflowError> {
    let fields = Fields::of(with, "the `with` of `approval.gate`", &GATE_FIELDS)?;
    let message = fields.require("message")?;
    let work = Work::Gate {
        message: text(message, "`message`")?.to_owned(),
        expires_after: timeout(&fields, "expires_after", "`expires_after`")?,
        on_reject: governance::on_reject(&fields)?,
        requirement: governance::requirement(&fields)?,
    };
    to_json(file.source, message)?;
    Ok((work, file.reads(message, seq)?))
}

fn timeout(fields: &Fields<'_>, name: &str, what: &'static str) -> Result<Millis, WorkflowError> {
    let given = fields.get(name).map(|node| duration(node, what, TIMEOUT_MIN..=TIMEOUT_MAX));
    Ok(given.transpose()?.unwrap_or(TIMEOUT_DEFAULT))
}
