//! Arrivals: what came in from outside, kept before anybody is told that it was accepted.
//!
//! An arrival names the run it would start before anything else is known about it: the run's id is derived
//! from the tenant and the request's key. So whoever sent it can be told at once, a second delivery finds the
//! first, and taking it up twice starts one run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::failure::bounded;
use crate::id::{RunId, RunKey, TenantId};
use crate::key::IdempotencyKey;
use crate::payload::{Fingerprint, Payload};
use crate::record_name::RecordName;
use crate::time::{Millis, Timestamp};

/// How long a delivery is remembered: nobody delivers the same thing a day later, and the run that it started
/// keeps its key for ever.
pub const REMEMBERED_FOR: Millis = Millis::hours(24);

/// Why an arrival started nothing, in a sentence or two.
const WHY_CHARS_MAX: usize = 512;

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
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 3] = [Self::ServiceNow, Self::GitHub, Self::Webhook];

    /// As it stands in addresses, workflow files and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServiceNow => "servicenow",
            Self::GitHub => "github",
            Self::Webhook => "webhook",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a source; there are servicenow, github and webhook")]
pub struct UnknownSource(String);

impl FromStr for Source {
    type Err = UnknownSource;
    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        let named = Self::ALL.into_iter().find(|source| source.as_str() == text);
        named.ok_or_else(|| UnknownSource(bounded(text, 64)))
    }
}

/// Something that came in from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arrival {
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
    /// The fingerprint of what came.
    pub fingerprint: Fingerprint,
    /// What came.
    pub body: Payload,
    /// When.
    pub at: Timestamp,
    /// What became of it.
    pub fate: Fate,
}

/// What became of an arrival.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fate")]
pub enum Fate {
    /// Nobody has taken it up yet.
    Waiting,
    /// It started its run.
    Begun,
    /// No workflow wanted it.
    Unwanted,
    /// It could not start a run.
    Refused {
        /// Why.
        why: String,
    },
}

impl Fate {
    /// It could not start a run, because of `why`.
    pub fn refused(why: &str) -> Self {
        Self::Refused { why: bounded(why, WHY_CHARS_MAX) }
    }
}

impl Arrival {
    /// The run that a request with this key starts.
    pub fn run_of(tenant: &TenantId, key: &IdempotencyKey) -> RunKey {
        RunKey { tenant: tenant.clone(), run: RunId::derive(tenant, key) }
    }

    /// Until when it is remembered.
    pub fn forgotten_at(&self) -> Timestamp {
        self.at + REMEMBERED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_as_it_is_written() {
        for source in Source::ALL {
            assert_eq!(source.as_str().parse(), Ok(source));
            assert_eq!(serde_json::to_value(source).unwrap(), source.as_str());
        }
        assert!("jira".parse::<Source>().unwrap_err().to_string().contains("servicenow"));
    }
}
