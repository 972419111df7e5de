//! Request and response documents of the REST API.
//!
//! The handlers, the `OpenAPI` document and the client use the same types. A request with an unknown field is rejected,
//! because ignoring the field would silently drop a part of the request.

mod approvals;
mod audit;
mod connections;
mod dispatch;
mod evidence;
mod keys;
mod policy;
mod runs;
mod tenant;
mod workers;
mod workflows;

use std::fmt;

use domain::{PersonId, Role, Roles, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

pub use approvals::{Approval, Approvals, DecisionOutcome, DecisionRequest, DecisionResponse, Vote};
pub use audit::{AuditLogHead, AuditedChange, AuditedChanges};
pub use connections::{Connection, Connections, SetConnection};
pub use dispatch::{BackOutRequest, BackedOut, Dispatch, DispatchStarted, StopDispatch, Stopped};
pub use evidence::{Receipts, Verification};
pub use keys::{CreateKey, CreatedKey, Key, Keys};
pub use policy::{
    ApplyPolicy, ExplainPolicy, ExplainResult, ExplainedStep, Policy, PolicyApplied, PolicyOrigin, PolicyRef,
    SampleAction,
};
pub use runs::{
    Events, ReasonRequest, RollbackRequest, RunActionResponse, RunActionResult, RunSummary, Runs, SendSignal,
    SignalDelivery, SignalResponse, StartRun, StartedRun, UndoCall, UndoEffect, UndoPlan,
};
pub use tenant::{Caps, Person, PreviousSecret, PutTenant, SecretName, SecretNames, Tenant};
pub use views::{
    AttemptDocument as Attempt, CanceledDocument as Canceled, ChainDocument as Chain,
    CompensationDocument as Compensation, CostDocument as Cost, EventDocument as Event,
    LeaseDocument as Lease, NextActionDocument as NextAction, RunDocument as Run, StepDocument as Step,
    UsageDocument as Usage, WaitDocument as Wait,
};
pub use workers::{DrainRequest, WorkerInfo, Workers};
pub use workflows::{ApplyWorkflow, Versions, Workflow, WorkflowDetail, Workflows};

/// The path prefix of every route of this version.
pub const PREFIX: &str = "/api/v1";

/// The maximum number of entries of a page.
pub const LIMIT_MAX: u32 = 200;

/// A location in a file. Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceLocation {
    /// The file; absent if the request holds only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub line: usize,
    pub column: usize,
}

/// The serialized name of an enum variant without data.
fn enum_name<T: Serialize>(variant: &T) -> String {
    json!(variant).as_str().unwrap_or_default().to_owned()
}

/// The caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    #[schema(value_type = String)]
    pub tenant: TenantId,
    #[schema(value_type = String)]
    pub person: PersonId,
    #[schema(value_type = Vec<String>)]
    pub roles: Roles,
    /// The name of the credential, never its secret.
    pub credential: String,
}

/// An error response: problem details (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    pub status: u16,
    /// A stable code for programs.
    pub code: String,
    /// The problem, in a sentence.
    pub detail: String,
    /// The fix, if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
    /// The location of the problem in the file that was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<SourceLocation>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

/// The server responds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
}

/// The name of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Role)]
pub enum RoleName {
    /// Reads everything of the tenant except API keys and names of secrets.
    Viewer,
    /// Starts runs and controls them.
    Operator,
    /// Decides approvals.
    Approver,
    /// Does all of that, and manages workflows, the policy, users and API keys.
    Admin,
}

impl From<Role> for RoleName {
    fn from(role: Role) -> Self {
        match role {
            Role::Viewer => Self::Viewer,
            Role::Operator => Self::Operator,
            Role::Approver => Self::Approver,
            Role::Admin => Self::Admin,
        }
    }
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Viewer => Self::Viewer,
            RoleName::Operator => Self::Operator,
            RoleName::Approver => Self::Approver,
            RoleName::Admin => Self::Admin,
        }
    }
}
