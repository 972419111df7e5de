//! Why a verb was not done.

use domain::payload::Fingerprint;
use domain::{Digest, Refusal, RunKey};
use store::StoreError;

/// Why a verb was not done.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The rules say no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no such run, or it is somebody else's.
    #[error("there is no run {run}; `run list` shows those there are")]
    NoRun {
        /// Which one was asked for.
        run: RunKey,
    },
    /// The run's plan is not in the store.
    #[error("the plan {plan} of run {run} is missing from the store")]
    NoPlan {
        /// Which run.
        run: RunKey,
        /// Which plan.
        plan: Digest,
    },
    /// The run's plan cannot be read by this program.
    #[error("the plan {plan} cannot be used: {why}")]
    BadPlan {
        /// Which plan.
        plan: Digest,
        /// What is wrong.
        why: String,
    },
    /// A payload that the ledger points at is not in the store.
    #[error("a payload of {} bytes is missing from the store", .payload.bytes)]
    NoPayload {
        /// Which one.
        payload: Fingerprint,
    },
    /// What was handed in breaks a rule for payloads.
    #[error("{what}")]
    BadInput {
        /// Which part of it.
        what: &'static str,
        /// What is wrong.
        #[source]
        source: domain::json::InvalidJson,
    },
    /// Others kept changing the run.
    #[error("run {run} changed {rounds} times while this was being decided; try again")]
    Contended {
        /// Which run.
        run: RunKey,
        /// How often it was tried.
        rounds: u32,
    },
}
