//! Why an operation failed.

use domain::payload::Fingerprint;
use domain::tenant::InvalidPeople;
use domain::{
    ConnectionName, Digest, InboxStatus, KeyId, Refusal, RunKey, RunStatus, StepId, TenantId, WorkerId,
    WorkflowName, WorkspaceId,
};
pub use store::error_chain;
use store::{NewerFormat, StoreError};

use crate::core::notifier::NotifyFailure;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The domain's rules refuse it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store did not answer.
    #[error(transparent)]
    Store(StoreError),
    /// The tenant's policy evaluations use all permits of that tenant.
    #[error("policy evaluations of tenant {tenant} are at their limit; try again")]
    PolicyBusy { tenant: TenantId },
    /// A newer program has started, and this one would drop what it does not know.
    #[error(
        "the store has records of format {format}; this program supports formats up to {}; install a newer \
         version of this program",
        domain::dispatch::RECORD_FORMAT
    )]
    UnsupportedRecordFormat { format: u32 },
    /// Dispatch was started while a backout was in progress.
    #[error("dispatch was started during this backout; runs are no longer canceled")]
    DispatchStartedDuringBackout,
    /// The run does not exist, or belongs to another tenant.
    #[error("run {run} not found; `run list` lists runs")]
    NoRun { run: RunKey },
    /// The run does not exist: its inbox entry has not started it.
    #[error("{}", not_started(.run, .status))]
    NotStarted { run: RunKey, status: InboxStatus },
    /// The workflow is not applied.
    #[error("workflow {workflow} is not applied; apply it with `workflow apply`")]
    NoWorkflow { workflow: WorkflowName },
    /// A plan that a run or inbox entry refers to is not in the store.
    #[error("plan {plan} of tenant {tenant} is missing from the store; restore the store from a backup")]
    NoPlan { tenant: TenantId, plan: Digest },
    /// This program cannot compile the plan.
    #[error("plan {plan} cannot be used: {why}")]
    BadPlan { plan: Digest, why: String },
    /// A payload that the ledger refers to is not in the store.
    #[error("a payload of {} bytes is missing from the store", .payload.bytes)]
    NoPayload { payload: Fingerprint },
    /// The input breaks a rule for payloads.
    #[error("{what}")]
    BadInput {
        what: &'static str,
        #[source]
        source: domain::json::InvalidJson,
    },
    /// The run has not ended, so its evidence cannot be complete.
    #[error("run {run} is {status}; evidence is built when the run ends")]
    NotFinished { run: RunKey, status: RunStatus },
    /// The evidence has not been built.
    #[error("the evidence of run {run} is not available yet; a worker builds it when the run ends")]
    NoEvidence { run: RunKey },
    /// This process cannot sign evidence.
    #[error(
        "this process has no evidence signing key; start it with the store's `.key` file, or set `EVIDENCE_KEY` in the \
         worker's secret"
    )]
    NoSigningKey,
    /// This process knows no Slack connection for the approval requests of the tenant, and an approver waits for a message
    /// there.
    #[error(
        "this process has no connection for the approval requests of the tenant; add `channel` to the options of one of \
         kind `slack`"
    )]
    NoSlack,
    /// The stored data does not make a valid bundle.
    #[error("cannot build the evidence of run {run}")]
    BadEvidence {
        run: RunKey,
        #[source]
        source: Box<evidence::BuildError>,
    },
    /// The stored records of an ended run contradict what was logged or signed before.
    #[error(
        "run {run} was changed after it ended: {what} differs. No new bundle was signed; the existing bundle is the \
         record of the run. Compare the run with it (`countersign bundle show`), and restore the store from a backup"
    )]
    AlteredRun { run: RunKey, what: &'static str },
    /// An approval request could not be posted.
    #[error(transparent)]
    NotifyFailure(#[from] NotifyFailure),
    /// The requester cannot be identified, so self-approval could not be prevented.
    #[error("{id:?} is not a valid user name; use letters, digits, `.`, `_` and `-`")]
    InvalidUserName { id: String },
    /// Another change was written since the caller read the tenant.
    #[error("the settings of tenant {tenant} were changed by another request; read them again and retry")]
    TenantChanged { tenant: TenantId },
    /// The files are not a valid policy.
    #[error(transparent)]
    BadPolicy(Box<policy::PolicyError>),
    /// A policy is applied only if it has tests and they pass.
    #[error("the policy's tests do not pass: {why}")]
    PolicyTestsFailed { why: String },
    /// Two users share an identity, or a group names an unknown user.
    #[error(transparent)]
    BadPeople(#[from] InvalidPeople),
    /// A regular expression in `redact` cannot be used.
    #[error(transparent)]
    BadRedaction(#[from] credentials::InvalidRedaction),
    /// Without a directory, every approver would count.
    #[error(
        "`people` is empty, but tenant {tenant} has a directory; keep at least one user, because without a directory \
         every credential with the role approver could approve"
    )]
    DirectoryRemoved { tenant: TenantId },
    /// The settings exceed the size of one record.
    #[error("the tenant's settings have {bytes} bytes; the limit is {most}")]
    TenantTooLarge { bytes: usize, most: usize },
    #[error("connection {connection} not found; `connection list` lists connections")]
    NoConnection { connection: ConnectionName },
    /// A connection that cannot be set or removed.
    #[error("connection {connection}: {why}")]
    BadConnection { connection: ConnectionName, why: String },
    /// The request names another workspace than the workflow.
    #[error("workflow {workflow} belongs to workspace {workspace}; omit the workspace of the request")]
    OtherWorkspace { workflow: WorkflowName, workspace: WorkspaceId },
    /// A workflow cannot be applied: a step has no usable connection.
    #[error("step {step}: {why}")]
    StepConnection { step: StepId, why: String },
    /// Another change was written since the caller read the connection.
    #[error("connection {connection} was changed by another request; read it again and retry")]
    ConnectionChanged { connection: ConnectionName },
    #[error("API key {key} not found")]
    NoApiKey { key: KeyId },
    /// An API key with this id exists, or is being changed by others.
    #[error("API key {key} was changed by another request; try again")]
    KeyChanged { key: KeyId },
    #[error("worker {worker} not found; `worker list` lists workers")]
    NoWorker { worker: WorkerId },
    /// The worker's record kept changing.
    #[error("drain not requested: other writes changed the record of worker {worker}; try again")]
    WorkerRecordContended { worker: WorkerId },
    /// Other processes kept changing the run.
    #[error("run {run}: {rounds} write conflicts; try again")]
    Contended { run: RunKey, rounds: u32 },
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        let newer = match &error {
            StoreError::Broken { source, .. } => source.downcast_ref::<NewerFormat>().copied(),
            StoreError::Busy { .. } | StoreError::Unknown { .. } => None,
        };
        match newer {
            Some(NewerFormat { format }) => Self::UnsupportedRecordFormat { format },
            None => Self::Store(error),
        }
    }
}

/// Why `run` does not exist, by the status of its inbox entry.
fn not_started(run: &RunKey, status: &InboxStatus) -> String {
    match status {
        InboxStatus::Pending => {
            format!(
                "run {run} has not started: its inbox entry waits for a worker or for its concurrency key"
            )
        }
        // It started after it was looked for.
        InboxStatus::Started => format!("run {run} has just started; try again"),
        InboxStatus::Joined { run: other } => {
            format!(
                "run {run} was not started: run {other} holds its concurrency key, and the request joined it"
            )
        }
        InboxStatus::Unmatched { .. } => {
            format!("run {run} was not started: no workflow matched the event")
        }
        InboxStatus::Rejected { reason, .. } => format!("run {run} was not started: {reason}"),
    }
}
