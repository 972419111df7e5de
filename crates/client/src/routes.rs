//! A method for each route.

use std::collections::BTreeMap;

use api_types::{
    Answer, Answered, ApplyPolicy, ApplyWorkflow, Approval, Approvals, BackOut, BackedOut, Delivered,
    Dispatch, DispatchStarted, Events, ExplainPolicy, Explained, Key, Keys, MadeKey, MakeKey, Me, Policy,
    PolicyApplied, PutTenant, ReasonRequest, Receipts, Run, RunActionResponse, Runs, SendSignal, StartRun,
    StartedRun, StopDispatch, Stopped, Tenant, UndoPlan, Verification, Versions, Workers, Workflow,
    WorkflowShown, Workflows,
};
use domain::{ApprovalId, KeyId, RecordName, RunId, RunStatus, WorkflowName};
use reqwest::{Method, StatusCode};

use crate::ask::{Ask, Reply};
use crate::{Client, ClientError, Stream, Transport};

/// Which runs are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Those in this status.
    pub status: Option<RunStatus>,
    /// Those about this record outside.
    pub record: Option<RecordName>,
    /// Those that were admitted at this time or later, as RFC 3339 has it.
    pub since: Option<String>,
    /// Those that were admitted before this time.
    pub until: Option<String>,
    /// Those behind this cursor.
    pub cursor: Option<String>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// Which requests for approval are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// Those alone that whoever asks can answer.
    pub mine: bool,
    /// Those behind this cursor.
    pub cursor: Option<String>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// A run that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Which run.
    pub run: RunId,
    /// Whether it was started now; else by the same request before.
    pub new: bool,
    /// Whether it is another request's, about the same ticket.
    pub joined: bool,
    /// The run about the same ticket that must be over before this one begins.
    pub behind: Option<RunId>,
}

impl Started {
    fn of(reply: &Reply) -> Result<Self, ClientError> {
        let StartedRun { run, joined, behind } = reply.document()?;
        Ok(Self { run, new: reply.status == StatusCode::CREATED, joined, behind })
    }
}

/// Who asks, and what is settled.
impl Client {
    /// Who asks, as the server knows them.
    pub async fn me(&self) -> Result<Me, ClientError> {
        self.document(Ask::get("/me")).await
    }

    /// What the tenant has settled.
    pub async fn tenant(&self) -> Result<Tenant, ClientError> {
        self.document(Ask::get("/tenant")).await
    }

    /// Settles people, groups and caps anew.
    pub async fn put_tenant(&self, put: &PutTenant) -> Result<Tenant, ClientError> {
        self.document(Ask::say_once(Method::PUT, "/tenant").sending(put)?).await
    }

    /// The tenant's API keys behind `cursor`, or the first; as many of them as a page holds.
    pub async fn keys(&self, cursor: Option<String>) -> Result<Keys, ClientError> {
        let ask = Ask::get("/keys").with("cursor", cursor);
        self.document(ask.with("limit", Some(api_types::LIMIT_MAX))).await
    }

    /// Makes an API key.
    pub async fn make_key(&self, wish: &MakeKey) -> Result<MadeKey, ClientError> {
        self.document(Ask::say_once(Method::POST, "/keys").sending(wish)?).await
    }

    /// Takes an API key back.
    pub async fn revoke_key(&self, key: &KeyId) -> Result<Key, ClientError> {
        self.document(Ask::say(Method::DELETE, format!("/keys/{key}"))).await
    }

    /// The workflows in use.
    pub async fn workflows(&self) -> Result<Workflows, ClientError> {
        self.document(Ask::get("/workflows")).await
    }

    /// A workflow in use, with its plan.
    pub async fn workflow(&self, name: &WorkflowName) -> Result<WorkflowShown, ClientError> {
        self.document(Ask::get(format!("/workflows/{name}"))).await
    }

    /// Every version of a workflow that was put to use, the newest first.
    pub async fn versions(&self, name: &WorkflowName) -> Result<Versions, ClientError> {
        self.document(Ask::get(format!("/workflows/{name}/versions"))).await
    }

