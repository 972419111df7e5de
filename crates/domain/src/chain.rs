//! The event chain: each entry's hash covers the one before it.
//!
//! `h_n = SHA-256(tag, tenant, run, n, h_{n-1}, canonical event)`, each part with its length. An entry that
//! is changed, dropped, swapped or brought in from another run breaks every hash after it.

use crate::digest::Digest;
use crate::event::Event;
use crate::id::RunKey;
use crate::json;

/// An event with its place in the chain fixed.
#[derive(Debug, Clone, PartialEq)]
pub struct SealedEvent {
    /// What happened.
    pub event: Event,
    /// Its canonical bytes, which are what is hashed and what is stored.
    pub canonical: Vec<u8>,
    /// The hash of it and all before it.
    pub hash: Digest,
}

/// Why a chain does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// An event is missing, doubled or out of order.
    #[error("event {expected} is missing; event {found} stands in its place")]
    Gap {
        /// Which number should stand here.
        expected: u32,
        /// Which one does.
        found: u32,
    },
    /// The bytes do not give the recorded hash.
    #[error("event {n} was altered, or belongs to another run")]
    Altered {
        /// Which event.
        n: u32,
    },
    /// The bytes are not an event.
    #[error("event {n} cannot be read: {why}")]
    Unreadable {
        /// Which place it stands at.
        n: u32,
        /// What is wrong.
        why: String,
    },
    /// The chain ends elsewhere than the record says.
    #[error("the chain ends with {events} events; the record counts {counted}, or has another head")]
    Head {
        /// How many there are.
        events: u32,
        /// How many the record counts.
        counted: u32,
    },
}

/// Fixes `event` behind the entry whose hash is `before`.
pub fn seal(run: &RunKey, before: &Digest, event: Event) -> SealedEvent {
    let canonical = json::canonical(&event);
    let hash = link(run, event.n, before, &canonical);
    SealedEvent { event, canonical, hash }
}

fn link(run: &RunKey, n: u32, before: &Digest, canonical: &[u8]) -> Digest {
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

/// A stored entry: its canonical bytes and the hash recorded beside them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The canonical bytes.
    pub canonical: Vec<u8>,
    /// The recorded hash.
    pub hash: Digest,
}

/// Walks the chain of `run` and gives back its events, or says where it breaks. `counted` and `head` are
/// what the run's record says, so that a chain cut short shows.
pub fn verify(
    run: &RunKey,
    entries: &[StoredEvent],
    counted: u32,
    head: &Digest,
) -> Result<Vec<Event>, ChainFault> {
    let mut before = Digest::ZERO;
    let mut events = Vec::with_capacity(entries.len());
    for (n, entry) in (0_u32..).zip(entries) {
        let event: Event = serde_json::from_slice(&entry.canonical)
            .map_err(|error| ChainFault::Unreadable { n, why: error.to_string() })?;
        if event.n != n {
            return Err(ChainFault::Gap { expected: n, found: event.n });
        }
        if link(run, n, &before, &entry.canonical) != entry.hash {
            return Err(ChainFault::Altered { n });
        }
        before = entry.hash;
        events.push(event);
    }
    let ends = u32::try_from(events.len()).unwrap_or(u32::MAX);
    if ends != counted || before != *head {
        return Err(ChainFault::Head { events: ends, counted });
    }
    Ok(events)
}
