//! Why verification refuses a bundle. Each error names the part of the bundle where it was found.

use domain::audit_chain::AuditChainError;
use domain::chain::ChainError;
use domain::json::InvalidJson;
use domain::{ApprovalId, Digest, IdempotencyKey, PersonId, RunStatus, StepId, StepStatus};

/// Why verification refuses a bundle. `n` is the number of an event in the chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    // The file.
    #[error("the file has {bytes} bytes; the limit is {bytes_max}")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("the file is not a DSSE envelope: {why}")]
    Envelope { why: String },
    /// Equivalent JSON in a non-canonical encoding, or with an unknown field.
    #[error("the {what} is not in canonical form, or has an unknown field")]
    NotCanonical { what: &'static str },
    #[error("the envelope has payload type {found:?}, not {expected:?}")]
    PayloadType { found: String, expected: &'static str },
    #[error("the envelope has {found} signatures, not one")]
    Signatures { found: usize },
    #[error("the {what} is not canonical base64")]
    Base64 { what: &'static str },
    #[error("the file is signed by key {signed}, not by the given key {given}")]
    WrongKey { signed: Digest, given: Digest },
    #[error("invalid signature: the file was changed, or another key signed it")]
    Signature,
    /// Not JSON, or JSON that parsers interpret differently.
    #[error("the payload is not valid JSON: {0}")]
    Payload(InvalidJson),
    #[error("the payload has another structure: {why}")]
    Document { why: String },
    #[error("the payload has the unknown format {found:?}")]
    Format { found: String },

    // The audit log.
    #[error(transparent)]
    AuditChain(#[from] AuditChainError),

    // The transparency log.
    #[error("the checkpoint has no valid signature, or is for another log, size or root")]
    Checkpoint,
    #[error("log entry {index} belongs to another run")]
    NotInLog { index: u64 },

    // The chain.
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error("event {n} has an unknown field")]
    UnknownField { n: u32 },
    #[error("event {n}: the first event, and only the first, must be the admission of the run")]
    Admission { n: u32 },
    #[error("event {n} comes after the end of the run")]
    AfterEnd { n: u32 },
    #[error("event {n} names a step that is not in the plan")]
    OffPlan { n: u32 },
    /// A rollback event outside a rollback, or a forward event during a rollback.
    #[error("event {n}: its rollback flag does not match the status of the run")]
    Direction { n: u32 },
    #[error("event {n}: the run cannot change to {to} from its status at that point")]
    RunStatusChange { n: u32, to: RunStatus },
    #[error("event {n}: step {step} cannot change to {to} from its status at that point")]
    StepStatusChange { n: u32, step: StepId, to: StepStatus },
    #[error("event {n} cannot lead to the status that it records for step {step}")]
    StepEnding { n: u32, step: StepId },
    #[error("event {n} records work on step {step}, but no worker could have held the step")]
    NotHeld { n: u32, step: StepId },
    #[error("event {n} records work under a fence that was already used")]
    Fence { n: u32 },

    // The run.
    #[error("the run is {status}; only finished runs have evidence")]
    NotFinished { status: RunStatus },
    #[error("the {what} of the run does not match the chain")]
    Run { what: &'static str },
    #[error("the run is recorded as succeeded, but step {step} is {status}")]
    NotSucceeded { step: StepId, status: StepStatus },
    #[error("the run is recorded as failed, but no step failed")]
    NotFailed,
    #[error("the {what} of step {seq} does not match the chain")]
    Outcome { what: &'static str, seq: u16 },
    #[error("the chain ends {expected} steps, but the bundle has {found} outcomes")]
    Outcomes { expected: usize, found: usize },
    #[error("the {what} are out of order, or contain a duplicate")]
    Order { what: &'static str },
    #[error("the costs do not match the outcomes")]
    Costs,
    #[error("the compensation log does not match the outcomes")]
    Compensations,

    // The effects.
    #[error("receipt {key} has no verdict: the chain has no `effect_intended` event for it")]
    ReceiptWithoutVerdict { key: IdempotencyKey },
    #[error("the {what} of receipt {key} does not match the chain")]
    Receipt { what: &'static str, key: IdempotencyKey },
    #[error("receipt {key} belongs to another run, and no event of this run refers to it")]
    StrayReceipt { key: IdempotencyKey },
    #[error("this run intended effect {key}, but its receipt belongs to another run")]
    NotOwnReceipt { key: IdempotencyKey },
    #[error("event {n} refers to receipt {key}, which is missing")]
    ReceiptMissing { n: u32, key: IdempotencyKey },
    /// A step ended with an effect that it did not intend, or that did not happen.
    #[error("event {n} ends a step with effect {key}, which the step did not intend or which did not happen")]
    NotItsEffect { n: u32, key: IdempotencyKey },
    #[error("event {n} records a read or an effect that policy denied")]
    Denied { n: u32 },

    // The approvals.
    #[error("event {n} intends an effect that needs approval, but names no approval")]
    Unapproved { n: u32 },
    #[error("event {n} uses an approval that its verdict does not require")]
    Unasked { n: u32 },
    #[error("event {n} names approval {approval}, which is missing")]
    ApprovalMissing { n: u32, approval: ApprovalId },
    #[error("approval {approval} was never requested")]
    NeverAsked { approval: ApprovalId },
    #[error("the {what} of approval {approval} does not match the chain")]
    Approval { what: &'static str, approval: ApprovalId },
    #[error("event {n} is not possible for approval {approval} in its status at that point")]
    ApprovalTransition { n: u32, approval: ApprovalId },
    #[error(
        "{person} may not vote on approval {approval}: {person} is a participant of the run (requester, author, applier, or \
         sender of an event or command)"
    )]
    Excluded { approval: ApprovalId, person: PersonId },
    #[error(
        "approval {approval} counts the vote of {person}, whom the identity provider did not authenticate, although the \
         approval requires it"
    )]
    Assurance { approval: ApprovalId, person: PersonId },
    #[error("approval {approval} does not cover the effect of event {n}: {why}")]
    NotCovered { n: u32, approval: ApprovalId, why: &'static str },
}
