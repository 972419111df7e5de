//! The evidence bundle of a run: built, signed, and verified offline.
//!
//! A bundle is one deterministic file. It contains the ledger's records of a finished run (the chain of events, the
//! outcomes, receipts and approvals), with fingerprints instead of values, and the run's position in the transparency
//! log. [`build()`] signs it. [`verify()`] needs only the file and a public key: no network, no store, no clock.
//!
//! A bundle has three guarantees. Any changed byte is detected, because the encoding is canonical and signed. The holder
//! of the key cannot sign an inconsistent bundle: verification replays the chain through the state machines and compares
//! all other records with the chain. The same run always gives the same bytes.

mod audit;
mod build;
pub mod bundle;
mod check;
mod compare;
mod envelope;
mod error;
mod html;
mod key;
mod log;
mod trusted_keys;
mod verify;

pub use audit::{
    AUDIT_BYTES_MAX, AUDIT_PAYLOAD_TYPE, AuditExport, AuditExportError, NotContinued, sign_audit,
    verify_audit,
};
pub use build::{BuildError, BundleInput, build, effects_of};
pub use bundle::EvidenceBundle;
pub use check::effects::ReceiptOwner;
pub use compare::{BundleComparison, StoredRun, compare, final_receipts};
pub use envelope::{BYTES_MAX, PAYLOAD_TYPE};
pub use error::VerifyError;
pub use html::{html, html_with_notice};
pub use key::{InvalidKey, PublicKey, SigningKey};
pub use log::{LogEntry, LogProof, leaf};
pub use trusted_keys::{NotReplaced, TrustedKeys};
pub use verify::{
    BundleClaim, Check, Contradiction, Verified, claimed, claimed_run, is_signed_by, verify,
    verify_with_progress,
};
