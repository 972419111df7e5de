//! The door for Slack: clicks, shortcuts, and commands that people type.
//!
//! All are signed in the same way, and checked before anything is read. Slack waits three seconds for an answer and is
//! given one in time, whatever the store and Slack's own interface do meanwhile.

mod command;
mod interaction;
mod shortcut;
mod start;
mod status;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::slack::{Secrets, Slack, signature};
use domain::{Digest, TenantId, Timestamp};

pub use crate::http::Response;
pub use command::command;
pub use interaction::interaction;

/// More clicks than this within five minutes are not people.
const REMEMBERED_MAX: usize = 4_096;

/// How long the engine is waited for; its own patience with a busy store is longer. With what is said to Slack
/// afterwards (`TELL_WITHIN`) it leaves more than half a second of Slack's three for the way.
const ENGINE_WITHIN: Duration = Duration::from_millis(1_200);

/// What is said where something could not be looked up.
const NOT_NOW: &str = "That could not be looked up just now; please try again.";

/// Where one tenant's Slack comes in.
pub struct SlackInstallation {
    /// What Slack signs with.
    pub secrets: Secrets,
    /// How people are told what came of a click.
    pub slack: Slack,
    /// Whose approvals can be answered here.
    pub tenant: TenantId,
    seen: Mutex<VecDeque<Digest>>,
}

impl SlackInstallation {
    /// A door for `tenant`.
    pub fn new(tenant: TenantId, secrets: Secrets, slack: Slack) -> Self {
        Self { secrets, slack, tenant, seen: Mutex::default() }
    }

    /// Whether Slack sent this; what is replied, if it did not.
    fn check(&self, request: &Request<'_>, now: Timestamp) -> Result<(), Response> {
        let Request { timestamp, signature, body } = request;
        signature::verify(&self.secrets, *timestamp, *signature, body, now).map_err(|fault| {
            tracing::warn!(%fault, "a request to the Slack door is not from Slack");
            unsigned()
        })
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

/// The doors of every tenant.
#[derive(Default)]
pub struct SlackInstallations(BTreeMap<TenantId, SlackInstallation>);

impl SlackInstallations {
    /// The door of the tenant that a path names. Whoever asks for one that is not there is refused as if the
    /// signature did not hold.
    pub fn of(&self, tenant: &str) -> Result<&SlackInstallation, Response> {
        let tenant: Option<TenantId> = tenant.parse().ok();
        tenant.and_then(|tenant| self.0.get(&tenant)).ok_or_else(unsigned)
    }
}

impl FromIterator<SlackInstallation> for SlackInstallations {
    fn from_iter<I: IntoIterator<Item = SlackInstallation>>(doors: I) -> Self {
        Self(doors.into_iter().map(|door| (door.tenant.clone(), door)).collect())
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

/// What came of `asking` the engine; nothing, if that is not known in time.
///
/// What was begun is then left as if this process had died there, which every command survives: a commit stands or
/// does not, and messages that it owes are sent by the sweep; a start has a message that went ahead of it. An answer to an approval counts once, so trying again is
/// safe; so is sending a window off again, which is the same request.
async fn in_time<T>(asking: impl Future<Output = T>) -> Option<T> {
    let said = tokio::time::timeout(ENGINE_WITHIN, asking).await.ok();
    if said.is_none() {
        tracing::warn!("the engine did not answer in time for Slack");
    }
    said
}

/// The refusal of whatever Slack did not sign, or signed for another tenant.
pub fn unsigned() -> Response {
    Response::text(401, "the signature does not hold")
}