    /// Puts a workflow to use.
    pub async fn apply(&self, source: String) -> Result<Workflow, ClientError> {
        let wish = ApplyWorkflow { source };
        self.document(Ask::say(Method::POST, "/workflows").sending(&wish)?).await
    }
}

/// The policy.
impl Client {
    /// The policy that counts, with its files.
    pub async fn policy(&self) -> Result<Policy, ClientError> {
        self.document(Ask::get("/policy")).await
    }

    /// Settles on a policy, if its tests pass.
    pub async fn apply_policy(&self, files: BTreeMap<String, String>) -> Result<PolicyApplied, ClientError> {
        let wish = ApplyPolicy { files };
        self.document(Ask::say(Method::POST, "/policy").sending(&wish)?).await
    }

    /// What policy would say about each step of a workflow.
    pub async fn explain(&self, wish: &ExplainPolicy) -> Result<Explained, ClientError> {
        self.document(Ask::say(Method::POST, "/policy/explain").sending(wish)?).await
    }
}

/// The fleet, and the switch.
impl Client {
    /// Whether steps are begun.
    pub async fn dispatch(&self) -> Result<Dispatch, ClientError> {
        self.document(Ask::get("/dispatch")).await
    }

    /// The workers of the fleet.
    pub async fn workers(&self) -> Result<Workers, ClientError> {
        self.document(Ask::get("/workers")).await
    }

    /// Begins nothing any more for the tenant; says who stopped it first.
    pub async fn stop_dispatch(&self, reason: &str) -> Result<Stopped, ClientError> {
        let wish = StopDispatch { reason: reason.to_owned() };
        self.document(Ask::say(Method::POST, "/dispatch/stop").sending(&wish)?).await
    }

    /// Begins steps of the tenant again, and has some of the runs go on that wait; those behind `cursor`, or the first.
    pub async fn start_dispatch(&self, cursor: Option<String>) -> Result<DispatchStarted, ClientError> {
        self.document(Ask::say(Method::POST, "/dispatch/start").with("cursor", cursor)).await
    }

    /// Ends some of the runs of the tenant that are under way, or counts them; those behind `cursor`, or the first.
    pub async fn back_out(&self, wish: &BackOut, cursor: Option<String>) -> Result<BackedOut, ClientError> {
        self.document(Ask::say(Method::POST, "/backout").with("cursor", cursor).sending(wish)?).await
    }
}

/// Runs.
impl Client {
    /// Runs, newest first.
    pub async fn runs(&self, filter: RunFilter) -> Result<Runs, ClientError> {
        let RunFilter { status, record, since, until, cursor, limit } = filter;
        let ask = Ask::get("/runs").with("status", status).with("record", record);
        let ask = ask.with("since", since).with("until", until).with("cursor", cursor).with("limit", limit);
        self.document(ask).await
    }

    /// Everything about a run.
    pub async fn run(&self, run: &RunId) -> Result<Run, ClientError> {
        self.document(Ask::get(format!("/runs/{run}"))).await
    }

    /// Starts a run, or finds the one that was started under the same key.
    pub async fn start(&self, wish: &StartRun, key: String) -> Result<Started, ClientError> {
        let ask = Ask::say(Method::POST, "/runs").sending(wish)?.under(key);
        Started::of(&self.reply(&ask).await?)
    }

    /// Stops a run.
    pub async fn cancel(&self, run: &RunId, reason: &str) -> Result<RunActionResponse, ClientError> {
        let wish = ReasonRequest { reason: reason.to_owned() };
        self.document(Ask::say(Method::POST, format!("/runs/{run}/cancel")).sending(&wish)?).await
    }

    /// Holds a run for an operator.
    pub async fn pause(&self, run: &RunId, reason: &str) -> Result<RunActionResponse, ClientError> {
        self.say_once(run, "pause", reason).await
    }

    /// Lets a paused run go on.
    pub async fn retry(&self, run: &RunId, reason: &str) -> Result<RunActionResponse, ClientError> {
        self.say_once(run, "retry", reason).await
    }

