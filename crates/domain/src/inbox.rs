//! The inbox: triggers from external systems, stored before they are acknowledged.
//!
//! An entry names its run from the start, because the run id is derived from the tenant and the request's key. The
//! sender therefore gets the run id at once, a second delivery finds the first, and processing an entry twice starts
//! one run.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantArray};

use crate::digest::Digest;
use crate::failure::bounded;
use crate::id::{PersonId, RunId, RunKey, TenantId, WorkspaceId};
use crate::initiator::Initiator;
use crate::key::IdempotencyKey;
use crate::payload::{Fingerprint, Payload};
use crate::record_name::RecordName;
use crate::time::{Millis, Timestamp};

/// How long a delivery is remembered. Senders do not repeat a delivery after a day, and the run keeps its key forever.
pub const DEDUPE_TTL: Millis = Millis::hours(24);

/// The same for deliveries whose signature carries no timestamp. A captured one can be replayed as long as the secret is
/// valid, which should be at most a quarter.
const UNTIMED_DEDUPE_TTL: Millis = Millis::hours(24 * 90);

/// How long a rejection counts, so that the operator has time to fix its cause.
pub const REJECTION_TTL: Millis = Millis::hours(1);

/// How often an entry that is delivered again is processed within that time, including the first time.
pub const TRIES_MAX: u32 = 3;

/// Entries with the same dedupe key within this time are duplicates. Senders repeat such events at once.
pub const DUPLICATE_WITHIN: Millis = Millis::secs(5);

/// How long an entry may wait for its concurrency key.
pub const PENDING_MAX: Millis = Millis::hours(24 * 28);

/// An entry that is still pending after this long is due: its message may be lost. Longer than most backlogs, so that
/// few messages are sent twice.
pub const START_DUE_AFTER: Millis = Millis::mins(5);

/// An entry that waits for its concurrency key is processed again after this long. The end of the run that holds the key
/// wakes the first waiter much sooner; this is for a waiter whose wake-up was lost, or whose predecessor was woken and
/// did not take the key.
const WAIT_DUE_AFTER: Millis = Millis::mins(15);

/// The maximum time between two messages for one entry. An entry that cannot be processed needs an operator.
const START_AGAIN_MAX: Millis = Millis::hours(24);

/// The maximum length of a rejection reason.
const REASON_CHARS_MAX: usize = 512;

/// The source of a trigger.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Source {
    /// A ServiceNow instance.
    #[serde(rename = "servicenow")]
    #[strum(serialize = "servicenow")]
    ServiceNow,
    /// GitHub.
    #[serde(rename = "github")]
    #[strum(serialize = "github")]
    GitHub,
    /// A sender that signs its requests with the documented scheme.
    Webhook,
    /// A user or a program that starts a run through the API.
    Api,
    /// A user in Slack who starts a run.
    Slack,
    /// A schedule.
    Schedule,
}

impl Source {
    /// Every source.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The sources that a workflow's trigger can name.
    pub const TRIGGERS: [Self; 4] = [Self::ServiceNow, Self::GitHub, Self::Webhook, Self::Schedule];

    /// The sources that have a webhook endpoint.
    pub const WEBHOOKS: [Self; 3] = [Self::ServiceNow, Self::GitHub, Self::Webhook];

    /// The name used in addresses, workflow files and records.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// How long a processed delivery from this source is remembered.
    pub fn dedupe_ttl(self) -> Millis {
        match self {
            Self::GitHub => UNTIMED_DEDUPE_TTL,
            Self::ServiceNow | Self::Webhook | Self::Api | Self::Slack | Self::Schedule => DEDUPE_TTL,
        }
    }
}

/// The text is not a source with a webhook endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a source; use servicenow, github or webhook")]
pub struct UnknownSource(String);

impl FromStr for Source {
    type Err = UnknownSource;
    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        let named = Self::WEBHOOKS.into_iter().find(|source| source.as_str() == text);
        named.ok_or_else(|| UnknownSource(bounded(text, 64)))
    }
}

/// A stored trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InboxEntry {
    /// The run that it starts.
    pub run: RunKey,
    /// Identifies the request.
    pub key: IdempotencyKey,
    /// The source.
    pub source: Source,
    /// The table of the record, or the name of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The external record that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordName>,
    /// The digest of the authentication of the request. The same proof is the same request, even under another key.
    pub proof: Digest,
    /// The digest of the content that identifies the event. Entries with the same value within [`DUPLICATE_WITHIN`] are
    /// duplicates. Absent if only the key and the proof identify requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<Digest>,
    /// The fingerprint of the body.
    pub fingerprint: Fingerprint,
    /// The body.
    pub body: Payload,
    /// The run that is requested by name. If absent, a workflow with a matching trigger is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_request: Option<StartRequest>,
    /// When it arrived.
    pub at: Timestamp,
    /// How often it was processed without starting a run.
    #[serde(default)]
    pub tries: u32,
    /// The status.
    pub status: InboxStatus,
}

/// A run that is requested by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRequest {
    /// The hash of the plan.
    pub plan: Digest,
    /// The workspace that the request names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceId>,
    /// The kind of trigger.
    pub trigger_kind: String,
    /// Who or what requested it.
    pub by: Initiator,
    /// The user who applied the version of the workflow, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_by: Option<PersonId>,
}

