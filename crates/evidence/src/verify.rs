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

/// A part of verifying. They come in this order, and each only if those before it held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The key signed it.
    Signature,
    /// It is written the one way there is.
    Document,
    /// The key signed the state of the log that it names.
    Checkpoint,
    /// No event was changed, dropped, swapped or added.
    Chain,
    /// The events tell a story that the machines allow.
    Story,
    /// What it says of the run is what the events say.
    Run,
    /// What it says of each step is what the events say.
    Outcomes,
    /// Each answer was given by whom it could be, about what it says.
    Approvals,
    /// Each effect has its receipt, its verdict and, where one was asked for, its approval.
    Effects,
    /// The costs add up.
    Costs,
    /// The run stands in the log.
    Inclusion,
}

impl Check {
    /// All of them, in their order.
    pub const ALL: [Self; 11] = [
        Self::Signature,
        Self::Document,
        Self::Checkpoint,
        Self::Chain,
        Self::Story,
        Self::Run,
        Self::Outcomes,
        Self::Approvals,
        Self::Effects,
        Self::Costs,
        Self::Inclusion,
    ];

    /// What holds once it has passed, in a sentence.
    pub fn says(self) -> &'static str {
        match self {
            Self::Signature => "The key signed this file.",
            Self::Document => "It is written in the one canonical way, and holds nothing unknown.",
            Self::Checkpoint => "The key signed the state of the log of runs that it names.",
            Self::Chain => "The chain of events is whole: none was changed, dropped, swapped or added.",
            Self::Story => "The events tell a story that the rules of runs and steps allow.",
            Self::Run => "What it says of the run is what the events say.",
            Self::Outcomes => "How each step ended is what the events say.",
            Self::Approvals => "Each answer was about what it says, by somebody who could give it.",
            Self::Effects => {
                "Each effect has its receipt, the verdict that allowed it and the approval that was asked for."
            }
            Self::Costs => "The costs add up.",
            Self::Inclusion => "The run stands in the log of runs.",
        }
    }
}

/// The bundle in `bytes`, if `key` signed it and all of it holds.
pub fn verify(bytes: &[u8], key: &PublicKey) -> Result<Verified, Fault> {
    examine(bytes, key, &mut |_| {})
}

/// The same, and tells `held` of each check that passed.
pub fn examine(bytes: &[u8], key: &PublicKey, held: &mut dyn FnMut(Check)) -> Result<Verified, Fault> {
    let payload = envelope::open(bytes, key)?;
    held(Check::Signature);
    let bundle = read(&payload)?;
    held(Check::Document);
    bundle.log.check_checkpoint(key)?;
    held(Check::Checkpoint);
    let events = check::check(&bundle, held)?;
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