    /// Takes the effects of a run back that is not over.
    pub async fn roll_back(&self, run: &RunId, reason: &str) -> Result<RunActionResponse, ClientError> {
        self.say_once(run, "rollback", reason).await
    }

    async fn say_once(
        &self,
        run: &RunId,
        verb: &str,
        reason: &str,
    ) -> Result<RunActionResponse, ClientError> {
        let wish = ReasonRequest { reason: reason.to_owned() };
        self.document(Ask::say_once(Method::POST, format!("/runs/{run}/{verb}")).sending(&wish)?).await
    }

    /// What taking back a finished run would do.
    pub async fn undo_plan(&self, run: &RunId) -> Result<UndoPlan, ClientError> {
        self.document(Ask::get(format!("/runs/{run}/undo"))).await
    }

    /// Starts a run that takes back what a finished run did.
    pub async fn undo(&self, run: &RunId) -> Result<Started, ClientError> {
        Started::of(&self.reply(&Ask::say(Method::POST, format!("/runs/{run}/undo"))).await?)
    }

    /// Delivers an event to a run.
    pub async fn signal(&self, run: &RunId, signal: &SendSignal) -> Result<Delivered, ClientError> {
        self.document(Ask::say(Method::POST, format!("/runs/{run}/signals")).sending(signal)?).await
    }

    /// The chain of a run behind event `after`, or from its beginning; as much of it as a page holds.
    pub async fn events(&self, run: &RunId, after: Option<u32>) -> Result<Events, ClientError> {
        let ask = Ask::get(format!("/runs/{run}/events")).with("after", after);
        self.document(ask.with("limit", Some(api_types::LIMIT_MAX))).await
    }

    /// What happens to a run behind event `after`, or from its beginning, as it happens. Nothing without a server: in
    /// one process there is nobody to wait for.
    pub async fn listen(&self, run: &RunId, after: Option<u32>) -> Result<Option<Stream>, ClientError> {
        let Transport::Server(remote) = &self.transport else { return Ok(None) };
        let ask = Ask::get(format!("/runs/{run}/stream")).with("last_event_id", after);
        Ok(Some(Stream::new(remote.listen(&ask).await?, remote.name(), after)))
    }

    /// What a run attempted outside.
    pub async fn receipts(&self, run: &RunId) -> Result<Receipts, ClientError> {
        self.document(Ask::get(format!("/runs/{run}/receipts"))).await
    }

    /// The evidence of a finished run.
    pub async fn evidence(&self, run: &RunId) -> Result<Vec<u8>, ClientError> {
        Ok(self.reply(&Ask::get(format!("/runs/{run}/evidence"))).await?.body)
    }

    /// Whether the evidence of a run is genuine, as the server finds it.
    pub async fn verification(&self, run: &RunId) -> Result<Verification, ClientError> {
        self.document(Ask::get(format!("/runs/{run}/evidence/verification"))).await
    }
}

/// Requests for approval.
impl Client {
    /// Requests that people can still answer, oldest first.
    pub async fn approvals(&self, filter: ApprovalFilter) -> Result<Approvals, ClientError> {
        let ApprovalFilter { mine, cursor, limit } = filter;
        let ask = Ask::get("/approvals").with("mine", mine.then_some(true));
        self.document(ask.with("cursor", cursor).with("limit", limit)).await
    }

    /// A request for approval.
    pub async fn approval(&self, approval: &ApprovalId) -> Result<Approval, ClientError> {
        self.document(Ask::get(format!("/approvals/{approval}"))).await
    }

    /// Says yes or no to a request.
    pub async fn answer(
        &self,
        approval: &ApprovalId,
        approve: bool,
        answer: &Answer,
    ) -> Result<Answered, ClientError> {
        let verb = if approve { "approve" } else { "reject" };
        self.document(Ask::say(Method::POST, format!("/approvals/{approval}/{verb}")).sending(answer)?).await
    }
}
