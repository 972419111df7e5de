//! The envelope: what a listener gets of an event.

use axum::extract::ws::Utf8Bytes;
use domain::plan::Environment;
use domain::{Cause, Event, EventBody, Plan, RunId, RunRecord, StepId, TraceContext, WorkflowName};
use serde::Serialize;
use serde_json::{Value, json};
use views::event_json;
use views::time::moment;

use super::kind::{Kind, kinds};
use super::place::Turn;

/// The version of the envelope. What is added does not change it; what is taken away or means something else does.
const VERSION: u8 = 1;

/// An envelope as it is sent. It is written once, however many listen.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// Where a listener stands once it has it.
    pub(super) id: String,
    /// The envelope.
    pub(super) json: Utf8Bytes,
}

#[derive(Serialize)]
struct Envelope<'e> {
    v: u8,
    id: &'e str,
    event: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'e RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<&'e WorkflowName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'e StepId>,
    /// Counted from 1, as people do.
    #[serde(skip_serializing_if = "Option::is_none")]
    step_number: Option<u16>,
    at: String,
    payload: Value,
    meta: Meta<'e>,
}

#[derive(Default, Serialize)]
struct Meta<'e> {
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<Environment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<TraceContext>,
}

/// The envelopes of an entry of a run's chain; `id` names each by its number among them.
pub(super) fn of_event<P>(
    (record, plan): (&RunRecord, &Plan),
    event: &Event,
    mut id: impl FnMut(u8) -> P,
) -> Vec<(P, Line)>
where
    P: ToString,
{
    let told = event_json(plan, event);
    let payload = json!({ "text": told["text"], "event": told["event"] });
    let one = |(part, kind): (u8, Kind)| {
        let place = id(part);
        let step = plan.step(event.seq).filter(|_| !kind.is_about_the_run());
        let line = written(&Envelope {
            v: VERSION,
            id: &place.to_string(),
            event: kind.as_str(),
            run: Some(&record.key.run),
            workflow: Some(&record.workflow),
            step: step.map(|step| &step.id),
            step_number: step.map(|_| event.seq.0 + 1),
            at: moment(event.at),
            payload: payload.clone(),
            meta: Meta {
                worker: worker(event),
                environment: Some(plan.environment),
                traceparent: Some(record.story()),
            },
        });
        (place, line)
    };
    (0..).zip(kinds(event)).map(one).collect()
}

/// What the stream says of itself: which type, and what that means.
pub(super) fn of_stream(turn: Turn, at: domain::Timestamp, (event, text): (&str, &str)) -> Line {
    written(&Envelope {
        v: VERSION,
        id: &turn.to_string(),
        event,
        run: None,
        workflow: None,
        step: None,
        step_number: None,
        at: moment(at),
        payload: json!({ "text": text }),
        meta: Meta::default(),
    })
}

fn written(envelope: &Envelope<'_>) -> Line {
    // Names, numbers and JSON values: there is nothing in it that JSON could not hold.
    let json = serde_json::to_string(envelope).unwrap_or_default();
    Line { id: envelope.id.to_owned(), json: json.into() }
}

/// Who worked, if a worker did.
fn worker(event: &Event) -> Option<&str> {
    match &event.body {
        EventBody::StepSucceeded { attempt: Some(attempt), .. }
        | EventBody::StepRolledBack { attempt: Some(attempt), .. } => Some(attempt.worker.as_str()),
        EventBody::RunAdmitted { .. } => None,
        _ => Some(event.by.id.as_str()).filter(|_| event.by.cause == Cause::System),
    }
}
