//! What people do in Slack without typing a command: the signature first, then who it was, then the engine.
//!
//! Slack must be answered within three seconds, and is always answered with 200 once the signature holds:
//! whoever clicked is told in Slack what came of it, or that nobody knows yet, and Slack itself need not try
//! again. A click that comes twice is turned away while it is remembered; afterwards its answer counts once all
//! the same, because an approval is decided once.

use std::time::Duration;

use ::slack::{Click, Interaction, Unanswerable, answerer, card, interaction, signature};
use engine::{Engine, EngineError, Reply};
use store::Store;

use super::{Request, Response, SlackInstallation, in_time, shortcut};

/// How long Slack may take to hear what came of it, after the engine has had its time (`ENGINE_WITHIN`).
const TELL_WITHIN: Duration = Duration::from_millis(1_200);

/// What is said where the store did not answer, or not in time: the answer may have been recorded all the same.
const NOT_KNOWN: &str = "It is not known yet whether your answer was recorded. Please look at the card again in \
                         a moment; if it still asks, click again: an answer counts once.";

/// A person pressed a button, gave a reason, or asked for a run.
pub async fn interaction<S: Store>(
    engine: &Engine<S>,
    door: &SlackInstallation,
    request: Request<'_>,
) -> Response {
    if let Err(response) = door.check(&request, engine.now()) {
        return response;
    }
    if door.is_repeated(signature::replay_key(request.body, request.signature.unwrap_or_default())) {
        return Response::text(409, "this request has come before");
    }
    match interaction::parse(request.body, &door.slack.hooks()) {
        Err(fault) => {
            tracing::warn!(%fault, "an interaction cannot be used");
            Response::text(400, "the interaction cannot be used")
        }
        Ok(Interaction::WantsToReject(click)) => {
            within(door.slack.ask_reason(&click)).await;
            accepted()
        }
        Ok(Interaction::WantsToStart(shortcut)) => {
            let view = shortcut::offered(engine, door, &shortcut).await;
            within(door.slack.open(&shortcut, &view)).await;
            accepted()
        }
        Ok(Interaction::Starts(filled)) => shortcut::started(engine, door, &filled).await,
        Ok(Interaction::Answered(click)) => {
            let words = in_time(Box::pin(answer(engine, door, &click))).await;
            match (words.unwrap_or_else(|| Some(NOT_KNOWN.to_owned())), &click.response_url) {
                (None, _) => accepted(),
                (Some(words), Some(_)) => {
                    within(door.slack.tell(&click, &words)).await;
                    accepted()
                }
                // A window has nowhere else to be told: it stays open and shows why.
                (Some(words), None) => Response::json_text(200, card::refused(&words)),
            }
        }
    }
}

/// Slack need not try again, and has nothing to show.
pub(super) fn accepted() -> Response {
    Response::text(200, "")
}

/// Hands the answer to the engine; gives back what the person must be told, if it does not count.
async fn answer<S: Store>(engine: &Engine<S>, door: &SlackInstallation, click: &Click) -> Option<String> {
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
    Box::pin(engine.answer_on(&approval.run, &tenant, reply)).await.err().map(|error| told(&error))
}

fn told(error: &EngineError) -> String {
    match error {
        EngineError::Refused(refusal) => {
            tracing::info!(code = %refusal.code(), "refused");
            refusal.to_string()
        }
        other => {
            tracing::warn!(error = %other, "a click was not recorded");
            NOT_KNOWN.to_owned()
        }
    }
}

/// What Slack is told is a courtesy: it must not keep Slack waiting.
pub(super) async fn within(telling: impl Future<Output = Result<(), ::slack::Fault>>) {
    match tokio::time::timeout(TELL_WITHIN, telling).await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => tracing::warn!(%fault, "whoever clicked was not told"),
        Err(_) => tracing::warn!("whoever clicked was not told in time"),
    }
}
