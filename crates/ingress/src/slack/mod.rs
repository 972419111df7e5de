//! The handlers for Slack: interactions, shortcuts and slash commands.
//!
//! Every request is signed the same way and verified before it is parsed. Slack waits three seconds for a response; time
//! limits on the store and on calls to Slack keep the response within that time.

mod command;
mod interaction;
mod shortcut;
mod start;

use std::collections::{BTreeMap, VecDeque};

use ::slack::{Secrets, Slack, signature};
use bytes::Bytes;
use domain::{Digest, Millis, Source, TenantId, Timestamp};
use engine::Engine;
use http::{Request, Response, StatusCode};
use parking_lot::Mutex;
use store::Store;

use crate::response::{self, single_header};
pub use command::command;
pub use interaction::interaction;

/// Users do not click more often than this within the five minutes for which a signature is valid.
const REMEMBERED_MAX: usize = 4_096;

/// How long the engine may take; its own retries with a busy store take longer. Together with the call to Slack
/// afterwards (`SLACK_CALL_WITHIN`) this leaves more than half a second of Slack's three for the network.
const ENGINE_WITHIN: Millis = Millis(1_200);

/// The reply if the store does not respond.
const UNAVAILABLE: &str = "Countersign is temporarily unavailable. Please try again.";

/// The Slack app of one tenant.
pub struct SlackInstallation {
    /// The signing secrets.
    pub secrets: Secrets,
    pub slack: Slack,
    /// Requests can only decide approvals and start runs of this tenant.
    pub tenant: TenantId,
    seen: Mutex<VecDeque<Digest>>,
}

impl SlackInstallation {
    pub fn new(tenant: TenantId, secrets: Secrets, slack: Slack) -> Self {
        Self { secrets, slack, tenant, seen: Mutex::default() }
    }

    /// Whether Slack signed the request for this tenant.
    fn is_signed(&self, request: &Request<Bytes>, now: Timestamp) -> bool {
        let timestamp = single_header(request.headers(), signature::TIMESTAMP_HEADER);
        let signature = single_header(request.headers(), signature::SIGNATURE_HEADER);
        let verified = signature::verify(&self.secrets, timestamp, signature, request.body(), now);
        if let Err(error) = &verified {
            self.count_refused("unauthenticated");
            tracing::warn!(event = "slack_unauthenticated", tenant = %self.tenant, %error, "Slack request not authenticated");
        }
        verified.is_ok()
    }

    fn count_refused(&self, reason: &'static str) {
        engine::metrics::delivery_refused(Some(&self.tenant), Source::Slack.as_str(), reason);
    }

    /// Remembers the request; returns whether it was received before.
    fn is_repeated(&self, key: Digest) -> bool {
        let mut seen = self.seen.lock();
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

/// The Slack apps of all tenants.
#[derive(Default)]
pub struct SlackInstallations(BTreeMap<TenantId, SlackInstallation>);

impl SlackInstallations {
    /// The installation of the tenant in the path.
    fn get(&self, tenant: &str) -> Option<&SlackInstallation> {
        self.0.get(&tenant.parse::<TenantId>().ok()?)
    }
}

impl FromIterator<SlackInstallation> for SlackInstallations {
    fn from_iter<I: IntoIterator<Item = SlackInstallation>>(installations: I) -> Self {
        Self(
            installations
                .into_iter()
                .map(|installation| (installation.tenant.clone(), installation))
                .collect(),
        )
    }
}

/// Handles a request to `/slack/interactions/TENANT` or `/slack/commands/TENANT`. The path can start with the name of a
/// gateway's stage.
pub async fn handle<S: Store>(
    engine: &Engine<S>,
    installations: &SlackInstallations,
    request: &Request<Bytes>,
) -> Response<String> {
    let segments: Vec<&str> = request.uri().path().split('/').collect();
    let [.., "slack", route, tenant] = &*segments else { return unsigned() };
    match (*route, installations.get(tenant)) {
        ("interactions", Some(installation)) => Box::pin(interaction(engine, installation, request)).await,
        ("commands", Some(installation)) => command(engine, installation, request).await,
        // An unknown tenant gets the same response as an invalid signature.
        _ => {
            engine::metrics::delivery_refused(None, Source::Slack.as_str(), "unauthenticated");
            unsigned()
        }
    }
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

/// The response to a request that Slack did not sign for this tenant.
pub fn unsigned() -> Response<String> {
    response::text(StatusCode::UNAUTHORIZED, "invalid signature")
}
