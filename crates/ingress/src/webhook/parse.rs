//! What was delivered: which request it is, what it is about, and what a workflow gets to see of it.
//!
//! The key names the request for ever, so it is made of parts that are checked or hashed, never of raw text.

use domain::{Digest, IdempotencyKey, RecordName, Source, json};
use serde_json::{Value, json};

use crate::http::Headers;

/// The name of a table or of an event is a word; a workflow's trigger allows as much.
const WORD_BYTES_MAX: usize = 80;

/// A UUID has 36 characters, a `sys_id` 32.
const ID_BYTES_MAX: usize = 64;

/// What a sender may call its own requests. It is hashed, so this is only about nonsense.
const OWN_ID_BYTES_MAX: usize = 512;

/// What was delivered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ParsedEvent {
    pub(super) key: IdempotencyKey,
    pub(super) about: Option<String>,
    pub(super) record: Option<RecordName>,
    /// Stands for what it tells, where the same may be told twice in other words.
    pub(super) dedupe_key: Option<Digest>,
    pub(super) body: Value,
}

/// Why a delivery cannot be used. No text of the delivery stands in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unusable {
    #[error("`{0}` is missing or not what it should be")]
    Field(&'static str),
    #[error("the header `{0}` is missing or not what it should be")]
    Header(&'static str),
    #[error("nothing is delivered to this address")]
    NoDoor,
    #[error("`tenant` is not the one whose address this was sent to")]
    OtherTenant,
}

impl ParsedEvent {
    /// Reads what `source` delivered. Nothing, if it only asked whether somebody is there.
    pub(super) fn read(source: Source, headers: &Headers<'_>, body: Value) -> Result<Option<Self>, Unusable> {
        match source {
            Source::ServiceNow => servicenow(body).map(Some),
            Source::GitHub => github(headers, &body),
            Source::Webhook => webhook(&body).map(Some),
            Source::Api | Source::Slack | Source::Schedule => Err(Unusable::NoDoor),
        }
    }
}

fn servicenow(body: Value) -> Result<ParsedEvent, Unusable> {
    let table = word(body["table"].as_str(), WORD_BYTES_MAX).ok_or(Unusable::Field("table"))?;
    let record = body["record"].as_object().ok_or(Unusable::Field("record"))?;
    let sys_id = record.get("sys_id").and_then(Value::as_str);
    let sys_id = word(sys_id, ID_BYTES_MAX).ok_or(Unusable::Field("record.sys_id"))?;
    // The third part says which state of the record this is about.
    let state = match (record.get("sys_mod_count"), record.get("sys_updated_on")) {
        (Some(count), _) => whole(count).ok_or(Unusable::Field("record.sys_mod_count"))?.to_string(),
        (None, Some(Value::String(moment))) => hashed("updated-on", moment),
        (None, Some(_)) => return Err(Unusable::Field("record.sys_updated_on")),
        (None, None) => json::digest("countersign/delivered-body/v1", &body).to_string(),
    };
    let about = Some(table.to_owned());
    let key = key(&format!("servicenow:{table}:{sys_id}:{state}"), "record")?;
    let record = RecordName::new(&format!("servicenow:{table}:{sys_id}")).ok();
    Ok(ParsedEvent { key, about, record, dedupe_key: None, body })
}

/// The headers are not signed, so a workflow sees only the one it needs: the event. The delivery's id is the
/// key; the same bytes under another id are recognised by their proof.
fn github(headers: &Headers<'_>, body: &Value) -> Result<Option<ParsedEvent>, Unusable> {
    let header = |name, bytes_max| word(headers.only(name), bytes_max).ok_or(Unusable::Header(name));
    let event = header("x-github-event", WORD_BYTES_MAX)?;
    let delivery = header("x-github-delivery", ID_BYTES_MAX)?;
    if !body.is_object() {
        return Err(Unusable::Field("body"));
    }
    if event == "ping" {
        return Ok(None);
    }
    let key = key(&format!("github:{delivery}"), "x-github-delivery")?;
    let (about, record, dedupe_key) =
        (Some(event.to_owned()), on_github(body), told_of_a_pull_request(event, body));
    Ok(Some(ParsedEvent { key, about, record, dedupe_key, body: json!({ "event": event, "body": body }) }))
}

/// What something is done to on a pull request, beside its commit: each is an object with an `id`.
const DONE_TO: [&str; 7] =
    ["review", "comment", "label", "assignee", "requested_reviewer", "requested_team", "milestone"];

/// Stands for what happened to a pull request. GitHub tells it once to every hook and app that asks, and again when
/// somebody presses a button, each time in other bytes. What was done is part of it, and to which commit, review,
/// comment, label or person: those that differ are two things that happened, however soon after each other.
fn told_of_a_pull_request(event: &str, body: &Value) -> Option<Digest> {
    let number = body["pull_request"]["number"].as_u64()?.to_string();
    let (repository_id, full_name) = (&body["repository"]["id"], &body["repository"]["full_name"]);
    let repository = repository_id.as_u64().map(|id| id.to_string());
    let repository = repository.or_else(|| full_name.as_str().map(str::to_owned))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let id = |value: &Value| value.as_u64().map(|id| id.to_string()).unwrap_or_default();
    let (action, commit) = (text(&body["action"]), text(&body["pull_request"]["head"]["sha"]));
    let to = DONE_TO.map(|what| id(&body[what]["id"]));
    let thread = text(&body["thread"]["node_id"]);
    let parts = [event, &repository, &number, &action, &commit, &thread]
        .into_iter()
        .chain(to.iter().map(String::as_str));
    Some(Digest::of_parts("countersign/pull-request-told/v2", &parts.collect::<Vec<_>>()))
}

/// The issue or pull request that an event is about, or else the repository. Of what does not look like one there is
/// no record, which keeps nothing from happening.
fn on_github(body: &Value) -> Option<RecordName> {
    let repository = body["repository"]["full_name"].as_str()?;
    let numbered = ["pull_request", "issue"].map(|kind| body[kind]["number"].as_u64());
    let number = numbered.into_iter().flatten().next();
    let place = number.map(|number| format!("#{number}")).unwrap_or_default();
    RecordName::new(&format!("github:{repository}{place}")).ok()
}

/// Headers are not signed, so what names the request stands in the body: its `id`, or all of it. A `record` that is
/// named as we name them is what it is about.
fn webhook(body: &Value) -> Result<ParsedEvent, Unusable> {
    let key_text = match body.get("id") {
        None => format!("webhook:body:{}", json::digest("countersign/delivered-body/v1", body)),
        Some(Value::String(id)) if (1..=OWN_ID_BYTES_MAX).contains(&id.len()) => {
            format!("webhook:id:{}", hashed("text", id))
        }
        Some(id) => format!("webhook:number:{}", whole(id).ok_or(Unusable::Field("id"))?),
    };
    let record = body["record"].as_str().and_then(|record| record.parse().ok());
    let body = json!({ "body": body });
    Ok(ParsedEvent { key: key(&key_text, "id")?, about: None, record, dedupe_key: None, body })
}

fn key(text: &str, field: &'static str) -> Result<IdempotencyKey, Unusable> {
    text.parse().map_err(|_| Unusable::Field(field))
}

/// `text`, if it is one word without anything that joins the parts of a key.
fn word(text: Option<&str>, bytes_max: usize) -> Option<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    text.filter(|text| (1..=bytes_max).contains(&text.len()) && text.chars().all(plain))
}

/// A whole number, also where it is written as a text: ServiceNow writes all its values so.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

fn hashed(what: &str, text: &str) -> String {
    Digest::of_parts("countersign/delivered/v1", &[what, text]).to_string()
}
