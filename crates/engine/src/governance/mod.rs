//! Governance: policy verdicts on actions, and approvals by people.
//!
//! `evaluate` asks the tenant's policy about an action; `policy_input` builds its input; `policy_pool` bounds what
//! evaluations cost other tenants. `approvals` records votes and posts approval requests. `explain` is the dry run.

pub(crate) mod approvals;
pub(crate) mod evaluate;
mod explain;
mod policies;
pub mod policy_input;
pub(crate) mod policy_pool;

pub use approvals::{Again, ApprovalNotifier, Notifier, NotifyFailure, VoteRequest};
pub use explain::{DryRun, DryRunRequest, EvaluatedAction, StepForecast};
pub use policies::{PolicyApplied, TenantPolicy};
