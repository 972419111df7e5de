//! The envelope of an event.

use axum::extract::ws::Utf8Bytes;
use domain::plan::Environment;
use domain::{Cause, Event, EventBody, Plan, RunId, RunRecord, StepId, TraceContext, WorkflowName};
use serde::Serialize;
use serde_json::{Value, json};
use views::event_json;
use views::time::rfc3339_millis;

use super::ids::TenantEventId;
use super::kind::{Kind, kinds};

/// The version of the envelope. It changes if a field is removed or gets another meaning, not if one is added.
const VERSION: u8 = 1;

/// A serialized envelope, shared by all listeners.
#[derive(Debug, Clone)]
pub(super) struct Encoded {
    /// The id to resume from after this envelope.
    pub(super) id: String,
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
    /// Counts from 1.
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

/// The envelopes of an event of a chain. `id` makes the id of each from its index.
pub(super) fn event_envelopes<P>(
    (record, plan): (&RunRecord, &Plan),
    event: &Event,
    mut id: impl FnMut(u8) -> P,
) -> Vec<(P, Encoded)>
where
    P: ToString,
{
    let document = event_json(plan, event);
    let payload = json!({ "text": document["text"], "event": document["event"] });
    let one = |(part, kind): (u8, Kind)| {
        let id = id(part);
        let step = plan.step(event.seq).filter(|_| !kind.is_about_the_run());
        let envelope = encode(&Envelope {
            v: VERSION,
            id: &id.to_string(),
            event: kind.as_str(),
            run: Some(&record.key.run),
            workflow: Some(&record.workflow),
            step: step.map(|step| &step.id),
            step_number: step.map(|_| event.seq.0 + 1),
            at: rfc3339_millis(event.at),
            payload: payload.clone(),
            meta: Meta {
                worker: worker(event),
                environment: Some(plan.environment),
                traceparent: Some(record.trace_context()),
            },
        });
        (id, envelope)
    };
    (0..).zip(kinds(event)).map(one).collect()
}

/// An envelope about the stream itself, with its type and text.
pub(super) fn stream_envelope(
    turn: TenantEventId,
    at: domain::Timestamp,
    (event, text): (&str, &str),
) -> Encoded {
    encode(&Envelope {
        v: VERSION,
        id: &turn.to_string(),
        event,
        run: None,
        workflow: None,
        step: None,
        step_number: None,
        at: rfc3339_millis(at),
        payload: json!({ "text": text }),
        meta: Meta::default(),
    })
}

fn encode(envelope: &Envelope<'_>) -> Encoded {
    // Names, numbers and JSON values always serialize.
    let json = serde_json::to_string(envelope).unwrap_or_default();
    Encoded { id: envelope.id.to_owned(), json: json.into() }
}

/// The worker that caused the event, if one did.
fn worker(event: &Event) -> Option<&str> {
    match &event.body {
        EventBody::StepSucceeded { attempt: Some(attempt), .. }
        | EventBody::StepRolledBack { attempt: Some(attempt), .. } => Some(attempt.worker.as_str()),
        EventBody::RunAdmitted { .. } => None,
        _ => Some(event.by.id.as_str()).filter(|_| event.by.cause == Cause::System),
    }
}
