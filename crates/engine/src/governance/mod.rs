//! Governance: policy verdicts on actions, and approvals by people.
//!
//! `evaluate` asks the tenant's policy about an action; `policy_input` builds its input. `approvals` records votes,
//! and `notifications` tells approvers and the on-call. `explain` is the dry run. `tenants` has the settings and API keys of a tenant, and
//! `connections` its connections.

mod approvals;
mod connections;
mod evaluate;
mod explain;
mod notifications;
mod policies;
pub mod policy_input;
mod tenants;

pub use approvals::{VoteInput, VoteRequest};
pub use connections::ConnectionUpdate;
pub use explain::{DryRun, DryRunRequest, EvaluatedAction, StepForecast};
pub use policies::{PolicyApplied, TenantPolicy};
pub use tenants::{NewApiKey, TenantUpdate};

crate::core::service! {
    /// Evaluates policy, records approvals, and reads the settings of tenants.
    GovernanceService
}
