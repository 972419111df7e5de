//! Arrivals: what came in from outside, kept before anybody is told that it was accepted.
//!
//! An entry names the run it would start before anything else is known about it: the run's id is derived
//! from the tenant and the request's key. So whoever sent it can be told at once, a second delivery finds the
//! first, and taking it up twice starts one run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::failure::bounded;
use crate::id::{RunId, RunKey, TenantId, WorkspaceId};
use crate::initiator::Initiator;
use crate::key::IdempotencyKey;
use crate::payload::{Fingerprint, Payload};
use crate::record_name::RecordName;
use crate::time::{Millis, Timestamp};

/// How long a delivery is remembered: nobody delivers the same thing a day later, and the run that it started
/// keeps its key for ever.
pub const REMEMBERED_FOR: Millis = Millis::hours(24);

/// How long a delivery is remembered whose signature names no time. Whoever has got hold of one can send it again under
/// another id for as long as the secret stands; a quarter is about how long one should.
const TIMELESS_REMEMBERED_FOR: Millis = Millis::hours(24 * 90);

/// How long a refusal is remembered: whoever is told of it needs some time to put right what was wrong.
pub const REFUSAL_REMEMBERED_FOR: Millis = Millis::hours(1);

/// How often an entry that is delivered again is taken up again within that time, the first time included.
pub const TRIES_MAX: u32 = 3;

/// Arrivals that tell the same within this time are one: whoever tells it twice does so at once.
pub const DUPLICATE_WITHIN: Millis = Millis::secs(5);

/// How long an entry may wait for its ticket. A run that takes longer than this has been forgotten itself.
pub const WAITING_MAX: Millis = Millis::hours(24 * 28);

/// How long an entry that waits is kept: longer than it may wait, so that none is lost.
const WAITING_KEPT: Millis = Millis::hours(24 * 30);

/// Why an entry started nothing, in a sentence or two.
const REASON_CHARS_MAX: usize = 512;

/// Where something comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A ServiceNow instance.
    #[serde(rename = "servicenow")]
    ServiceNow,
    /// GitHub.
    #[serde(rename = "github")]
    GitHub,
    /// Anything that signs its requests as we ask.
    Webhook,
    /// A person or a program that asks for a run by name.
    Api,
    /// A person in Slack who asks for a run by name.
    Slack,
    /// A schedule whose time has come.
    Schedule,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 6] =
        [Self::ServiceNow, Self::GitHub, Self::Webhook, Self::Api, Self::Slack, Self::Schedule];

    /// Those that a workflow's trigger can name.
    pub const TRIGGERS: [Self; 4] = [Self::ServiceNow, Self::GitHub, Self::Webhook, Self::Schedule];

    /// Those that come in by a door for webhooks.
    pub const WEBHOOKS: [Self; 3] = [Self::ServiceNow, Self::GitHub, Self::Webhook];

    /// As it stands in addresses, workflow files and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServiceNow => "servicenow",
            Self::GitHub => "github",
            Self::Webhook => "webhook",
            Self::Api => "api",
            Self::Slack => "slack",
            Self::Schedule => "schedule",
        }
    }

    /// How long a delivery from there is remembered when something has become of it.
    pub fn remembered_for(self) -> Millis {
        match self {
            Self::GitHub => TIMELESS_REMEMBERED_FOR,
            Self::ServiceNow | Self::Webhook | Self::Api | Self::Slack | Self::Schedule => REMEMBERED_FOR,
        }
    }

    /// Until when an entry from there is kept that waits from `at` on.
    pub fn waiting_kept_until(self, at: Timestamp) -> Timestamp {
        at + WAITING_KEPT.max(self.remembered_for())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no source that has a door.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a source; there are servicenow, github and webhook")]
pub struct UnknownSource(String);

impl FromStr for Source {
    type Err = UnknownSource;
    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        let named = Self::WEBHOOKS.into_iter().find(|source| source.as_str() == text);
        named.ok_or_else(|| UnknownSource(bounded(text, 64)))
    }
}

/// Something that came in from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InboxEntry {
    /// The run it starts, if it starts one.
    pub run: RunKey,
    /// Names the request.
    pub key: IdempotencyKey,
    /// Where it comes from.
    pub source: Source,
    /// What it is about: a table, the name of an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The record outside that it is about, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordName>,
    /// Stands for what proved where it comes from. The same proof is the same request, whatever it calls
    /// itself the second time.
    pub proof: Digest,
    /// Stands for what it tells, in whichever words. Whatever tells the same within [`DUPLICATE_WITHIN`] is the same
    /// request. Absent, where only the key and the proof tell requests apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<Digest>,
    /// The fingerprint of what came.
    pub fingerprint: Fingerprint,
    /// What came.
    pub body: Payload,
    /// What is asked for by name. Otherwise the workflow that wants it is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// When.
    pub at: Timestamp,
    /// How often nothing came of it before it was taken up again.
    #[serde(default)]
    pub tries: u32,
    /// What became of it.
    pub status: InboxStatus,
}

