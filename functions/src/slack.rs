//! A click in Slack: the signature first, then who it was, then the engine.
//!
//! Slack must be answered within three seconds, and is always answered with 200 once the signature holds:
//! whoever clicked is told in Slack what came of it, and Slack itself need not try again. A click that comes
//! twice is turned away while it is remembered; afterwards its answer counts once all the same, because an
//! approval is decided once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::{Digest, TenantId, Timestamp};
use engine::{Engine, EngineError, Reply};
use notify::{Click, Interaction, Secrets, Slack, Unanswerable, answerer, card, interaction, signature};
use store::Store;

/// What is left of Slack's three seconds after the engine has answered.
const TELL_WITHIN: Duration = Duration::from_millis(1_200);

/// More clicks than this within five minutes are not people.
const REMEMBERED_MAX: usize = 4_096;

/// Where clicks of one tenant's Slack come in.
pub struct SlackDoor {
    /// What Slack signs with.
    pub secrets: Secrets,
    /// How people are told what came of a click.
    pub slack: Slack,
    /// Whose approvals these clicks can answer.
    pub tenant: TenantId,
    seen: Mutex<VecDeque<Digest>>,
}

impl SlackDoor {
    /// A door for `tenant`.
    pub fn new(tenant: TenantId, secrets: Secrets, slack: Slack) -> Self {
        Self { secrets, slack, tenant, seen: Mutex::default() }
    }

    /// Whether this very request has come before.
    fn is_repeated(&self, key: Digest) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(&key) {
            return true;
        }
        if seen.len() >= REMEMBERED_MAX {
            seen.pop_front();
        }
        seen.push_back(key);
        false
    }
}

/// A request as it came in, before anything is believed of it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// `X-Slack-Request-Timestamp`.
    pub timestamp: Option<&'a str>,
    /// `X-Slack-Signature`.
    pub signature: Option<&'a str>,
    /// The raw bytes.
    pub body: &'a [u8],
}

/// What is replied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The body, which says no more than it must.
    pub body: String,
}

impl Response {
    fn new(status: u16, body: &str) -> Self {
        Self { status, body: body.to_owned() }
    }

    fn accepted() -> Self {
        Self::new(200, "")
    }
}

/// A person pressed a button, or gave a reason.
pub async fn interaction<S: Store>(engine: &Engine<S>, door: &SlackDoor, request: Request<'_>) -> Response {
    let Request { timestamp, signature, body } = request;
    let now: Timestamp = engine.now();
    if let Err(fault) = signature::verify(&door.secrets, timestamp, signature, body, now) {
        tracing::warn!(%fault, "a request to the Slack door is not from Slack");
        return Response::new(401, "the signature does not hold");
    }
    if door.is_repeated(signature::replay_key(body, signature.unwrap_or_default())) {
        return Response::new(409, "this request has come before");
    }
    match interaction::parse(body, &door.slack.hooks()) {
        Err(fault) => {
            tracing::warn!(%fault, "an interaction cannot be used");
            Response::new(400, "the interaction cannot be used")
        }
        Ok(Interaction::WantsToReject(click)) => {
            within(door.slack.ask_reason(&click)).await;
            Response::accepted()
        }
        Ok(Interaction::Answered(click)) => {
            match (answer(engine, door, &click).await, &click.response_url) {
                (None, _) => Response::accepted(),
                (Some(words), Some(_)) => {
                    within(door.slack.tell(&click, &words)).await;
                    Response::accepted()
                }
                // A window has nowhere else to be told: it stays open and shows why.
                (Some(words), None) => Response::new(200, &card::refused(&words)),
            }
        }
    }
}

/// Hands the answer to the engine; gives back what the person must be told, if it does not count.
async fn answer<S: Store>(engine: &Engine<S>, door: &SlackDoor, click: &Click) -> Option<String> {
    let approval = match engine.approval(&door.tenant, &click.approval).await {
        Ok(approval) => approval,
        // The same words for what is not there and for what is somebody else's.
        Err(EngineError::Refused(_)) => return Some(Unanswerable::OtherApproval.to_string()),
        Err(error) => return Some(told(&error)),
    };
    let tenant = match engine.tenant(&door.tenant).await {
        Ok(tenant) => tenant,
        Err(error) => return Some(told(&error)),
    };
    let person = match answerer(click, &approval, &tenant) {
        Ok(person) => person,
        Err(unanswerable) => return Some(unanswerable.to_string()),
    };
    let reply = Reply {
        approval: approval.id,
        subject: Some(click.subject),
        person,
        approve: click.approve,
        reason: click.reason.clone(),
        through: click.through(),
    };
    Box::pin(engine.answer(&door.tenant, reply)).await.err().map(|error| told(&error))
}

fn told(error: &EngineError) -> String {
    match error {
        EngineError::Refused(refusal) => refusal.to_string(),
        other => {
            tracing::warn!(error = %other, "a click was not recorded");
            "Your answer could not be recorded. Nothing has changed; please click again.".to_owned()
        }
    }
}

/// What Slack is told is a courtesy: it must not keep Slack waiting.
async fn within(telling: impl Future<Output = Result<(), notify::Fault>>) {
    match tokio::time::timeout(TELL_WITHIN, telling).await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => tracing::warn!(%fault, "whoever clicked was not told"),
        Err(_) => tracing::warn!("whoever clicked was not told in time"),
    }
}
