//! The event chain: the hash of each event covers the event before it.
//!
//! `h_n = SHA-256(tag, tenant, run, n, h_{n-1}, canonical event)`, with length-prefixed parts. A changed, dropped,
//! reordered or foreign event breaks every later hash.

use crate::digest::Digest;
use crate::event::Event;
use crate::id::RunKey;
use crate::json;

/// An event with its position in the chain.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainedEvent {
    /// The event.
    pub event: Event,
    /// The canonical bytes, which are hashed and stored.
    pub canonical: Vec<u8>,
    /// The hash of this event and all earlier ones.
    pub hash: Digest,
}

/// Why a chain is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// An event is missing, duplicated or out of order.
    #[error("event {expected} is missing; event {found} is in its place")]
    Gap {
        /// The expected number.
        expected: u32,
        /// The number found.
        found: u32,
    },
    /// The bytes do not match the recorded hash.
    #[error("event {n} was altered, or belongs to another run")]
    Altered {
        /// The number of the event.
        n: u32,
    },
    /// The bytes are not an event.
    #[error("event {n} cannot be parsed: {why}")]
    Unreadable {
        /// The position in the chain.
        n: u32,
        /// The parse error.
        why: String,
    },
    /// The chain does not end where the record says.
    #[error("the chain has {events} events; the record counts {counted}, or has another head hash")]
    Head {
        /// The number of events in the chain.
        events: u32,
        /// The number of events in the record.
        counted: u32,
    },
}

/// Appends `event` after the event whose hash is `before`.
pub fn chain_event(run: &RunKey, before: &Digest, event: Event) -> ChainedEvent {
    let canonical = json::canonical(&event);
    let hash = event_hash(run, event.n, before, &canonical);
    ChainedEvent { event, canonical, hash }
}

fn event_hash(run: &RunKey, n: u32, before: &Digest, canonical: &[u8]) -> Digest {
    Digest::of_parts(
        "countersign/event/v1",
        &[
            run.tenant.as_str().as_bytes(),
            run.run.as_str().as_bytes(),
            &n.to_be_bytes(),
            before.as_bytes(),
            canonical,
        ],
    )
}

/// A stored event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The canonical bytes.
    pub canonical: Vec<u8>,
    /// The recorded hash.
    pub hash: Digest,
}

/// Verifies the chain of `run` and returns its events. `counted` and `head` come from the run's record, so that a
/// truncated chain is detected.
pub fn verify(
    run: &RunKey,
    entries: &[StoredEvent],
    counted: u32,
    head: &Digest,
) -> Result<Vec<Event>, ChainError> {
    let mut before = Digest::ZERO;
    let mut events = Vec::with_capacity(entries.len());
    for (n, entry) in (0_u32..).zip(entries) {
        let event: Event = serde_json::from_slice(&entry.canonical)
            .map_err(|error| ChainError::Unreadable { n, why: error.to_string() })?;
        if event.n != n {
            return Err(ChainError::Gap { expected: n, found: event.n });
        }
        if event_hash(run, n, &before, &entry.canonical) != entry.hash {
            return Err(ChainError::Altered { n });
        }
        before = entry.hash;
        events.push(event);
    }
    let length = u32::try_from(events.len()).unwrap_or(u32::MAX);
    if length != counted || before != *head {
        return Err(ChainError::Head { events: length, counted });
    }
    Ok(events)
}
