//! The methods of the client, one for each route.

use std::collections::BTreeMap;

use api_types::{
    ApplyPolicy, ApplyWorkflow, Approval, Approvals, AuditLogHead, AuditedChange, AuditedChanges,
    BackOutRequest, BackedOut, Connection, Connections, CreateKey, CreatedKey, DecisionRequest,
    DecisionResponse, Dispatch, DispatchStarted, Events, ExplainPolicy, ExplainResult, Key, Keys, Me, Policy,
    PolicyApplied, PutTenant, ReasonRequest, Receipts, RollbackRequest, Run, RunActionResponse, Runs,
    SendSignal, SetConnection, SignalResponse, StartRun, StartedRun, StopDispatch, Stopped, Tenant, UndoPlan,
    Verification, Versions, Workers, Workflow, WorkflowDetail, Workflows,
};
use domain::{
    ApprovalId, ConnectionName, KeyId, RecordName, RunId, RunStatus, StepId, WorkflowName, WorkspaceId,
};
use reqwest::{Method, StatusCode};

use crate::request::{ApiRequest, Reply};
use crate::{Client, ClientError, Stream, Transport};

/// The filter of a list of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub status: Option<RunStatus>,
    /// The external record.
    pub record: Option<RecordName>,
    pub workspace: Option<WorkspaceId>,
    /// Runs started at this time or later (RFC 3339).
    pub since: Option<String>,
    /// Runs started before this time (RFC 3339).
    pub until: Option<String>,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

/// The filter of a list of approvals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// Only approvals that the caller may decide.
    pub mine: bool,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

/// A started run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStart {
    pub run: RunId,
    /// Whether this request started the run. A repeated request did not.
    pub new: bool,
    /// Whether the request joined the run of another request with the same concurrency key.
    pub joined: bool,
    /// The run that holds the concurrency key and must finish first.
    pub blocked_by: Option<RunId>,
}

impl RunStart {
    fn from_reply(reply: &Reply) -> Result<Self, ClientError> {
        let StartedRun { run, joined, blocked_by } = reply.document()?;
        Ok(Self { run, new: reply.status == StatusCode::CREATED, joined, blocked_by })
    }
}

/// The caller, the tenant, API keys and workflows.
impl Client {
    /// The caller.
    pub async fn me(&self) -> Result<Me, ClientError> {
        self.document(ApiRequest::get("/me")).await
    }

    /// The tenant settings.
    pub async fn tenant(&self) -> Result<Tenant, ClientError> {
        self.document(ApiRequest::get("/tenant")).await
    }

    /// Replaces users, groups and caps.
    pub async fn put_tenant(&self, put: &PutTenant) -> Result<Tenant, ClientError> {
        self.document(ApiRequest::once(Method::PUT, "/tenant").json(put)?).await
    }

    /// The connections to external systems.
    pub async fn connections(&self) -> Result<Connections, ClientError> {
        self.document(ApiRequest::get("/connections")).await
    }

    pub async fn connection(&self, name: &ConnectionName) -> Result<Connection, ClientError> {
        self.document(ApiRequest::get(format!("/connections/{name}"))).await
    }

    /// Adds or replaces a connection.
    pub async fn set_connection(&self, set: &SetConnection) -> Result<Connection, ClientError> {
        self.document(ApiRequest::once(Method::POST, "/connections").json(set)?).await
    }

    /// Starts a run that tests a connection. A repeated request with the same key returns the same run.
    pub async fn test_connection(&self, name: &ConnectionName, key: String) -> Result<RunStart, ClientError> {
        let call = ApiRequest::repeatable(Method::POST, format!("/connections/{name}/test")).with_key(key);
        RunStart::from_reply(&self.reply(&call).await?)
    }

    /// Removes a connection.
    pub async fn remove_connection(&self, name: &ConnectionName) -> Result<Connection, ClientError> {
        self.document(ApiRequest::once(Method::DELETE, format!("/connections/{name}"))).await
    }

    /// A page of the API keys, after `cursor`.
    pub async fn keys(&self, cursor: Option<String>) -> Result<Keys, ClientError> {
        let call = ApiRequest::get("/keys").query("cursor", cursor);
        self.document(call.query("limit", Some(api_types::LIMIT_MAX))).await
    }

    /// A page of the audit log, newest first, after `cursor`.
    pub async fn audit(
        &self,
        kind: Option<&str>,
        cursor: Option<String>,
        limit: u32,
    ) -> Result<AuditedChanges, ClientError> {
        let call = ApiRequest::get("/audit").query("kind", kind).query("cursor", cursor);
        self.document(call.query("limit", Some(limit))).await
    }

    /// An entry of the audit log.
    pub async fn audit_entry(&self, sequence: u64) -> Result<AuditedChange, ClientError> {
        self.document(ApiRequest::get(format!("/audit/{sequence}"))).await
    }

    /// The newest entry of the audit log.
    pub async fn audit_head(&self) -> Result<AuditLogHead, ClientError> {
        self.document(ApiRequest::get("/audit/head")).await
    }

