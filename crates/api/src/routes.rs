//! The one table of routes.
//!
//! A row says where something is, which role it takes, what it takes and gives. The router and the document that
//! describes the API are made from the same rows, and so are the tests that try every route with every id.

use api_types::PREFIX;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::{HeaderValue, Method, header};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use domain::Role;
use store::Store;
use utoipa::ToSchema;

use crate::extract::BODY_BYTES_MAX;
use crate::openapi::{Body, Param};
use crate::{
    Shared, approvals, dispatch, evidence, keys, me, openapi, policy, problem, runs, stream, tenant, workers,
    workflows,
};

/// What is known of a route.
#[derive(Debug, Clone)]
pub struct Row {
    /// The method.
    pub method: Method,
    /// The address under `/api/v1`; what stands in braces names something.
    pub path: &'static str,
    /// The role that it takes; none, if anybody may.
    pub role: Option<Role>,
    /// Its name, for programs that are made from the document.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    pub(crate) takes: Option<Body>,
    pub(crate) gives: Vec<(u16, &'static str, Body)>,
    pub(crate) params: Vec<Param>,
}

impl Row {
    /// The names of what the address names.
    pub fn ids(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Whether something is sent along.
    pub fn takes_a_body(&self) -> bool {
        self.takes.is_some()
    }
}

/// A row with what answers.
pub(crate) struct Route<S> {
    pub(crate) row: Row,
    handler: MethodRouter<Shared<S>>,
}

impl<S: Store> Route<S> {
    fn new<H, T>(
        method: Method,
        path: &'static str,
        role: impl Into<Option<Role>>,
        (name, summary): (&'static str, &'static str),
        handler: H,
    ) -> Self
    where
        H: Handler<T, Shared<S>>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::TRACE);
        let row = Row {
            method,
            path,
            role: role.into(),
            name,
            summary,
            takes: None,
            gives: Vec::new(),
            params: Vec::new(),
        };
        Self { row, handler: on(filter, handler) }
    }

    fn takes<T: ToSchema>(mut self) -> Self {
        self.row.takes = Some(Body::of::<T>());
        self
    }

    fn gives<T: ToSchema>(mut self, status: u16, what: &'static str) -> Self {
        self.row.gives.push((status, what, Body::of::<T>()));
        self
    }

    fn gives_file(mut self, kind: &'static str, what: &'static str) -> Self {
        self.row.gives.push((200, what, Body::File(kind)));
        self
    }

    fn with(mut self, param: Param) -> Self {
        self.row.params.push(param);
        self
    }

    fn paged(self) -> Self {
        self.with(Param::CURSOR).with(Param::LIMIT)
    }
}

/// Every row, for whoever wants to know what there is.
pub fn rows<S: Store>() -> Vec<Row> {
    routes::<S>().into_iter().map(|route| route.row).collect()
}

/// The routes under `/api/v1`.
pub(crate) fn router<S: Store>(api: Shared<S>) -> Router {
    let table = routes::<S>();
    let document = openapi::text(table.iter().map(|route| &route.row));
    let mut router = Router::new();
    for Route { row, handler } in table {
        router = router.route(row.path, handler);
    }
    router = router.route("/openapi.json", axum::routing::get(move || openapi::serve(document.clone())));
    let served = router
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(map_response(private))
        .with_state(api);
    // What is nested does not answer for the bare prefix.
    Router::new().route("/api/v1/", axum::routing::any(problem::no_route)).nest(PREFIX, served)
}

