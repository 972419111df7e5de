//! The documents that the API takes and gives.
//!
//! Handlers, the document that describes the API and programs that speak to it use the same types. A request
//! with a field that nobody knows is refused: what somebody meant to settle with it would silently not be.

mod approvals;
mod dispatch;
mod evidence;
mod keys;
mod policy;
mod runs;
mod tenant;
mod workers;
mod workflows;

use domain::{PersonId, Role, Roles, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

pub use approvals::{Answer, AnswerOutcome, Answered, Approval, Approvals, Vote};
pub use dispatch::{BackOut, BackedOut, Dispatch, DispatchStarted, StopDispatch, Stopped};
pub use evidence::{Receipts, Verification};
pub use keys::{Key, Keys, MadeKey, MakeKey};
pub use policy::{
    ApplyPolicy, ExplainPolicy, Explained, ExplainedStep, Policy, PolicyApplied, PolicyFrom, PolicyNamed,
    SampleAction,
};
pub use runs::{
    Delivered, Delivery, Events, ReasonRequest, RunActionResponse, RunActionResult, RunLine, Runs,
    SendSignal, StartRun, StartedRun, UndoCall, UndoEffect, UndoPlan,
};
pub use tenant::{Caps, Person, PreviousSecret, PutTenant, SecretName, SecretNames, Tenant};
pub use views::{
    CanceledDocument as Canceled, ChainDocument as Chain, CompensationDocument as Compensation,
    CostDocument as Cost, EventDocument as Event, LeaseDocument as Lease, RunDocument as Run,
    StepDocument as Step, TryDocument as Try, UsageDocument as Usage, WaitDocument as Wait,
    WayDocument as Way,
};
pub use workers::{DrainRequest, Worker, Workers};
pub use workflows::{ApplyWorkflow, Versions, Workflow, WorkflowShown, Workflows};

/// Where every route of this version begins.
pub const PREFIX: &str = "/api/v1";

/// The most entries that one page of a list holds.
pub const LIMIT_MAX: u32 = 200;

/// A place in a file, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Place {
    /// The file, where several were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// How a plain enum of the domain is written everywhere.
fn word<T: Serialize>(word: &T) -> String {
    json!(word).as_str().unwrap_or_default().to_owned()
}

/// Who asks, as the server knows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// Of which tenant.
    #[schema(value_type = String)]
    pub tenant: TenantId,
    /// Who.
    #[schema(value_type = String)]
    pub person: PersonId,
    /// What they may do.
    #[schema(value_type = Vec<String>)]
    pub roles: Roles,
    /// Which credential they showed, never its secret.
    pub credential: String,
}

/// A no, as problem details (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// Names the kind of problem for programs; it never changes its meaning.
    pub code: String,
    /// What is wrong, in a sentence.
    pub detail: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
    /// Where in a file it is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// The server answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
}

/// A role, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Role)]
pub enum RoleName {
    /// Looks at everything of the tenant.
    Viewer,
    /// Starts runs and says how they go on.
    Operator,
    /// Answers requests for approval.
    Approver,
    /// Does all of that, and settles what counts.
    Admin,
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
