//! Verifying a bundle, with nothing but the file and a key.

use domain::{Event, json};

use crate::bundle::Bundle;
use crate::check;
use crate::envelope;
use crate::fault::Fault;
use crate::key::PublicKey;

/// A bundle that has been verified. There is no other way to get one than [`verify`].
#[derive(Debug, Clone, PartialEq)]
pub struct Verified {
    bundle: Bundle,
    events: Vec<Event>,
}

/// Two bundles that cannot both be true, though each of them is right by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// One run, two endings.
    #[error("the two bundles are of the same run, and tell it differently")]
    TwoHeads,
    /// One log of one size, two roots.
    #[error("the two bundles are of the same log at the same size, and have different roots")]
    TwoRoots,
}

/// The bundle in `bytes`, if `key` signed it and all of it holds.
pub fn verify(bytes: &[u8], key: &PublicKey) -> Result<Verified, Fault> {
    let payload = envelope::open(bytes, key)?;
    let bundle = read(&payload)?;
    bundle.log.check_checkpoint(key)?;
    let events = check::check(&bundle)?;
    Ok(Verified { bundle, events })
}

/// The document, if it is written the one canonical way and everything in it is known.
fn read(payload: &[u8]) -> Result<Bundle, Fault> {
    let value = json::parse(payload).map_err(Fault::Payload)?;
    let bundle: Bundle =
        serde_json::from_value(value).map_err(|error| Fault::Document { why: error.to_string() })?;
    if json::canonical(&bundle) == payload {
        Ok(bundle)
    } else {
        Err(Fault::NotCanonical { what: "payload" })
    }
}

impl Verified {
    /// What was verified.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// The entries of the chain.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What was verified, in one line.
    pub fn summary(&self) -> String {
        let Bundle { run, receipts, approvals, log, .. } = &self.bundle;
        format!(
            "{}/{} {} v{} {}: {}, {}, {}, entry {} of {}",
            run.tenant,
            run.run,
            run.workflow,
            run.version,
            run.status,
            counted(run.events as usize, "event"),
            counted(receipts.len(), "receipt"),
            counted(approvals.len(), "approval"),
            log.index,
            log.origin,
        )
    }

    /// Refuses if this and `other` cannot both be true: whoever holds the key could have signed two stories,
    /// and each of them would hold by itself.
    pub fn agrees_with(&self, other: &Self) -> Result<(), Contradiction> {
        let (one, two) = (&self.bundle, &other.bundle);
        if one.run.key() == two.run.key() && (one.run.head, one.run.events) != (two.run.head, two.run.events)
        {
            return Err(Contradiction::TwoHeads);
        }
        let same_log = (&one.log.origin, one.log.size) == (&two.log.origin, two.log.size);
        if same_log && one.log.root != two.log.root { Err(Contradiction::TwoRoots) } else { Ok(()) }
    }
}

/// `1 receipt`, `2 receipts`.
fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
