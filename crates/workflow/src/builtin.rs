//! The two built-in tools: a wait for an event, and an approval gate.
//!
//! The runtime opens them, and an external event or decision completes them. They have no effect, so they are neither
//! retried nor rolled back.

use domain::plan::{InputRefs, OnTimeout, Work};
use domain::{EventName, Millis};
use strum::{EnumString, IntoStaticStr, VariantNames};

use crate::error::{ParseErrorKind, WorkflowError};
use crate::fields::{Fields, choice, duration, id, text};
use crate::governance;
use crate::parse::File;
use crate::yaml::{Node, to_json};

#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
pub(crate) enum Builtin {
    #[strum(serialize = "wait.event")]
    Wait,
    #[strum(serialize = "approval.gate")]
    Gate,
}

/// Long enough for another team to respond within a working day.
pub(crate) const TIMEOUT_DEFAULT: Millis = Millis::hours(24);

/// A shorter wait always times out.
pub(crate) const TIMEOUT_MIN: Millis = Millis::secs(1);

/// A quarter. A run that waits longer is most likely forgotten.
pub(crate) const TIMEOUT_MAX: Millis = Millis::hours(24 * 90);

const WAIT_FIELDS: [&str; 3] = ["event", "timeout", "on_timeout"];
const GATE_FIELDS: [&str; 6] = ["message", "expires_after", "on_reject", "tier", "people", "groups"];

/// Refuses fields that apply to calls only.
pub(crate) fn refuse_call_fields(step: &Fields<'_>, builtin: Builtin) -> Result<(), WorkflowError> {
    match ["connection", "retry", "rollback", "on_reject", "confidence"]
        .into_iter()
        .find_map(|field| Some((field, step.key(field)?)))
    {
        Some((field, key)) => {
            Err(WorkflowError::of(key, ParseErrorKind::NotForBuiltin { tool: builtin.into(), field }))
        }
        None => Ok(()),
    }
}

pub(crate) fn wait(with: &Node) -> Result<(Work, InputRefs), WorkflowError> {
    let fields = Fields::of(with, "the `with` of `wait.event`", &WAIT_FIELDS)?;
    let work = Work::Wait {
        event: event(fields.require("event")?)?,
        timeout: timeout(&fields, "timeout", "`timeout`")?,
        on_timeout: fields
            .get("on_timeout")
            .map_or(Ok(OnTimeout::default()), |node| choice(node, "`on_timeout`"))?,
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
