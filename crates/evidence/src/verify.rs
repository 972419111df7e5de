//! Verifies a bundle with only the file and a public key.

use domain::{Digest, Event, RunKey, json};
use strum::VariantArray;

use crate::bundle::EvidenceBundle;
use crate::check;
use crate::envelope::{self, BUNDLE};
use crate::error::VerifyError;
use crate::key::PublicKey;

/// A verified bundle. Only [`verify`] creates one.
#[derive(Debug, Clone, PartialEq)]
pub struct Verified {
    bundle: EvidenceBundle,
    events: Vec<Event>,
}

/// Two bundles that contradict each other, although each verifies by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    #[error("the bundles belong to the same run and have different chains")]
    TwoHeads,
    #[error("the bundles belong to the same log at the same size and have different roots")]
    TwoRoots,
}

/// A verification check. They run in this order, and verification stops at the first failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, VariantArray)]
pub enum Check {
    Signature,
    Document,
    Checkpoint,
    Chain,
    Transitions,
    Run,
    Outcomes,
    Approvals,
    Effects,
    Costs,
    Inclusion,
}

impl Check {
    pub const ALL: &[Self] = Self::VARIANTS;

    /// What the check proves, in one sentence.
    pub fn description(self) -> &'static str {
        match self {
            Self::Signature => "The key signed this file.",
            Self::Document => "The document is in canonical form and has no unknown fields.",
            Self::Checkpoint => "The key signed the checkpoint of the transparency log.",
            Self::Chain => {
                "The chain of events is complete: no event was changed, dropped, reordered or added."
            }
            Self::Transitions => "The events replay through the state machines of runs and steps.",
            Self::Run => "The run record matches the events.",
            Self::Outcomes => "The outcome of each step matches the events.",
            Self::Approvals => "Each vote is on the recorded subject, by a permitted approver.",
            Self::Effects => {
                "Each effect has a receipt, a verdict that allows it, and the approval that the verdict requires."
            }
            Self::Costs => "The costs and compensations match the outcomes.",
            Self::Inclusion => "The run is in the transparency log.",
        }
    }
}

/// Verifies the bundle in `bytes`, signed by `key`.
pub fn verify(bytes: &[u8], key: &PublicKey) -> Result<Verified, VerifyError> {
    verify_with_progress(bytes, key, &mut |_| {})
}

/// Verifies a bundle and calls `passed` after each check that passes.
pub fn verify_with_progress(
    bytes: &[u8],
    key: &PublicKey,
    passed: &mut dyn FnMut(Check),
) -> Result<Verified, VerifyError> {
    let payload = envelope::open(BUNDLE, bytes, key)?;
    passed(Check::Signature);
    let bundle = parse(&payload)?;
    passed(Check::Document);
    bundle.log.check_checkpoint(key)?;
    passed(Check::Checkpoint);
    let events = check::check(&bundle, passed)?;
    Ok(Verified { bundle, events })
}

/// What a bundle says about its run. Neither its signature nor its content is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleClaim {
    pub run: RunKey,
    /// The leaf of the run in the transparency log.
    pub leaf: Digest,
    /// The index of the leaf.
    pub index: u64,
}

pub fn claimed(bytes: &[u8]) -> Result<BundleClaim, VerifyError> {
    let EvidenceBundle { run, log, .. } = parse(&envelope::unverified_payload(bytes)?)?;
    Ok(BundleClaim { run: run.key(), leaf: run.leaf(), index: log.index })
}

/// Whether `key` signed the bundle. The content is not verified.
pub fn is_signed_by(bytes: &[u8], key: &PublicKey) -> bool {
    envelope::open(BUNDLE, bytes, key).is_ok()
}

/// The run that a bundle names. Neither its signature nor its content is verified.
pub fn claimed_run(bytes: &[u8]) -> Result<RunKey, VerifyError> {
    claimed(bytes).map(|claim| claim.run)
}

/// Parses the document. It must be in canonical form, without unknown fields.
pub(crate) fn parse(payload: &[u8]) -> Result<EvidenceBundle, VerifyError> {
    let value = json::parse(payload).map_err(VerifyError::Payload)?;
    let bundle: EvidenceBundle =
        serde_json::from_value(value).map_err(|error| VerifyError::Document { why: error.to_string() })?;
    if json::canonical(&bundle) == payload {
        Ok(bundle)
    } else {
        Err(VerifyError::NotCanonical { what: "payload" })
    }
}

impl Verified {
    pub fn bundle(&self) -> &EvidenceBundle {
        &self.bundle
    }

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// A one-line description of the bundle.
    pub fn summary(&self) -> String {
        let EvidenceBundle { run, receipts, approvals, log, .. } = &self.bundle;
        format!(
            "{}/{} {} v{} {}: {}, {}, {}, entry {} of {}",
            run.tenant,
            run.run,
            run.workflow,
            run.version,
            run.status,
            pluralize(run.events as usize, "event"),
            pluralize(receipts.len(), "receipt"),
            pluralize(approvals.len(), "approval"),
            log.index,
            log.origin,
        )
    }

    /// Checks that this bundle and `other` do not contradict each other: the holder of the key can sign two different
    /// histories, and each verifies by itself.
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
fn pluralize(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
