//! Why a bundle is refused. Each fault names the thing it was found at.

use domain::chain::ChainFault;
use domain::json::InvalidJson;
use domain::{ApprovalId, Digest, IdempotencyKey, PersonId, RunStatus, StepId, StepStatus};

use crate::envelope::{BYTES_MAX, PAYLOAD_TYPE};

/// Why a bundle is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    // The file.
    /// More bytes than a bundle has.
    #[error("the file has {bytes} bytes; a bundle has at most {BYTES_MAX}")]
    TooLarge {
        /// How many it has.
        bytes: usize,
    },
    /// Not an envelope.
    #[error("this is not an envelope: {why}")]
    Envelope {
        /// What is wrong.
        why: String,
    },
    /// It means the same, but is written another way, or holds something that is not known here.
    #[error("the {what} is not written the canonical way, or holds a field that is not known")]
    NotCanonical {
        /// Which part.
        what: &'static str,
    },
    /// An envelope around something else.
    #[error("the envelope holds {found:?}; a bundle is {PAYLOAD_TYPE:?}")]
    PayloadType {
        /// What it holds.
        found: String,
    },
    /// Not exactly one signature.
    #[error("the envelope has {found} signatures; a bundle has one")]
    Signatures {
        /// How many it has.
        found: usize,
    },
    /// Not base64, or base64 with something to spare.
    #[error("the {what} is not canonical base64")]
    Base64 {
        /// Which part.
        what: &'static str,
    },
    /// Signed by another key than the one given.
    #[error("the bundle names key {signed} as its signer; the key given is {given}")]
    WrongKey {
        /// The key that it names.
        signed: Digest,
        /// The key that was given.
        given: Digest,
    },
    /// The signature does not fit.
    #[error("the signature does not fit: the bundle was altered, or another key signed it")]
    Signature,
    /// The payload is not JSON that every reader understands the same.
    #[error("the payload cannot be read: {0}")]
    Payload(InvalidJson),
    /// The payload is not a bundle.
    #[error("the payload is not a bundle: {why}")]
    Document {
        /// What is wrong.
        why: String,
    },
    /// A format that is not known here.
    #[error("the bundle has the unknown format {found:?}")]
    Format {
        /// Which one.
        found: String,
    },

    // The log of runs.
    /// The checkpoint is not signed by the key that was given, or says something else than the log.
    #[error("the checkpoint of the log is unsigned, wrongly signed, or of another log, size or root")]
    Checkpoint,
    /// The run is not in the log.
    #[error("entry {index} of the log is not this run")]
    NotInLog {
        /// Where it should be.
        index: u64,
    },

    // The chain.
    /// The chain does not hold.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// An event holds something that is not known here.
    #[error("event {n} holds a field that is not known")]
    UnknownField {
        /// Which event.
        n: u32,
    },
    /// A run begins with its admission, once.
    #[error("event {n} should be the admission of the run, or should not be one")]
    Admission {
        /// Which event.
        n: u32,
    },
    /// Something happened after the run was over.
    #[error("event {n} happened after the run was over")]
    AfterEnd {
        /// Which event.
        n: u32,
    },
    /// An event about a step that the plan does not have.
    #[error("event {n} is about a step that the plan does not have, or calls it by another name")]
    OffPlan {
        /// Which event.
        n: u32,
    },
    /// An event is about taking back where nothing is, or the other way round.
    #[error("event {n} does not say rightly whether effects are being taken back")]
    TakingBack {
        /// Which event.
        n: u32,
    },
    /// A transition that the run cannot make, or that does not begin where the one before ended.
    #[error("event {n} moves the run to {to}, which cannot be from where it stood")]
    RunTransition {
        /// Which event.
        n: u32,
        /// Where to.
        to: RunStatus,
    },
    /// A transition that the step cannot make, or that does not begin where the one before ended.
    #[error("event {n} moves step {step} to {to}, which cannot be from where it stood")]
    StepTransition {
        /// Which event.
        n: u32,
        /// Which step.
        step: StepId,
        /// Where to.
        to: StepStatus,
    },
    /// What happened and where it left the step do not fit.
    #[error("event {n} cannot leave step {step} where it says it does")]
    StepEnding {
        /// Which event.
        n: u32,
        /// Which step.
        step: StepId,
    },
    /// Work on a step that nobody can have held.
    #[error("event {n} is about work on step {step}, which nobody can have held")]
    NotHeld {
        /// Which event.
        n: u32,
        /// Which step.
        step: StepId,
    },

    /// Work under a fence that had been left behind.
    #[error("event {n} is about work under a fence that somebody had held before")]
    Fence {
        /// Which event.
        n: u32,
    },

    // The run.
    /// The run is not over.
    #[error("the run is {status}; there is evidence of finished runs alone")]
    NotOver {
        /// Where it stands.
        status: RunStatus,
    },
    /// The run is described otherwise than the chain tells it.
    #[error("the {what} of the run is not what the chain says")]
    Run {
        /// What differs.
        what: &'static str,
    },
    /// A run is called succeeded although a step is not.
    #[error("the run is called succeeded, but step {step} is {status}")]
    NotSucceeded {
        /// Which step.
        step: StepId,
        /// Where it stands.
        status: StepStatus,
    },
    /// A run is called failed although no step is.
    #[error("the run is called failed, but no step failed")]
    NotFailed,
    /// A step's outcome is described otherwise than the chain tells it.
    #[error("the {what} of step {seq} is not what the chain says")]
    Outcome {
        /// What differs.
        what: &'static str,
        /// Which step.
        seq: u16,
    },
    /// The chain tells of another number of ends of steps than there are outcomes.
    #[error("the chain tells of {told} steps that ended; there are {found} outcomes")]
    Outcomes {
        /// How many ends the chain tells of.
        told: usize,
        /// How many outcomes there are.
        found: usize,
    },
    /// Things that have one order stand in another, or one of them stands there twice.
    #[error("the {what} are out of order, or one of them is there twice")]
    Order {
        /// Which things.
        what: &'static str,
    },
    /// The costs do not add up.
    #[error("the costs do not add up")]
    Costs,
    /// The compensation log does not follow from the outcomes.
    #[error("the compensation log is not what the outcomes say")]
    Compensations,

    // The effects.
    /// A receipt that no event allows.
    #[error("the receipt {key} has no verdict: no event of this run intends it")]
    ReceiptWithoutVerdict {
        /// Which effect.
        key: IdempotencyKey,
    },
    /// A receipt is described otherwise than the chain tells it.
    #[error("the {what} of receipt {key} is not what the chain says")]
    Receipt {
        /// What differs.
        what: &'static str,
        /// Which effect.
        key: IdempotencyKey,
    },
    /// A receipt that no event of this run refers to.
    #[error("the receipt {key} is of another run, and this one does not refer to it")]
    StrayReceipt {
        /// Which effect.
        key: IdempotencyKey,
    },
    /// Another run's receipt stands where this run must account for itself.
    #[error("this run was about to do {key} itself, and the receipt there is of another run")]
    NotOwnReceipt {
        /// Which effect.
        key: IdempotencyKey,
    },
    /// An event refers to a receipt that is not there.
    #[error("event {n} refers to the receipt {key}, which is missing")]
    ReceiptMissing {
        /// Which event.
        n: u32,
        /// Which effect.
        key: IdempotencyKey,
    },
    /// A step ended with an effect that it did not intend, and that nobody else had either.
    #[error("event {n} ends a step with the effect {key}, which is not its own or has not happened")]
    NotItsEffect {
        /// Which event.
        n: u32,
        /// Which effect.
        key: IdempotencyKey,
    },
    /// An effect was intended although policy said no.
    #[error("event {n} intends an effect that policy denied")]
    Denied {
        /// Which event.
        n: u32,
    },

    // The approvals.
    /// An effect that needs people was intended without them.
    #[error("event {n} intends an effect that needs approval, and names none")]
    Unapproved {
        /// Which event.
        n: u32,
    },
    /// An approval was used that policy did not ask for.
    #[error("event {n} uses an approval that its verdict did not ask for")]
    Unasked {
        /// Which event.
        n: u32,
    },
    /// An event names an approval that is not there.
    #[error("event {n} names the approval {approval}, which is missing")]
    ApprovalMissing {
        /// Which event.
        n: u32,
        /// Which request.
        approval: ApprovalId,
    },
    /// An approval that nobody asked for.
    #[error("the approval {approval} was never asked for")]
    NeverAsked {
        /// Which request.
        approval: ApprovalId,
    },
    /// An approval is described otherwise than the chain tells it.
    #[error("the {what} of approval {approval} is not what the chain says")]
    Approval {
        /// What differs.
        what: &'static str,
        /// Which request.
        approval: ApprovalId,
    },
    /// An event about an approval that could not happen to it as it stood.
    #[error("event {n} cannot happen to the approval {approval} as it stood")]
    ApprovalTransition {
        /// Which event.
        n: u32,
        /// Which request.
        approval: ApprovalId,
    },
    /// Somebody answered who may not.
    #[error("{person} may not answer {approval}: they asked for the run, or wrote the workflow")]
    Excluded {
        /// Which request.
        approval: ApprovalId,
        /// Who.
        person: PersonId,
    },
    /// An approval that does not cover what it was used for.
    #[error("the approval {approval} does not cover what event {n} uses it for: {why}")]
    NotCovered {
        /// Which event.
        n: u32,
        /// Which request.
        approval: ApprovalId,
        /// What is wrong.
        why: &'static str,
    },
}
