//! Parses an authenticated delivery into an [`InboundEvent`]: its idempotency key, its subject, and the body that a
//! workflow reads.
//!
//! Keys are permanent, so they are built from validated or hashed parts, never from raw text.

use domain::{Digest, IdempotencyKey, RecordName, Source, json};
use engine::InboundEvent;
use http::HeaderMap;
use serde_json::{Value, json};

use super::auth::Sender;
use super::github_event;
use crate::response::single_header;

/// The limit for the name of a table or of an event; the trigger of a workflow has the same limit.
const WORD_BYTES_MAX: usize = 80;

/// A UUID has 36 characters, a `sys_id` 32.
const ID_BYTES_MAX: usize = 64;

/// The limit for a sender's own request id. The id is hashed, so the limit only rejects nonsense.
const OWN_ID_BYTES_MAX: usize = 512;

/// Why a delivery is not a valid event. The texts contain nothing of the delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidEvent {
    #[error("`{0}` is missing or invalid")]
    Field(&'static str),
    #[error("header `{0}` is missing or invalid")]
    Header(&'static str),
    #[error("this source does not deliver webhooks")]
    Source,
    #[error("`tenant` differs from the tenant in the path")]
    OtherTenant,
    #[error("the body is not the payload of the event in header `x-github-event`")]
    OtherEvent,
}

/// The event that `sender` delivered. `None` for GitHub's `ping`.
pub(super) fn event(
    sender: Sender,
    headers: &HeaderMap,
    body: Value,
) -> Result<Option<InboundEvent>, InvalidEvent> {
    check_tenant(&sender, &body)?;
    match sender.source {
        Source::ServiceNow => servicenow(sender, body).map(Some),
        Source::GitHub => github(sender, headers, &body),
        Source::Webhook => webhook(sender, &body).map(Some),
        Source::Api | Source::Slack | Source::Schedule => Err(InvalidEvent::Source),
    }
}

/// A body may name its tenant. Another tenant than the path's means that the sender uses the wrong address.
fn check_tenant(sender: &Sender, body: &Value) -> Result<(), InvalidEvent> {
    match body.get("tenant") {
        None => Ok(()),
        Some(Value::String(named)) if named == sender.tenant.as_str() => Ok(()),
        Some(_) => Err(InvalidEvent::OtherTenant),
    }
}

fn servicenow(sender: Sender, body: Value) -> Result<InboundEvent, InvalidEvent> {
    let table = word(body["table"].as_str(), WORD_BYTES_MAX).ok_or(InvalidEvent::Field("table"))?;
    let record = body["record"].as_object().ok_or(InvalidEvent::Field("record"))?;
    let sys_id = record.get("sys_id").and_then(Value::as_str);
    let sys_id = word(sys_id, ID_BYTES_MAX).ok_or(InvalidEvent::Field("record.sys_id"))?;
    // The last part of the key identifies the version of the record.
    let version = match (record.get("sys_mod_count"), record.get("sys_updated_on")) {
        (Some(count), _) => {
            whole_number(count).ok_or(InvalidEvent::Field("record.sys_mod_count"))?.to_string()
        }
        (None, Some(Value::String(time))) => hash_part("updated-on", time),
        (None, Some(_)) => return Err(InvalidEvent::Field("record.sys_updated_on")),
        (None, None) => json::digest("countersign/delivered-body/v1", &body).to_string(),
    };
    let topic = Some(table.to_owned());
    let key = key(&format!("servicenow:{table}:{sys_id}:{version}"), "record")?;
    let record = RecordName::new(&format!("servicenow:{table}:{sys_id}")).ok();
    Ok(InboundEvent { topic, record, ..sender.event(key, body) })
}

/// GitHub does not sign the headers, so a workflow sees only the one it needs: the event, which must fit the body. GitHub
/// gives each event one delivery id, also when it delivers the event to several hooks or again. So the delivery id is the
/// key, and the same bytes with another delivery id are another event: an event without a time can happen again.
fn github(
    mut sender: Sender,
    headers: &HeaderMap,
    body: &Value,
) -> Result<Option<InboundEvent>, InvalidEvent> {
    let header =
        |name, bytes_max| word(single_header(headers, name), bytes_max).ok_or(InvalidEvent::Header(name));
    let event = header("x-github-event", WORD_BYTES_MAX)?;
    let delivery = header("x-github-delivery", ID_BYTES_MAX)?;
    if !body.is_object() {
        return Err(InvalidEvent::Field("body"));
    }
    if event == "ping" {
        return Ok(None);
    }
    if !github_event::can_have_payload(event, body) {
        return Err(InvalidEvent::OtherEvent);
    }
    let key = key(&format!("github:{delivery}"), "x-github-delivery")?;
    sender.include_delivery_id(delivery);
    Ok(Some(InboundEvent {
        topic: Some(event.to_owned()),
        record: github_record(body),
        dedupe_key: pull_request_dedupe_key(event, body),
        ..sender.event(key, json!({ "event": event, "body": body }))
    }))
}

/// Top-level fields that depend on the hook that delivers an event, and not on the event.
const DELIVERY_METADATA: [&str; 5] = ["hook", "hook_id", "installation", "organization", "enterprise"];

/// Identifies an event about a pull request. Hooks and apps that subscribe to it can deliver it several times, each time
/// with the metadata of the hook. Events with any other difference are two events, even at the same time.
fn pull_request_dedupe_key(event: &str, body: &Value) -> Option<Digest> {
    let mut content = body.as_object().filter(|body| body.contains_key("pull_request"))?.clone();
    content.retain(|name, _| !DELIVERY_METADATA.contains(&name.as_str()));
    Some(json::digest("countersign/pull-request-event/v3", &(event, content)))
}

/// The issue, pull request or repository of an event. `None` if the names are not valid in a record name; the event is
/// accepted all the same.
fn github_record(body: &Value) -> Option<RecordName> {
    let repository = body["repository"]["full_name"].as_str()?;
    let numbered = ["pull_request", "issue"].map(|kind| body[kind]["number"].as_u64());
    let number = numbered.into_iter().flatten().next();
    let suffix = number.map(|number| format!("#{number}")).unwrap_or_default();
    RecordName::new(&format!("github:{repository}{suffix}")).ok()
}

/// Headers are not signed, so the key comes from the body: its `id`, or a hash of all of it. A valid record name in
/// `record` becomes the record of the event.
fn webhook(sender: Sender, body: &Value) -> Result<InboundEvent, InvalidEvent> {
    let key_text = match body.get("id") {
        None => format!("webhook:body:{}", json::digest("countersign/delivered-body/v1", body)),
        Some(Value::String(id)) if (1..=OWN_ID_BYTES_MAX).contains(&id.len()) => {
            format!("webhook:id:{}", hash_part("text", id))
        }
        Some(id) => format!("webhook:number:{}", whole_number(id).ok_or(InvalidEvent::Field("id"))?),
    };
    let record = body["record"].as_str().and_then(|record| record.parse().ok());
    Ok(InboundEvent { record, ..sender.event(key(&key_text, "id")?, json!({ "body": body })) })
}

fn key(text: &str, field: &'static str) -> Result<IdempotencyKey, InvalidEvent> {
    text.parse().map_err(|_| InvalidEvent::Field(field))
}

/// `text`, if it is one word without a delimiter of the key.
fn word(text: Option<&str>, bytes_max: usize) -> Option<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    text.filter(|text| (1..=bytes_max).contains(&text.len()) && text.chars().all(plain))
}

/// A whole number, or a string of digits: ServiceNow sends all values as strings.
fn whole_number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

fn hash_part(label: &str, text: &str) -> String {
    Digest::of_parts("countersign/delivered/v1", &[label, text]).to_string()
}
