//! The table of routes.
//!
//! The router, the `OpenAPI` document and the tests that try every route with every id are built from the same table.

use api_types::PREFIX;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::handler::Handler;
use axum::http::{HeaderValue, Method, header};
use axum::middleware::{Next, from_fn, map_response};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use domain::Role;
use store::Store;
use tracing::Instrument as _;
use utoipa::ToSchema;

use crate::extract::BODY_BYTES_MAX;
use crate::openapi::{Body, Param};
use crate::{
    Shared, approvals, audit, connections, dispatch, evidence, keys, openapi, policy, problem, runs, status,
    stream, tenant, workflows,
};

/// The description of a route.
#[derive(Debug, Clone)]
pub struct RouteInfo {
    pub method: Method,
    /// The path under `/api/v1`, with path parameters in braces.
    pub path: &'static str,
    /// The required role; none for a public route.
    pub role: Option<Role>,
    /// The operation id.
    pub name: &'static str,
    pub summary: &'static str,
    pub(crate) request: Option<Body>,
    pub(crate) responses: Vec<(u16, &'static str, Body)>,
    pub(crate) params: Vec<Param>,
}

impl RouteInfo {
    /// The names of the path parameters.
    pub fn ids(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    pub fn takes_a_body(&self) -> bool {
        self.request.is_some()
    }
}

/// A route with its handler.
pub(crate) struct Route<S> {
    pub(crate) row: RouteInfo,
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
        let row = RouteInfo {
            method,
            path,
            role: role.into(),
            name,
            summary,
            request: None,
            responses: Vec::new(),
            params: Vec::new(),
        };
        Self { row, handler: on(filter, handler) }
    }

    fn request<T: ToSchema>(mut self) -> Self {
        self.row.request = Some(Body::json::<T>());
        self
    }

    fn response<T: ToSchema>(mut self, status: u16, what: &'static str) -> Self {
        self.row.responses.push((status, what, Body::json::<T>()));
        self
    }

