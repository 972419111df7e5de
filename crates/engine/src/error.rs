//! Why a verb was not done.

use domain::payload::Fingerprint;
use domain::tenant::InvalidPeople;
use domain::{Digest, InboxStatus, KeyId, Refusal, RunKey, RunStatus, TenantId, WorkerId, WorkflowName};
use store::StoreError;
pub use store::told;

use crate::approve::NotShown;

/// Why a verb was not done.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The rules say no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There was no time to ask a tenant's policy: others of that tenant ask it, and it takes long.
    #[error("the policy of tenant {tenant} takes too long to be asked by everybody at once; try again")]
    PolicyBusy {
        /// Whose.
        tenant: TenantId,
    },
    /// Somebody has started dispatch while a backout was under way: nobody's runs are ended after that.
    #[error("dispatch was started since this backout began")]
    BackoutOver,
    /// There is no such run, or it is somebody else's.
    #[error("there is no run {run}; `run list` shows those there are")]
    NoRun {
        /// Which one was asked for.
        run: RunKey,
    },
    /// There is no such run: what came in to start it has not done so.
    #[error("{}", not_begun(.run, .status))]
    NotBegun {
        /// The run it would start.
        run: RunKey,
        /// What has become of it.
        status: InboxStatus,
    },
    /// There is no such workflow in use.
    #[error("there is no workflow {workflow} in use; `workflow apply` puts one to use")]
    NoWorkflow {
        /// Which one was asked for.
        workflow: WorkflowName,
    },
    /// A plan that something was made from is not in the store.
    #[error("the plan {plan} of tenant {tenant} is missing from the store")]
    NoPlan {
        /// Whose.
        tenant: TenantId,
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
    /// The run is not over, so there is no evidence of all of it.
    #[error("run {run} is {status}, and not over yet")]
    NotOver {
        /// Which run.
        run: RunKey,
        /// Where it stands.
        status: RunStatus,
    },
    /// The evidence has not been put together.
    #[error("the evidence of run {run} is not there yet; a worker puts it together when the run is over")]
    NoEvidence {
        /// Which run.
        run: RunKey,
    },
    /// This process has no key to sign evidence with.
    #[error("this process has no key to sign evidence with")]
    NoKey,
    /// This process does not speak to Slack, and somebody is waiting to be shown something there.
    #[error("this process does not speak to Slack")]
    NoSlack,
    /// What the ledger holds makes no bundle.
    #[error("put together the evidence of run {run}")]
    BadEvidence {
        /// Which run.
        run: RunKey,
        /// What is wrong.
        #[source]
        source: Box<evidence::BuildError>,
    },
    /// People could not be shown something.
    #[error(transparent)]
    NotShown(#[from] NotShown),
    /// Whoever wants the run cannot be told from others.
    #[error("{id:?} is no person's name, so nobody could be kept from approving their own run")]
    NotAPerson {
        /// What they are called.
        id: String,
    },
    /// Somebody else has settled something since it was looked at.
    #[error("what tenant {tenant} has settled was changed since it was looked at; look again")]
    TenantChanged {
        /// Whose.
        tenant: TenantId,
    },
    /// The files are no policy.
    #[error(transparent)]
    BadPolicy(Box<policy::BundleError>),
    /// A policy whose own tests do not pass, or that has none, does not come to count.
    #[error("the policy's tests are not green: {why}")]
    NotGreen {
        /// Which of them, and why.
        why: String,
    },
    /// One person would count as two, or somebody be asked who is not there.
    #[error(transparent)]
    BadPeople(#[from] InvalidPeople),
    /// More than a store keeps in one record.
    #[error("what the tenant would settle has {bytes} bytes; at most {most} are allowed")]
    TenantTooLarge {
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        most: usize,
    },
    /// There is no such API key.
    #[error("there is no API key {key}")]
    NoApiKey {
        /// Which one was asked for.
        key: KeyId,
    },
    /// An API key of this name is there already, or others keep changing it.
    #[error("the API key {key} was written by somebody else meanwhile; try again")]
    KeyTaken {
        /// Which key.
        key: KeyId,
    },
    /// There is no such worker.
    #[error("there is no worker {worker}; `worker list` shows those there are")]
    NoWorker {
        /// Which one was asked for.
        worker: WorkerId,
    },
    /// The worker kept signing while it was to be asked something.
    #[error("worker {worker} could not be asked: its place on the roll kept changing; try again")]
    WorkerBusy {
        /// Which one.
        worker: WorkerId,
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

/// What has become of what came in to start `run`, which is not there.
fn not_begun(run: &RunKey, status: &InboxStatus) -> String {
    match status {
        InboxStatus::Pending => {
            format!("run {run} has not begun: what starts it came in, and waits for a worker or its ticket")
        }
        // It began after it was looked for.
        InboxStatus::Started => format!("run {run} has only just begun; look again"),
        InboxStatus::Joined { run: other } => {
            format!("run {run} was not started: run {other} has its ticket, and answers for it")
        }
        InboxStatus::Unmatched { .. } => {
            format!("run {run} was not started: no workflow wanted what came in")
        }
        InboxStatus::Rejected { reason, .. } => format!("run {run} was not started: {reason}"),
    }
}
