//! The handlers for Slack: interactions, shortcuts and slash commands.
//!
//! Every request is signed the same way and verified before it is parsed. Slack waits three seconds for a response; time
//! limits on the store and on calls to Slack keep the response within that time.

mod command;
mod installations;
mod interaction;
mod shortcut;
mod start;

use bytes::Bytes;
use domain::{Millis, Source, TenantId};
use engine::Engine;
use http::{Request, Response, StatusCode};
use store::Store;

use crate::response;
pub use command::command;
pub use installations::{SlackInstallation, SlackInstallations};
pub use interaction::interaction;

/// How long the engine may take; its own retries with a busy store take longer. Together with the secrets before
/// (`LOAD_WITHIN`) and the call to Slack afterwards (`SLACK_CALL_WITHIN`) this leaves half a second of Slack's three for
/// the network.
const ENGINE_WITHIN: Millis = Millis(1_100);

/// The reply if the store does not respond.
const UNAVAILABLE: &str = "Countersign is temporarily unavailable. Please try again.";

/// Handles a request to `/slack/interactions/TENANT` or `/slack/commands/TENANT`. The path can start with the name of a
/// gateway's stage.
pub async fn handle<S: Store>(
    engine: &Engine<S>,
    installations: &SlackInstallations,
    request: &Request<Bytes>,
) -> Response<String> {
    let segments: Vec<&str> = request.uri().path().split('/').collect();
    let [.., "slack", route @ ("interactions" | "commands"), tenant] = &*segments else { return refused() };
    let Ok(tenant) = tenant.parse::<TenantId>() else { return refused() };
    let Some(apps) = installations.of(engine, &tenant).await else { return unavailable() };
    match (*route, apps.of_request(request, engine.now())) {
        ("interactions", Some(app)) => Box::pin(interaction(engine, app, request)).await,
        (_, Some(app)) => command(engine, app, request).await,
        // An app whose secret could not be fetched may have signed it.
        (_, None) if !apps.is_complete() => unavailable(),
        (_, None) => refused(),
    }
}

/// A tenant without an app gets the same response as an invalid signature.
fn refused() -> Response<String> {
    engine::metrics::delivery_refused(None, Source::Slack.as_str(), "unauthenticated");
    unsigned()
}

/// The user sees that the request failed, and can click again.
fn unavailable() -> Response<String> {
    response::text(StatusCode::SERVICE_UNAVAILABLE, "try again")
}

/// The result of `call`, or `None` if the engine does not answer in time.
///
/// The call is then dropped, as if the process had died. Every command survives that: a commit is applied or not, and the
/// sweep sends its outstanding messages; a start has sent a message in advance. Retrying is safe: an approval is decided
/// once, and a modal that is submitted again is the same request.
async fn with_time_limit<T>(call: impl Future<Output = T>) -> Option<T> {
    let result = tokio::time::timeout(ENGINE_WITHIN.std(), call).await.ok();
    if result.is_none() {
        tracing::warn!(event = "slack_timeout", timeout_ms = ENGINE_WITHIN.0, "engine call timed out");
    }
    result
}

/// The response to a signed request from another workspace than that of the app.
fn other_workspace() -> Response<String> {
    response::text(StatusCode::FORBIDDEN, "other workspace")
}

/// The response to a request that Slack did not sign for this tenant.
pub fn unsigned() -> Response<String> {
    response::text(StatusCode::UNAUTHORIZED, "invalid signature")
}