    fn file_response(mut self, kind: &'static str, what: &'static str) -> Self {
        self.row.responses.push((200, what, Body::File(kind)));
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

/// The descriptions of all routes.
pub fn route_table<S: Store>() -> Vec<RouteInfo> {
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
        .layer(from_fn(traced))
        .with_state(api);
    // A nested router does not match the bare prefix.
    Router::new().route("/api/v1/", axum::routing::any(problem::no_route)).nest(PREFIX, served)
}

/// The log lines of a request name the trace of its caller.
async fn traced(request: Request, next: Next) -> Response {
    let context = runs::trace_context(request.headers());
    let response = next.run(request);
    match context.map(|context| (context.trace_id(), context.span_id())) {
        Some((trace_id, parent_id)) => {
            response.instrument(tracing::info_span!("request", trace_id, parent_id)).await
        }
        None => response.await,
    }
}

/// Forbids caching and content sniffing.
async fn private(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn routes<S: Store>() -> Vec<Route<S>> {
    [
        caller_routes(),
        workflow_routes(),
        policy_routes(),
        run_routes(),
        run_action_routes(),
        undo_routes(),
        evidence_routes(),
        stream_routes(),
        approval_routes(),
        tenant_routes(),
        audit_routes(),
        connection_routes(),
        dispatch_routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn caller_routes<S: Store>() -> Vec<Route<S>> {
    vec![
        Route::new(
            Method::GET,
            "/health",
            None,
            ("health", "Check that the server responds"),
            status::health,
        )
        .response::<api_types::Health>(200, "The server responds"),
        Route::new(Method::GET, "/me", Role::Viewer, ("me", "Get the caller"), status::me::<S>)
            .response::<api_types::Me>(200, "The caller"),
    ]
}

fn workflow_routes<S: Store>() -> Vec<Route<S>> {
    let path = "/workflows";
    vec![
        Route::new(
            Method::GET,
            path,
            Role::Viewer,
            ("listWorkflows", "List the applied workflows"),
            workflows::list::<S>,
        )
        .response::<api_types::Workflows>(200, "The workflows"),
        Route::new(
            Method::POST,
            path,
            Role::Admin,
            ("applyWorkflow", "Apply a workflow"),
            workflows::apply::<S>,
        )
        .request::<api_types::ApplyWorkflow>()
        .response::<api_types::Workflow>(200, "The workflow is applied"),
        Route::new(
            Method::GET,
            "/workflows/{workflow}",
            Role::Viewer,
            ("getWorkflow", "Get the current version of a workflow, with its plan"),
            workflows::show::<S>,
        )
        .response::<api_types::WorkflowDetail>(200, "The workflow"),
        Route::new(
            Method::GET,
            "/workflows/{workflow}/versions",
            Role::Viewer,
            ("listVersions", "List all applied versions of a workflow, newest first"),
            workflows::versions::<S>,
        )
        .response::<api_types::Versions>(200, "The versions"),
    ]
}

fn policy_routes<S: Store>() -> Vec<Route<S>> {
    let path = "/policy";
    vec![
        Route::new(
            Method::GET,
            path,
            Role::Viewer,
            ("getPolicy", "Get the current policy, with its files"),
            policy::show::<S>,
        )
        .response::<api_types::Policy>(200, "The policy"),
        Route::new(
            Method::POST,
            path,
            Role::Admin,
            ("applyPolicy", "Apply a policy, if its tests pass"),
            policy::apply::<S>,
        )
        .request::<api_types::ApplyPolicy>()
        .response::<api_types::PolicyApplied>(200, "The policy is applied"),
        Route::new(
            Method::POST,
            "/policy/explain",
            Role::Viewer,
            ("explainPolicy", "Evaluate the policy for each step of a workflow, without running it"),
            policy::explain::<S>,
        )
        .request::<api_types::ExplainPolicy>()
        .response::<api_types::ExplainResult>(200, "The result for each step"),
    ]
}

fn run_routes<S: Store>() -> Vec<Route<S>> {
    let path = "/runs";
    vec![
        Route::new(Method::GET, path, Role::Viewer, ("listRuns", "List runs, newest first"), runs::list::<S>)
            .with(Param::STATUS)
            .with(Param::RECORD)
            .with(Param::WORKSPACE)
        .with(Param::SINCE)
            .with(Param::UNTIL)
            .paged()
            .response::<api_types::Runs>(200, "A page of runs"),
        Route::new(Method::POST, path, Role::Operator, ("startRun", "Start a run"), runs::start::<S>)
            .with(Param::IDEMPOTENCY_KEY)
            .with(Param::TRACEPARENT)
            .request::<api_types::StartRun>()
            .response::<api_types::StartedRun>(201, "The run was started")
            .response::<api_types::StartedRun>(
                200,
                "An earlier request with this key started the run, or the request joined the run that holds its concurrency key",
            )
            .response::<api_types::StartedRun>(202, "The run starts after the run that holds its concurrency key has finished"),
        Route::new(
            Method::GET,
            "/runs/{run}",
            Role::Viewer,
            ("getRun", "Get a run"),
            runs::show::<S>,
        )
        .response::<api_types::Run>(200, "The run"),
    ]
}

fn run_action_routes<S: Store>() -> Vec<Route<S>> {
    let action = |route: Route<S>| {
        route
            .request::<api_types::ReasonRequest>()
            .response::<api_types::RunActionResponse>(200, "The request was recorded")
    };
    vec![
        action(Route::new(
            Method::POST,
            "/runs/{run}/cancel",
            Role::Operator,
            ("cancelRun", "Cancel a run"),
            runs::cancel::<S>,
        )),
        action(Route::new(
            Method::POST,
            "/runs/{run}/pause",
            Role::Operator,
            ("pauseRun", "Pause a run"),
            runs::pause::<S>,
        )),
        action(Route::new(
            Method::POST,
            "/runs/{run}/resume",
            Role::Operator,
            ("resumeRun", "Resume a paused run"),
            runs::resume::<S>,
        )),
        action(Route::new(
            Method::POST,
            "/runs/{run}/retry",
            Role::Operator,
            ("retryRun", "Retry the step at which a run is paused"),
            runs::resume::<S>,
        )),
        Route::new(
            Method::POST,
            "/runs/{run}/rollback",
            Role::Operator,
            ("rollBackRun", "Roll back the effects of an unfinished run"),
            runs::roll_back::<S>,
        )
        .request::<api_types::RollbackRequest>()
        .response::<api_types::RunActionResponse>(200, "The request was recorded"),
        Route::new(
            Method::POST,
            "/runs/{run}/signals",
            Role::Operator,
            ("signalRun", "Send a signal to a run"),
            runs::signal::<S>,
        )
        .request::<api_types::SendSignal>()
        .response::<api_types::SignalResponse>(200, "The signal was delivered, buffered, or received before"),
    ]
}

fn undo_routes<S: Store>() -> Vec<Route<S>> {
    vec![
        Route::new(
            Method::GET,
            "/runs/{run}/undo",
            Role::Viewer,
            ("planUndo", "Get the plan to undo a finished run"),
            runs::undo_plan::<S>,
        )
        .response::<api_types::UndoPlan>(200, "The plan"),
        Route::new(
            Method::POST,
            "/runs/{run}/undo",
            Role::Operator,
            ("undoRun", "Start a run that undoes a finished run"),
            runs::undo::<S>,
        )
        .response::<api_types::StartedRun>(201, "The undo run was started")
        .response::<api_types::StartedRun>(200, "An earlier request started the undo run"),
    ]
}

fn stream_routes<S: Store>() -> Vec<Route<S>> {
    let live = "An endless stream of server-sent events, or a WebSocket on request";
    vec![
        Route::new(
            Method::GET,
            "/runs/{run}/stream",
            Role::Viewer,
            ("streamRun", "Stream the events of a run"),
            stream::run_stream::<S>,
        )
        .with(Param::LAST_EVENT_ID)
        .file_response(stream::KIND, live),
        Route::new(
            Method::GET,
            "/stream",
            Role::Viewer,
            ("streamTenant", "Stream the events of all runs of the tenant"),
            stream::tenant_stream::<S>,
        )
        .with(Param::LAST_EVENT_ID)
        .file_response(stream::KIND, live),
    ]
}

fn evidence_routes<S: Store>() -> Vec<Route<S>> {
    vec![
        Route::new(
            Method::GET,
            "/runs/{run}/events",
            Role::Viewer,
            ("listEvents", "List the events of a run, each with a description"),
            evidence::events::<S>,
        )
        .with(Param::AFTER)
        .with(Param::LIMIT)
        .response::<api_types::Events>(200, "A part of the chain"),
        Route::new(
            Method::GET,
            "/runs/{run}/receipts",
            Role::Viewer,
            ("listReceipts", "List the attempted effects of a run, with their outcome"),
            evidence::receipts::<S>,
        )
        .response::<api_types::Receipts>(200, "The receipts"),
        Route::new(
            Method::GET,
            "/runs/{run}/evidence",
            Role::Viewer,
            ("getEvidence", "Download the evidence of a finished run"),
            evidence::download::<S>,
        )
        .file_response(evidence::KIND, "The evidence bundle"),
        Route::new(
            Method::GET,
            "/runs/{run}/evidence/verification",
            Role::Viewer,
            ("verifyEvidence", "Verify the evidence of a run"),
            evidence::verification::<S>,
        )
        .response::<api_types::Verification>(200, "The result of the verification"),
    ]
}

fn approval_routes<S: Store>() -> Vec<Route<S>> {
    vec![
        Route::new(
            Method::GET,
            "/approvals",
            Role::Viewer,
            ("listApprovals", "List pending approvals, oldest first"),
            approvals::list::<S>,
        )
        .with(Param::MINE)
        .paged()
        .response::<api_types::Approvals>(200, "A page of approvals"),
        Route::new(
            Method::GET,
            "/approvals/{approval}",
            Role::Viewer,
            ("getApproval", "Get an approval"),
            approvals::show::<S>,
        )
        .response::<api_types::Approval>(200, "The approval"),
        Route::new(
            Method::POST,
            "/approvals/{approval}/approve",
            Role::Approver,
            ("approve", "Approve a pending approval"),
            approvals::approve::<S>,
        )
        .request::<api_types::DecisionRequest>()
        .response::<api_types::DecisionResponse>(200, "The decision was recorded"),
        Route::new(
            Method::POST,
            "/approvals/{approval}/reject",
            Role::Approver,
            ("reject", "Reject a pending approval"),
            approvals::reject::<S>,
        )
        .request::<api_types::DecisionRequest>()
        .response::<api_types::DecisionResponse>(200, "The decision was recorded"),
    ]
}

fn tenant_routes<S: Store>() -> Vec<Route<S>> {
    let path = "/tenant";
    vec![
        Route::new(
            Method::GET,
            path,
            Role::Viewer,
            ("getTenant", "Get the tenant settings"),
            tenant::show::<S>,
        )
        .response::<api_types::Tenant>(200, "The tenant settings"),
        Route::new(
            Method::PUT,
            path,
            Role::Admin,
            ("putTenant", "Replace users, groups and limits"),
            tenant::put::<S>,
        )
        .request::<api_types::PutTenant>()
        .response::<api_types::Tenant>(200, "The new tenant settings"),
        Route::new(
            Method::GET,
            "/tenant/secrets",
            Role::Admin,
            ("listSecrets", "List the names of the secrets of external systems"),
            tenant::secrets::<S>,
        )
        .response::<api_types::SecretNames>(200, "The names, without the secrets"),
        Route::new(Method::GET, "/keys", Role::Admin, ("listKeys", "List API keys"), keys::list::<S>)
            .paged()
            .response::<api_types::Keys>(200, "A page of API keys, without their secrets"),
        Route::new(Method::POST, "/keys", Role::Admin, ("createKey", "Create an API key"), keys::create::<S>)
            .request::<api_types::CreateKey>()
            .response::<api_types::CreatedKey>(
                201,
                "The API key with its secret, which is returned only once",
            ),
        Route::new(
            Method::DELETE,
            "/keys/{key}",
            Role::Admin,
            ("revokeKey", "Revoke an API key"),
            keys::revoke::<S>,
        )
        .response::<api_types::Key>(200, "The API key is revoked"),
    ]
}

fn audit_routes<S: Store>() -> Vec<Route<S>> {
    vec![
        Route::new(
            Method::GET,
            "/audit",
            Role::Admin,
            ("listAudit", "List administrative changes, newest first"),
            audit::list::<S>,
        )
        .with(Param::KIND)
        .paged()
        .response::<api_types::AuditedChanges>(200, "A page of the audit log"),
        Route::new(
            Method::GET,
            "/audit/head",
            Role::Admin,
            ("getAuditHead", "Get the number and the hash of the newest audit entry"),
            audit::head::<S>,
        )
        .response::<api_types::AuditLogHead>(200, "The head of the audit log"),
        Route::new(
            Method::GET,
            "/audit/{sequence}",
            Role::Admin,
            ("getAuditEntry", "Get an audit entry"),
            audit::show::<S>,
        )
        .response::<api_types::AuditedChange>(200, "The audit entry"),
    ]
}

fn connection_routes<S: Store>() -> Vec<Route<S>> {
    let path = "/connections";
    let one = "/connections/{connection}";
    vec![
        Route::new(
            Method::GET,
            path,
            Role::Viewer,
            ("listConnections", "List the connections to external systems"),
            connections::list::<S>,
        )
        .response::<api_types::Connections>(200, "The connections"),
        Route::new(
            Method::POST,
            path,
            Role::Admin,
            ("setConnection", "Add or replace a connection"),
            connections::set::<S>,
        )
        .request::<api_types::SetConnection>()
        .response::<api_types::Connection>(200, "The connection is set"),
        Route::new(
            Method::GET,
            one,
            Role::Viewer,
            ("getConnection", "Get a connection"),
            connections::show::<S>,
        )
        .response::<api_types::Connection>(200, "The connection"),
        Route::new(
            Method::DELETE,
            one,
            Role::Admin,
            ("removeConnection", "Remove a connection that an admin has set"),
            connections::remove::<S>,
        )
        .response::<api_types::Connection>(200, "The connection is removed"),
        Route::new(
            Method::POST,
            "/connections/{connection}/test",
            Role::Operator,
            ("testConnection", "Start a run that tests a connection and changes nothing"),
            connections::test::<S>,
        )
        .with(Param::IDEMPOTENCY_KEY)
        .response::<api_types::StartedRun>(201, "The run was started")
        .response::<api_types::StartedRun>(200, "An earlier request with this key started the run"),
    ]
}

fn dispatch_routes<S: Store>() -> Vec<Route<S>> {
    vec![
        Route::new(
            Method::GET,
            "/workers",
            Role::Operator,
            ("listWorkers", "List the workers, which serve all tenants"),
            status::workers::<S>,
        )
        .response::<api_types::Workers>(200, "The workers"),
        Route::new(
            Method::GET,
            "/dispatch",
            Role::Viewer,
            ("getDispatch", "Get the dispatch switch: whether dispatch is stopped, by whom and why"),
            dispatch::show::<S>,
        )
        .response::<api_types::Dispatch>(200, "The dispatch switch"),
        Route::new(
            Method::POST,
            "/dispatch/stop",
            Role::Admin,
            ("stopDispatch", "Stop dispatch; steps in progress finish"),
            dispatch::stop::<S>,
        )
        .request::<api_types::StopDispatch>()
        .response::<api_types::Stopped>(
            200,
            "Dispatch is stopped. If it was stopped before, the response describes that stop",
        ),
        Route::new(
            Method::POST,
            "/dispatch/start",
            Role::Admin,
            ("startDispatch", "Start dispatch after a stop or a backout"),
            dispatch::start::<S>,
        )
        .with(Param::CONTINUE)
        .response::<api_types::DispatchStarted>(200, "Waiting runs continue"),
        Route::new(
            Method::POST,
            "/backout",
            Role::Admin,
            ("backOut", "Stop dispatch and cancel every unfinished run"),
            dispatch::back_out::<S>,
        )
        .with(Param::CONTINUE)
        .request::<api_types::BackOutRequest>()
        .response::<api_types::BackedOut>(200, "The progress of the backout"),
    ]
}

#[cfg(test)]
mod tests {
    use axum::body::Body as HttpBody;
    use axum::routing::get;
    use testkit::CapturedLog;
    use tower::ServiceExt as _;
    use tracing::Level;

    use super::*;

    #[tokio::test]
    async fn log_lines_of_a_request_name_its_trace() {
        let (log, _guard) = CapturedLog::capture(Level::INFO);
        let logs = || async { tracing::info!(event = "handled", "handled") };
        let router = Router::new().route("/", get(logs)).layer(from_fn(traced));
        let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        for header in [Some(context), None] {
            let request = header
                .into_iter()
                .fold(axum::http::Request::builder(), |request, value| request.header("traceparent", value));
            router.clone().oneshot(request.uri("/").body(HttpBody::empty()).unwrap()).await.unwrap();
        }
        let lines = log.lines();
        assert_eq!(lines[0]["span"]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(lines[0]["span"]["parent_id"], "00f067aa0ba902b7");
        assert!(lines[1]["span"].is_null(), "{}", lines[1]);
    }
}