/// The status of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case", tag = "status")]
#[strum(serialize_all = "snake_case")]
pub enum InboxStatus {
    /// Not processed yet.
    Pending,
    /// It started its run.
    Started,
    /// It joined another run, which holds its concurrency key.
    Joined {
        /// The other run.
        run: RunId,
    },
    /// No workflow has a matching trigger.
    Unmatched {
        /// When.
        #[serde(default)]
        at: Timestamp,
    },
    /// It could not start a run.
    Rejected {
        /// Why.
        reason: String,
        /// When.
        #[serde(default)]
        at: Timestamp,
    },
}

impl InboxStatus {
    /// A rejection with a bounded reason.
    pub fn rejected(reason: &str, at: Timestamp) -> Self {
        Self::Rejected { reason: bounded(reason, REASON_CHARS_MAX), at }
    }
}

impl InboxEntry {
    /// The run that a request with this key starts.
    pub fn run_of(tenant: &TenantId, key: &IdempotencyKey) -> RunKey {
        RunKey { tenant: tenant.clone(), run: RunId::derive(tenant, key) }
    }

    /// The number of earlier tries, if the entry may be processed again on this delivery.
    pub fn next_try(&self, now: Timestamp) -> Option<u32> {
        let at = match self.status {
            // The workflow may have been applied after the first delivery.
            InboxStatus::Rejected { at, .. } | InboxStatus::Unmatched { at } => at,
            InboxStatus::Pending | InboxStatus::Started | InboxStatus::Joined { .. } => return None,
        };
        let tries = if now - at < REJECTION_TTL { self.tries.saturating_add(1) } else { 0 };
        (tries < TRIES_MAX).then_some(tries)
    }

    /// Whether this entry has the key or the proof of `known`, and other content.
    pub fn conflicts_with(&self, known: &Self) -> bool {
        let same_name = self.key == known.key || self.proof == known.proof;
        let same_event = self.dedupe_key.is_some() && self.dedupe_key == known.dedupe_key;
        same_name && !same_event && self.fingerprint != known.fingerprint
    }

    /// Whether this entry is a duplicate of `known` with another body.
    pub fn is_duplicate_of(&self, known: &Self) -> bool {
        let distance = (self.at - known.at).max(known.at - self.at);
        self.dedupe_key.is_some() && self.dedupe_key == known.dedupe_key && distance < DUPLICATE_WITHIN
    }

    /// When the entry expires: after [`Source::dedupe_ttl`], and never while it is pending.
    pub fn expires_at(&self) -> Option<Timestamp> {
        (self.status != InboxStatus::Pending).then(|| self.at + self.source.dedupe_ttl())
    }

    /// When the sweep sends the message of a new entry again; `None` if it is not pending.
    pub fn due_at(&self) -> Option<Timestamp> {
        (self.status == InboxStatus::Pending).then(|| self.at + START_DUE_AFTER)
    }

    /// When the sweep checks on the entry, if it waits for its concurrency key.
    pub fn due_while_waiting(now: Timestamp) -> Timestamp {
        now + WAIT_DUE_AFTER
    }

    /// When the sweep sends the message again, if it sends one now. The delays grow: a message may be late because of a
    /// backlog, which further messages would extend.
    pub fn due_again(&self, now: Timestamp) -> Timestamp {
        now + (now - self.at).clamp(START_DUE_AFTER, START_AGAIN_MAX)
    }

    /// When the proof of the request expires.
    pub fn proof_expires_at(&self) -> Timestamp {
        self.at + self.source.dedupe_ttl()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_round_trips() {
        for source in Source::WEBHOOKS {
            assert_eq!(source.as_str().parse(), Ok(source));
        }
        for &source in Source::ALL {
            assert_eq!(serde_json::to_value(source).unwrap(), source.as_str());
        }
        assert!("jira".parse::<Source>().unwrap_err().to_string().contains("servicenow"));
    }

    #[test]
    fn rejected_entry_is_retried_three_times_an_hour() {
        let key = IdempotencyKey::new("sn:1").unwrap();
        let rejected = |tries| InboxEntry {
            run: InboxEntry::run_of(&"acme".parse().unwrap(), &key),
            key: key.clone(),
            source: Source::ServiceNow,
            topic: None,
            record: None,
            proof: Digest::ZERO,
            dedupe_key: None,
            fingerprint: Fingerprint::of(&serde_json::json!(1)),
            body: Payload::Inline(serde_json::json!(1)),
            start_request: None,
            at: Timestamp(0),
            tries,
            status: InboxStatus::rejected("two workflows match", Timestamp(0)),
        };
        let soon = Timestamp(1);
        assert_eq!([0, 1, 2].map(|tries| rejected(tries).next_try(soon)), [Some(1), Some(2), None]);
        let late = Timestamp(0) + REJECTION_TTL;
        assert_eq!(rejected(2).next_try(late), Some(0));
        let unmatched = |tries, at| InboxEntry { status: InboxStatus::Unmatched { at }, ..rejected(tries) };
        let at_once = [0, 1, 2].map(|tries| unmatched(tries, Timestamp(0)).next_try(soon));
        assert_eq!(at_once, [Some(1), Some(2), None]);
        assert_eq!(unmatched(2, late).next_try(late), None, "the last time counts");
        for status in [InboxStatus::Pending, InboxStatus::Started] {
            assert_eq!(InboxEntry { status, ..rejected(0) }.next_try(late), None);
        }
    }
}