/// A run that is asked for by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// What it does, by hash.
    pub plan: Digest,
    /// For which part of the tenant.
    pub workspace: WorkspaceId,
    /// What kind of thing asks.
    pub trigger_kind: String,
    /// Who or what asks.
    pub by: Initiator,
}

/// What became of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum InboxStatus {
    /// Nobody has taken it up yet.
    Pending,
    /// It started its run.
    Started,
    /// Another run has its ticket, and answers for it.
    Joined {
        /// That run.
        run: RunId,
    },
    /// No workflow wanted it.
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
    /// It could not start a run, because of `reason`.
    pub fn rejected(reason: &str, at: Timestamp) -> Self {
        Self::Rejected { reason: bounded(reason, REASON_CHARS_MAX), at }
    }
}

impl InboxEntry {
    /// The run that a request with this key starts.
    pub fn run_of(tenant: &TenantId, key: &IdempotencyKey) -> RunKey {
        RunKey { tenant: tenant.clone(), run: RunId::derive(tenant, key) }
    }

    /// Whether it may be taken up again now that it is delivered again; then, how often nothing came of it before.
    pub fn may_try_again(&self, now: Timestamp) -> Option<u32> {
        let at = match self.status {
            // Whoever connects a source first and its workflow second has it delivered again.
            InboxStatus::Rejected { at, .. } | InboxStatus::Unmatched { at } => at,
            InboxStatus::Pending | InboxStatus::Started | InboxStatus::Joined { .. } => return None,
        };
        let tries = if now - at < REFUSAL_REMEMBERED_FOR { self.tries.saturating_add(1) } else { 0 };
        (tries < TRIES_MAX).then_some(tries)
    }

    /// Whether this goes by the name of `known`, or with its proof, and is something else.
    pub fn conflicts_with(&self, known: &Self) -> bool {
        let same_name = self.key == known.key || self.proof == known.proof;
        same_name && self.fingerprint != known.fingerprint
    }

    /// Whether this is the same request as `known`, told at about the same time in other words.
    pub fn is_duplicate_of(&self, known: &Self) -> bool {
        let apart = (self.at - known.at).max(known.at - self.at);
        self.dedupe_key.is_some() && self.dedupe_key == known.dedupe_key && apart < DUPLICATE_WITHIN
    }

    /// Until when it is kept: long while nothing becomes of it; once something has, as long as [`Source::remembered_for`].
    pub fn kept_until(&self) -> Timestamp {
        match self.status {
            InboxStatus::Pending => self.source.waiting_kept_until(self.at),
            _ => self.at + self.source.remembered_for(),
        }
    }

    /// Until when what proved where it comes from is remembered.
    pub fn proof_forgotten_at(&self) -> Timestamp {
        self.at + self.source.remembered_for()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_as_it_is_written() {
        for source in Source::WEBHOOKS {
            assert_eq!(source.as_str().parse(), Ok(source));
        }
        for source in Source::ALL {
            assert_eq!(serde_json::to_value(source).unwrap(), source.as_str());
        }
        assert!("jira".parse::<Source>().unwrap_err().to_string().contains("servicenow"));
    }

    #[test]
    fn what_started_nothing_is_tried_three_times_within_an_hour_and_afresh_after_it() {
        let key = IdempotencyKey::new("sn:1").unwrap();
        let refused = |tries| InboxEntry {
            run: InboxEntry::run_of(&"acme".parse().unwrap(), &key),
            key: key.clone(),
            source: Source::ServiceNow,
            about: None,
            record: None,
            proof: Digest::ZERO,
            dedupe_key: None,
            fingerprint: Fingerprint::of(&serde_json::json!(1)),
            body: Payload::Inline(serde_json::json!(1)),
            asked: None,
            at: Timestamp(0),
            tries,
            status: InboxStatus::rejected("two workflows want it", Timestamp(0)),
        };
        let soon = Timestamp(1);
        assert_eq!([0, 1, 2].map(|tries| refused(tries).may_try_again(soon)), [Some(1), Some(2), None]);
        let late = Timestamp(0) + REFUSAL_REMEMBERED_FOR;
        assert_eq!(refused(2).may_try_again(late), Some(0));
        let unwanted = |tries, at| InboxEntry { status: InboxStatus::Unmatched { at }, ..refused(tries) };
        let at_once = [0, 1, 2].map(|tries| unwanted(tries, Timestamp(0)).may_try_again(soon));
        assert_eq!(at_once, [Some(1), Some(2), None]);
        assert_eq!(unwanted(2, late).may_try_again(late), None, "what counts is when nobody wanted it last");
        for status in [InboxStatus::Pending, InboxStatus::Started] {
            assert_eq!(InboxEntry { status, ..refused(0) }.may_try_again(late), None);
        }
    }
}