    /// Creates an API key.
    pub async fn create_key(&self, request: &CreateKey) -> Result<CreatedKey, ClientError> {
        self.document(ApiRequest::once(Method::POST, "/keys").json(request)?).await
    }

    /// Revokes an API key.
    pub async fn revoke_key(&self, key: &KeyId) -> Result<Key, ClientError> {
        self.document(ApiRequest::repeatable(Method::DELETE, format!("/keys/{key}"))).await
    }

    /// The applied workflows.
    pub async fn workflows(&self) -> Result<Workflows, ClientError> {
        self.document(ApiRequest::get("/workflows")).await
    }

    /// An applied workflow, with its plan.
    pub async fn workflow(&self, name: &WorkflowName) -> Result<WorkflowDetail, ClientError> {
        self.document(ApiRequest::get(format!("/workflows/{name}"))).await
    }

    /// All applied versions of a workflow, newest first.
    pub async fn versions(&self, name: &WorkflowName) -> Result<Versions, ClientError> {
        self.document(ApiRequest::get(format!("/workflows/{name}/versions"))).await
    }

    /// Applies a workflow.
    pub async fn apply(&self, source: String) -> Result<Workflow, ClientError> {
        self.apply_with(ApplyWorkflow { source, dry_run: false }).await
    }

    /// Checks a workflow as [`apply`](Self::apply) does, and changes nothing.
    pub async fn check_workflow(&self, source: String) -> Result<Workflow, ClientError> {
        self.apply_with(ApplyWorkflow { source, dry_run: true }).await
    }

    async fn apply_with(&self, request: ApplyWorkflow) -> Result<Workflow, ClientError> {
        self.document(ApiRequest::repeatable(Method::POST, "/workflows").json(&request)?).await
    }
}

/// The policy.
impl Client {
    /// The policy in force, with its files.
    pub async fn policy(&self) -> Result<Policy, ClientError> {
        self.document(ApiRequest::get("/policy")).await
    }

    /// Applies a policy, if its tests pass.
    pub async fn apply_policy(&self, files: BTreeMap<String, String>) -> Result<PolicyApplied, ClientError> {
        let request = ApplyPolicy { files };
        self.document(ApiRequest::repeatable(Method::POST, "/policy").json(&request)?).await
    }

    /// Evaluates the policy for each step of a workflow.
    pub async fn explain(&self, request: &ExplainPolicy) -> Result<ExplainResult, ClientError> {
        self.document(ApiRequest::repeatable(Method::POST, "/policy/explain").json(request)?).await
    }
}

/// Workers, the dispatch switch and backout.
impl Client {
    /// The state of the dispatch switch.
    pub async fn dispatch(&self) -> Result<Dispatch, ClientError> {
        self.document(ApiRequest::get("/dispatch")).await
    }

    /// The workers of the fleet.
    pub async fn workers(&self) -> Result<Workers, ClientError> {
        self.document(ApiRequest::get("/workers")).await
    }

    /// Stops dispatch for the tenant. Returns the first stop if dispatch is stopped already.
    pub async fn stop_dispatch(&self, reason: &str) -> Result<Stopped, ClientError> {
        let request = StopDispatch { reason: reason.to_owned() };
        self.document(ApiRequest::repeatable(Method::POST, "/dispatch/stop").json(&request)?).await
    }

    /// Starts dispatch for the tenant and enqueues a batch of waiting runs, after `cursor`.
    pub async fn start_dispatch(&self, cursor: Option<String>) -> Result<DispatchStarted, ClientError> {
        self.document(ApiRequest::repeatable(Method::POST, "/dispatch/start").query("cursor", cursor)).await
    }

    /// Cancels or counts a batch of the unfinished runs of the tenant, after `cursor`.
    pub async fn back_out(
        &self,
        request: &BackOutRequest,
        cursor: Option<String>,
    ) -> Result<BackedOut, ClientError> {
        self.document(ApiRequest::repeatable(Method::POST, "/backout").query("cursor", cursor).json(request)?)
            .await
    }
}

/// Runs.
impl Client {
    /// Runs, newest first.
    pub async fn runs(&self, filter: RunFilter) -> Result<Runs, ClientError> {
        let RunFilter { status, record, workspace, since, until, cursor, limit } = filter;
        let call = ApiRequest::get("/runs").query("status", status).query("record", record);
        let call = call.query("workspace", workspace);
        let call =
            call.query("since", since).query("until", until).query("cursor", cursor).query("limit", limit);
        self.document(call).await
    }

    pub async fn run(&self, run: &RunId) -> Result<Run, ClientError> {
        self.document(ApiRequest::get(format!("/runs/{run}"))).await
    }

    /// Starts a run. A repeated request with the same key returns the same run.
    pub async fn start(&self, request: &StartRun, key: String) -> Result<RunStart, ClientError> {
        let call = ApiRequest::repeatable(Method::POST, "/runs").json(request)?.with_key(key);
        RunStart::from_reply(&self.reply(&call).await?)
    }