/// What is told to one person is kept by nobody in between, and read as nothing but what it says it is.
async fn private(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn routes<S: Store>() -> Vec<Route<S>> {
    [
        around(),
        workflow_routes(),
        policy_routes(),
        run_routes(),
        verb_routes(),
        story_routes(),
        live_routes(),
        approval_routes(),
        settled_routes(),
        dispatch_routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn around<S: Store>() -> Vec<Route<S>> {
    vec![
        Route::new(Method::GET, "/health", None, ("health", "Whether the server answers"), me::health)
            .gives::<api_types::Health>(200, "it does"),
        Route::new(
            Method::GET,
            "/me",
            Role::Viewer,
            ("me", "Who asks, as the server knows them"),
            me::show::<S>,
        )
        .gives::<api_types::Me>(200, "who asks"),
    ]
}

fn workflow_routes<S: Store>() -> Vec<Route<S>> {
    let path = "/workflows";
    vec![
        Route::new(
            Method::GET,
            path,
            Role::Viewer,
            ("listWorkflows", "The workflows in use"),
            workflows::list::<S>,
        )
        .gives::<api_types::Workflows>(200, "the workflows"),
        Route::new(
            Method::POST,
            path,
            Role::Admin,
            ("applyWorkflow", "Put a workflow to use"),
            workflows::apply::<S>,
        )
        .takes::<api_types::ApplyWorkflow>()
        .gives::<api_types::Workflow>(200, "it is in use"),
        Route::new(
            Method::GET,
            "/workflows/{workflow}",
            Role::Viewer,
            ("showWorkflow", "A workflow in use, with its plan"),
            workflows::show::<S>,
        )
        .gives::<api_types::WorkflowShown>(200, "the workflow"),
        Route::new(
            Method::GET,
            "/workflows/{workflow}/versions",
            Role::Viewer,
            ("listVersions", "Every version of a workflow that was put to use, the newest first"),
            workflows::versions::<S>,
        )
        .gives::<api_types::Versions>(200, "the versions"),
    ]
}

fn policy_routes<S: Store>() -> Vec<Route<S>> {
    let path = "/policy";
    vec![
        Route::new(
            Method::GET,
            path,
            Role::Viewer,
            ("showPolicy", "The policy that counts, with its files"),
            policy::show::<S>,
        )
        .gives::<api_types::Policy>(200, "the policy"),
        Route::new(
            Method::POST,
            path,
            Role::Admin,
            ("applyPolicy", "Settle on a policy, if its tests pass"),
            policy::apply::<S>,
        )
        .takes::<api_types::ApplyPolicy>()
        .gives::<api_types::PolicyApplied>(200, "it counts"),
        Route::new(
            Method::POST,
            "/policy/explain",
            Role::Viewer,
            ("explainPolicy", "What policy would say about each step of a workflow, without running any"),
            policy::explain::<S>,
        )
        .takes::<api_types::ExplainPolicy>()
        .gives::<api_types::Explained>(200, "what would come of each step"),
    ]
}

fn run_routes<S: Store>() -> Vec<Route<S>> {
    let path = "/runs";
    vec![
        Route::new(Method::GET, path, Role::Viewer, ("listRuns", "Runs, newest first"), runs::list::<S>)
            .with(Param::STATUS)
            .with(Param::RECORD)
            .with(Param::SINCE)
            .with(Param::UNTIL)
            .paged()
            .gives::<api_types::Runs>(200, "a page of runs"),
        Route::new(Method::POST, path, Role::Operator, ("startRun", "Start a run"), runs::start::<S>)
            .with(Param::IDEMPOTENCY_KEY)
            .with(Param::TRACEPARENT)
            .takes::<api_types::StartRun>()
            .gives::<api_types::StartedRun>(201, "the run was started")
            .gives::<api_types::StartedRun>(
                200,
                "the same request had started it before, or it joins another about its ticket",
            )
            .gives::<api_types::StartedRun>(202, "it begins when another run about its ticket is over"),
        Route::new(
            Method::GET,
            "/runs/{run}",
            Role::Viewer,
            ("showRun", "Everything about a run"),
            runs::show::<S>,
        )
        .gives::<api_types::Run>(200, "the run"),
    ]
}

fn verb_routes<S: Store>() -> Vec<Route<S>> {
    let verb = |route: Route<S>| {
        route.takes::<api_types::ReasonRequest>().gives::<api_types::RunActionResponse>(200, "it was said")
    };
    vec![
        verb(Route::new(
            Method::POST,
            "/runs/{run}/cancel",
            Role::Operator,
            ("cancelRun", "Stop a run"),
            runs::cancel::<S>,
        )),
        verb(Route::new(
            Method::POST,
            "/runs/{run}/pause",
            Role::Operator,
            ("pauseRun", "Hold a run for an operator"),
            runs::pause::<S>,
        )),
        verb(Route::new(
            Method::POST,
            "/runs/{run}/resume",
            Role::Operator,
            ("resumeRun", "Let a paused run go on"),
            runs::resume::<S>,
        )),
        verb(Route::new(
            Method::POST,
            "/runs/{run}/retry",
            Role::Operator,
            ("retryRun", "Try the step again at which a run paused"),
            runs::resume::<S>,
        )),
        verb(Route::new(
            Method::POST,
            "/runs/{run}/rollback",
            Role::Operator,
            ("rollBackRun", "Take the effects of a run back that is not over"),
            runs::roll_back::<S>,
        )),
        Route::new(
            Method::GET,
            "/runs/{run}/undo",
            Role::Viewer,
            ("planUndo", "What taking back a finished run would do"),
            runs::undo_plan::<S>,
        )
        .gives::<api_types::UndoPlan>(200, "the plan"),
        Route::new(
            Method::POST,
            "/runs/{run}/undo",
            Role::Operator,
            ("undoRun", "Start a run that takes back what a finished run did"),
            runs::undo::<S>,
        )
        .gives::<api_types::StartedRun>(201, "the run that takes it back was started")
        .gives::<api_types::StartedRun>(200, "it had been started before"),
        Route::new(
            Method::POST,
            "/runs/{run}/signals",
            Role::Operator,
            ("signalRun", "Deliver an event to a run"),
            runs::signal::<S>,
        )
        .takes::<api_types::SendSignal>()
        .gives::<api_types::Delivered>(200, "it was delivered"),
    ]
}

fn live_routes<S: Store>() -> Vec<Route<S>> {
    let live = "server-sent events without end, or a WebSocket where one is asked for";
    vec![
        Route::new(
            Method::GET,
            "/runs/{run}/stream",
            Role::Viewer,
            ("streamRun", "What happens to a run, as it happens"),
            stream::of_run::<S>,
        )
        .with(Param::LAST_EVENT_ID)
        .gives_file(stream::KIND, live),
        Route::new(
            Method::GET,
            "/stream",
            Role::Viewer,
            ("streamTenant", "What happens to all runs of the tenant, as it happens"),
            stream::of_tenant::<S>,
        )
        .with(Param::LAST_EVENT_ID)
        .gives_file(stream::KIND, live),
    ]
}

fn story_routes<S: Store>() -> Vec<Route<S>> {
    vec![
        Route::new(
            Method::GET,
            "/runs/{run}/events",
            Role::Viewer,
            ("listEvents", "The chain of a run, as it is stored, with a sentence for each entry"),
            evidence::events::<S>,
        )
        .with(Param::AFTER)
        .with(Param::LIMIT)
        .gives::<api_types::Events>(200, "a part of the chain"),
        Route::new(
            Method::GET,
            "/runs/{run}/receipts",
            Role::Viewer,
            ("listReceipts", "What a run attempted outside, and what happened"),
            evidence::receipts::<S>,
        )
        .gives::<api_types::Receipts>(200, "the receipts"),
        Route::new(
            Method::GET,
            "/runs/{run}/evidence",
            Role::Viewer,
            ("getEvidence", "The evidence of a finished run, to be verified anywhere"),
            evidence::download::<S>,
        )
        .gives_file(evidence::KIND, "the bundle"),
        Route::new(
            Method::GET,
            "/runs/{run}/evidence/verification",
            Role::Viewer,
            ("verifyEvidence", "Whether the evidence of a run is genuine"),
            evidence::verification::<S>,
        )
        .gives::<api_types::Verification>(200, "what the server found"),
    ]
}

fn approval_routes<S: Store>() -> Vec<Route<S>> {
    vec![
        Route::new(
            Method::GET,
            "/approvals",
            Role::Viewer,
            ("listApprovals", "Requests that people can still answer, oldest first"),
            approvals::list::<S>,
        )
        .with(Param::MINE)
        .paged()
        .gives::<api_types::Approvals>(200, "a page of requests"),
        Route::new(
            Method::GET,
            "/approvals/{approval}",
            Role::Viewer,
            ("showApproval", "A request for approval"),
            approvals::show::<S>,
        )
        .gives::<api_types::Approval>(200, "the request"),
        Route::new(
            Method::POST,
            "/approvals/{approval}/approve",
            Role::Approver,
            ("approve", "Say yes"),
            approvals::approve::<S>,
        )
        .takes::<api_types::Answer>()
        .gives::<api_types::Answered>(200, "it was said"),
        Route::new(
            Method::POST,
            "/approvals/{approval}/reject",
            Role::Approver,
            ("reject", "Say no"),
            approvals::reject::<S>,
        )
        .takes::<api_types::Answer>()
        .gives::<api_types::Answered>(200, "it was said"),
    ]
}

fn settled_routes<S: Store>() -> Vec<Route<S>> {
    let settled = "/tenant";
    vec![
        Route::new(
            Method::GET,
            settled,
            Role::Viewer,
            ("showTenant", "What the tenant has settled"),
            tenant::show::<S>,
        )
        .gives::<api_types::Tenant>(200, "what is settled"),
        Route::new(
            Method::PUT,
            settled,
            Role::Admin,
            ("putTenant", "Settle people, groups and caps anew"),
            tenant::put::<S>,
        )
        .takes::<api_types::PutTenant>()
        .gives::<api_types::Tenant>(200, "what is settled now"),
        Route::new(
            Method::GET,
            "/tenant/secrets",
            Role::Admin,
            ("listSecrets", "What other systems prove themselves with, by name"),
            tenant::secrets::<S>,
        )
        .gives::<api_types::SecretNames>(200, "the names; no secret"),
        Route::new(Method::GET, "/keys", Role::Admin, ("listKeys", "The tenant's API keys"), keys::list::<S>)
            .paged()
            .gives::<api_types::Keys>(200, "a page of keys, without their secrets"),
        Route::new(Method::POST, "/keys", Role::Admin, ("makeKey", "Make an API key"), keys::make::<S>)
            .takes::<api_types::MakeKey>()
            .gives::<api_types::MadeKey>(201, "the key, with its text, which is shown this once"),
        Route::new(
            Method::DELETE,
            "/keys/{key}",
            Role::Admin,
            ("revokeKey", "Take an API key back"),
            keys::revoke::<S>,
        )
        .gives::<api_types::Key>(200, "it opens nothing any more"),
    ]
}

fn dispatch_routes<S: Store>() -> Vec<Route<S>> {
    vec![
        Route::new(
            Method::GET,
            "/workers",
            Role::Operator,
            ("listWorkers", "The workers of the fleet, which serve every tenant"),
            workers::list::<S>,
        )
        .gives::<api_types::Workers>(200, "the workers"),
        Route::new(
            Method::GET,
            "/dispatch",
            Role::Viewer,
            ("showDispatch", "Whether steps are begun, and if not, who stopped that and why"),
            dispatch::show::<S>,
        )
        .gives::<api_types::Dispatch>(200, "how the switch stands"),
        Route::new(
            Method::POST,
            "/dispatch/stop",
            Role::Admin,
            ("stopDispatch", "Begin nothing any more; steps under way finish"),
            dispatch::stop::<S>,
        )
        .takes::<api_types::StopDispatch>()
        .gives::<api_types::Stopped>(200, "who stopped it first, and why"),
        Route::new(
            Method::POST,
            "/dispatch/start",
            Role::Admin,
            ("startDispatch", "Begin steps again, after a stop or a backout"),
            dispatch::start::<S>,
        )
        .with(Param::GOING_ON)
        .gives::<api_types::DispatchStarted>(200, "what waits goes on"),
        Route::new(
            Method::POST,
            "/backout",
            Role::Admin,
            ("backOut", "Begin nothing any more and end every run that is under way"),
            dispatch::back_out::<S>,
        )
        .with(Param::GOING_ON)
        .takes::<api_types::BackOut>()
        .gives::<api_types::BackedOut>(200, "what became of the runs"),
    ]
}
