//! Slack interactions: buttons, modals and shortcuts. The handler verifies the signature, maps the Slack user to a
//! person, and calls the engine.
//!
//! Slack requires a response within three seconds. After the signature is verified the response is always 200, so Slack
//! does not retry; the user reads the outcome, or that it is not known yet, in Slack. A repeated request is rejected
//! while the process remembers it. After that it has no effect, because an approval is decided once.

use ::slack::{Click, Interaction, InvalidClick, approver_of, card, interaction, signature};
use bytes::Bytes;
use domain::Millis;
use engine::{Engine, EngineError, VoteRequest};
use http::{Request, Response, StatusCode};
use store::Store;

use super::{SlackInstallation, other_workspace, shortcut, unsigned, with_time_limit};
use crate::response::{self, single_header};

/// How long a call to Slack may take, after the time for the engine (`ENGINE_WITHIN`).
const SLACK_CALL_WITHIN: Millis = Millis(900);

/// For a store that did not answer in time: it may have recorded the decision.
const OUTCOME_UNKNOWN: &str = "It is not known yet whether your decision was recorded. Check the card again. If it \
                               still has buttons, click again: a decision counts once.";

/// Handles a button, a submitted modal, or a shortcut.
pub async fn interaction<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    request: &Request<Bytes>,
) -> Response<String> {
    if !installation.is_signed(request, engine.now()) {
        return unsigned();
    }
    let signature = single_header(request.headers(), signature::SIGNATURE_HEADER).unwrap_or_default();
    if installation.is_repeated(signature::replay_key(request.body(), signature)) {
        return response::text(StatusCode::CONFLICT, "duplicate request");
    }
    match interaction::parse(request.body(), &installation.slack.response_origin()) {
        Err(error) => {
            installation.count_refused("invalid_request");
            tracing::warn!(event = "slack_request_invalid", tenant = %installation.tenant, %error, "invalid Slack interaction");
            response::text(StatusCode::BAD_REQUEST, "invalid interaction")
        }
        Ok(parsed) if !installation.is_from_own_workspace(parsed.team()) => other_workspace(),
        Ok(parsed) => act(engine, installation, parsed).await,
    }
}

async fn act<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    interaction: Interaction,
) -> Response<String> {
    match interaction {
        Interaction::RejectPressed(click) => {
            call_slack(installation.slack.open_reject_modal(&click)).await;
            accepted()
        }
        Interaction::ShortcutUsed(shortcut) => {
            let view = shortcut::modal(engine, installation, &shortcut).await;
            call_slack(installation.slack.open_modal(&shortcut, &view)).await;
            accepted()
        }
        Interaction::StartSubmitted(form) => shortcut::submit(engine, installation, &form).await,
        Interaction::Decision(click) => {
            let text = with_time_limit(Box::pin(record_decision(engine, installation, &click))).await;
            match (text.unwrap_or_else(|| Some(OUTCOME_UNKNOWN.to_owned())), &click.response_url) {
                (None, _) => accepted(),
                (Some(text), Some(_)) => {
                    call_slack(installation.slack.reply_privately(&click, &text)).await;
                    accepted()
                }
                // A modal has no response URL: it stays open and shows the text.
                (Some(text), None) => response::json_text(StatusCode::OK, card::reject_error(&text)),
            }
        }
    }
}

/// An empty 200: Slack does not retry and shows nothing.
pub(super) fn accepted() -> Response<String> {
    response::text(StatusCode::OK, "")
}

/// Passes the decision to the engine. Returns the text for the user if the decision does not count.
async fn record_decision<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    click: &Click,
) -> Option<String> {
    let approval = match engine.governance().approval(&installation.tenant, &click.approval).await {
        Ok(approval) => approval,
        // An unknown approval and one of another tenant get the same text.
        Err(EngineError::Refused(_)) => return Some(InvalidClick::OtherApproval.to_string()),
        Err(error) => return Some(error_text(&error)),
    };
    let tenant = match engine.governance().tenant(&installation.tenant).await {
        Ok(tenant) => tenant,
        Err(error) => return Some(error_text(&error)),
    };
    let person = match approver_of(click, &approval, &tenant) {
        Ok(person) => person,
        Err(error) => return Some(error.to_string()),
    };
    if click.approve
        && let Some(text) = card::incomplete(&approval, installation.slack.console())
    {
        return Some(text);
    }
    let reply = VoteRequest {
        approval: approval.id,
        subject: Some(click.subject),
        person,
        approve: click.approve,
        reason: click.reason.clone(),
        through: click.through(),
    };
    Box::pin(engine.governance().record_vote_on(&approval.run, &tenant, reply))
        .await
        .err()
        .map(|error| error_text(&error))
}

fn error_text(error: &EngineError) -> String {
    match error {
        EngineError::Refused(refusal) => {
            tracing::info!(event = "request_refused", code = %refusal.code(), "request refused");
            refusal.to_string()
        }
        other => {
            tracing::warn!(event = "slack_decision_failed", error = %engine::error_chain(other), "approval decision failed");
            OUTCOME_UNKNOWN.to_owned()
        }
    }
}

/// Calls Slack with a time limit. The call is best effort and must not delay the response to Slack.
pub(super) async fn call_slack(call: impl Future<Output = Result<(), ::slack::SlackError>>) {
    match tokio::time::timeout(SLACK_CALL_WITHIN.std(), call).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(event = "slack_reply_failed", %error, "reply to the Slack user failed");
        }
        Err(_) => {
            tracing::warn!(
                event = "slack_reply_failed",
                timeout_ms = SLACK_CALL_WITHIN.0,
                "reply to the Slack user timed out"
            );
        }
    }
}
