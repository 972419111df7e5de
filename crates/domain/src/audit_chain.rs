//! The audit chain: the hash of each entry of an audit log covers the entry before it.
//!
//! `h_n = SHA-256(tag, tenant, n, h_{n-1}, canonical entry)`, with length-prefixed parts; `n` starts at 1. Each tenant has
//! a chain, and the changes for all tenants have one. The head names the newest entry, so that a missing end is found.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::audit::AuditEntry;
use crate::digest::Digest;
use crate::id::TenantId;
use crate::json;

/// The newest entry of an audit log. An empty log has the number 0 and a hash of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditHead {
    /// The number of the entry, which is also the number of entries.
    pub sequence: u64,
    /// The hash of the entry.
    pub hash: Digest,
}

impl Default for AuditHead {
    fn default() -> Self {
        Self { sequence: 0, hash: Digest::ZERO }
    }
}

/// An entry with its place in the chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    /// The number of the entry, from 1.
    pub sequence: u64,
    /// The hash of the entry before; zeros for the first.
    pub previous: Digest,
    /// The hash of this entry and all earlier ones.
    pub hash: Digest,
    /// The entry as it was written. A later program reads it as JSON, so that a new field does not change its hash.
    pub entry: Value,
}

/// Where a chain is broken first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditChainError {
    /// An entry is missing.
    #[error("entry {sequence} is missing: entry {found} is in its place")]
    Missing {
        /// The number of the missing entry.
        sequence: u64,
        /// The number in its place.
        found: u64,
    },
    /// The entries exist, but are in another order.
    #[error("the entries are reordered: entry {found} is in the place of entry {sequence}")]
    Reordered {
        /// The number that belongs in this place.
        sequence: u64,
        /// The number in its place.
        found: u64,
    },
    /// The entry does not have the recorded hash.
    #[error("entry {sequence} was altered, or belongs to another log")]
    Altered {
        /// The number of the entry.
        sequence: u64,
    },
    /// The entry does not follow the one before it, or another entry has its number.
    #[error(
        "the log forks at entry {sequence}: two entries have its number, or it does not follow the entry before"
    )]
    Forked {
        /// The number of the entry.
        sequence: u64,
    },
    /// The newest entries are missing.
    #[error("the log is truncated: it ends with entry {last}, and its head names entry {head}")]
    Truncated {
        /// The number of the last entry.
        last: u64,
        /// The number in the head.
        head: u64,
    },
    /// The head is older than the newest entry.
    #[error("the head was altered: it names entry {head}, and the log ends with entry {last}")]
    OldHead {
        /// The number of the last entry.
        last: u64,
        /// The number in the head.
        head: u64,
    },
    /// The head names another entry with the number of the newest one.
    #[error("the head was altered: it has another hash than entry {sequence}")]
    OtherHead {
        /// The number of the entry.
        sequence: u64,
    },
}

impl AuditHead {
    /// The record of `entry`, appended to the log with this head.
    pub fn append(&self, entry: &AuditEntry) -> AuditRecord {
        let sequence = self.sequence.saturating_add(1);
        let content = serde_json::to_value(entry).unwrap_or_default();
        let hash = entry_hash(entry.tenant.as_ref(), sequence, &self.hash, &json::canonical(&content));
        AuditRecord { sequence, previous: self.hash, hash, entry: content }
    }
}

impl AuditRecord {
    /// The head of the log that ends with this entry.
    pub fn head(&self) -> AuditHead {
        AuditHead { sequence: self.sequence, hash: self.hash }
    }

    /// The entry as data. An error means that a newer program wrote it, or that it was altered.
    pub fn entry(&self) -> Result<AuditEntry, serde_json::Error> {
        AuditEntry::deserialize(&self.entry)
    }

    /// The kind of the change.
    pub fn kind(&self) -> &str {
        self.entry["change"]["kind"].as_str().unwrap_or_default()
    }

    fn has_its_hash(&self, tenant: Option<&TenantId>) -> bool {
        let canonical = json::canonical(&self.entry);
        entry_hash(tenant, self.sequence, &self.previous, &canonical) == self.hash
    }
}

/// No tenant has an empty id, so an empty part stands for the log of all tenants.
fn entry_hash(tenant: Option<&TenantId>, sequence: u64, previous: &Digest, canonical: &[u8]) -> Digest {
    let tenant = tenant.map_or("", TenantId::as_str);
    Digest::of_parts(
        "countersign/audit-entry/v1",
        &[tenant.as_bytes(), &sequence.to_be_bytes(), previous.as_bytes(), canonical],
    )
}

/// Verifies the whole log of `tenant`, or of the changes for all tenants: `records` in the order of the log, and its head.
/// Reports the first broken place.
pub fn verify(
    tenant: Option<&TenantId>,
    records: &[AuditRecord],
    head: &AuditHead,
) -> Result<(), AuditChainError> {
    let positions: BTreeMap<u64, usize> =
        records.iter().enumerate().map(|(at, record)| (record.sequence, at)).collect();
    let mut newest = AuditHead::default();
    for (at, record) in records.iter().enumerate() {
        check_place(record, newest.sequence + 1, at, &positions)?;
        if !record.has_its_hash(tenant) {
            return Err(AuditChainError::Altered { sequence: record.sequence });
        }
        if record.previous != newest.hash {
            return Err(AuditChainError::Forked { sequence: record.sequence });
        }
        newest = record.head();
    }
    check_head(&newest, head)
}

fn check_place(
    record: &AuditRecord,
    sequence: u64,
    at: usize,
    positions: &BTreeMap<u64, usize>,
) -> Result<(), AuditChainError> {
    let found = record.sequence;
    let is_later = positions.get(&sequence).is_some_and(|place| *place > at);
    match found.cmp(&sequence) {
        Ordering::Equal => Ok(()),
        // A second entry has the number of an earlier one.
        Ordering::Less => Err(AuditChainError::Forked { sequence: found }),
        Ordering::Greater if is_later => Err(AuditChainError::Reordered { sequence, found }),
        Ordering::Greater => Err(AuditChainError::Missing { sequence, found }),
    }
}

fn check_head(newest: &AuditHead, head: &AuditHead) -> Result<(), AuditChainError> {
    let (last, named) = (newest.sequence, head.sequence);
    match last.cmp(&named) {
        Ordering::Less => Err(AuditChainError::Truncated { last, head: named }),
        Ordering::Greater => Err(AuditChainError::OldHead { last, head: named }),
        Ordering::Equal if newest.hash != head.hash => Err(AuditChainError::OtherHead { sequence: last }),
        Ordering::Equal => Ok(()),
    }
}