    /// Cancels a run.
    pub async fn cancel(&self, run: &RunId, reason: &str) -> Result<RunActionResponse, ClientError> {
        let request = ReasonRequest { reason: reason.to_owned() };
        self.document(ApiRequest::repeatable(Method::POST, format!("/runs/{run}/cancel")).json(&request)?)
            .await
    }

    /// Pauses a run.
    pub async fn pause(&self, run: &RunId, reason: &str) -> Result<RunActionResponse, ClientError> {
        self.change(run, "pause", reason).await
    }

    /// Resumes a paused run at its current step.
    pub async fn retry(&self, run: &RunId, reason: &str) -> Result<RunActionResponse, ClientError> {
        self.change(run, "retry", reason).await
    }

    /// Rolls back the effects of an unfinished run, down to a step if one is given.
    pub async fn roll_back(
        &self,
        run: &RunId,
        reason: &str,
        step: Option<&StepId>,
    ) -> Result<RunActionResponse, ClientError> {
        let request = RollbackRequest { reason: reason.to_owned(), step: step.cloned() };
        self.document(ApiRequest::once(Method::POST, format!("/runs/{run}/rollback")).json(&request)?).await
    }

    async fn change(&self, run: &RunId, verb: &str, reason: &str) -> Result<RunActionResponse, ClientError> {
        let request = ReasonRequest { reason: reason.to_owned() };
        self.document(ApiRequest::once(Method::POST, format!("/runs/{run}/{verb}")).json(&request)?).await
    }

    /// The plan to undo a finished run.
    pub async fn undo_plan(&self, run: &RunId) -> Result<UndoPlan, ClientError> {
        self.document(ApiRequest::get(format!("/runs/{run}/undo"))).await
    }

    /// Starts a run that undoes a finished run.
    pub async fn undo(&self, run: &RunId) -> Result<RunStart, ClientError> {
        RunStart::from_reply(
            &self.reply(&ApiRequest::repeatable(Method::POST, format!("/runs/{run}/undo"))).await?,
        )
    }

    /// Sends a signal to a run.
    pub async fn signal(&self, run: &RunId, signal: &SendSignal) -> Result<SignalResponse, ClientError> {
        self.document(ApiRequest::repeatable(Method::POST, format!("/runs/{run}/signals")).json(signal)?)
            .await
    }

    /// A page of the chain of a run, after the event `after`.
    pub async fn events(&self, run: &RunId, after: Option<u32>) -> Result<Events, ClientError> {
        let call = ApiRequest::get(format!("/runs/{run}/events")).query("after", after);
        self.document(call.query("limit", Some(api_types::LIMIT_MAX))).await
    }

    /// The live events of a run, after the event `after`. None without a server, because no other process changes the
    /// run then.
    pub async fn listen(&self, run: &RunId, after: Option<u32>) -> Result<Option<Stream>, ClientError> {
        let Transport::Server(remote) = &self.transport else { return Ok(None) };
        let call = ApiRequest::get(format!("/runs/{run}/stream")).query("last_event_id", after);
        Ok(Some(Stream::new(remote.listen(&call).await?, remote.name(), after)))
    }

    /// The receipts of a run.
    pub async fn receipts(&self, run: &RunId) -> Result<Receipts, ClientError> {
        self.document(ApiRequest::get(format!("/runs/{run}/receipts"))).await
    }

    /// The evidence of a finished run.
    pub async fn evidence(&self, run: &RunId) -> Result<Vec<u8>, ClientError> {
        Ok(self.reply(&ApiRequest::get(format!("/runs/{run}/evidence"))).await?.body)
    }

    /// The result of the server's verification of the evidence of a run.
    pub async fn verification(&self, run: &RunId) -> Result<Verification, ClientError> {
        self.document(ApiRequest::get(format!("/runs/{run}/evidence/verification"))).await
    }
}

/// Approvals.
impl Client {
    /// Open approvals, oldest first.
    pub async fn approvals(&self, filter: ApprovalFilter) -> Result<Approvals, ClientError> {
        let ApprovalFilter { mine, cursor, limit } = filter;
        let call = ApiRequest::get("/approvals").query("mine", mine.then_some(true));
        self.document(call.query("cursor", cursor).query("limit", limit)).await
    }

    pub async fn approval(&self, approval: &ApprovalId) -> Result<Approval, ClientError> {
        self.document(ApiRequest::get(format!("/approvals/{approval}"))).await
    }

    /// Approves or rejects.
    pub async fn decide(
        &self,
        approval: &ApprovalId,
        approve: bool,
        decision: &DecisionRequest,
    ) -> Result<DecisionResponse, ClientError> {
        let verb = if approve { "approve" } else { "reject" };
        self.document(
            ApiRequest::repeatable(Method::POST, format!("/approvals/{approval}/{verb}")).json(decision)?,
        )
        .await
    }
}
