//! Runs.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::command::{CancelResult, SignalResult as Delivering};
use domain::{
    Digest, IdempotencyKey, RecordName, RunId, RunStatus, Timestamp, TraceContext, WorkflowName, WorkspaceId,
};
use engine::{SignalRun, StartApplied, StartOutcome, StartResult, TenantHandle};
use serde::Deserialize;
use store::{RunQuery, Store, trace};
use views::{RunSnapshot, run_document, time};

use crate::extract::{JsonBody, PathParam, QueryParams};
use crate::page::{self, List};
use crate::problem::ApiError;
use crate::role_guard::{Operator, Viewer};
use crate::{Shared, random};
use api_types::PREFIX;
use api_types::{
    ReasonRequest, RollbackRequest, Run, RunActionResponse, RunActionResult, RunSummary, Runs, SendSignal,
    SignalDelivery, SignalResponse, StartRun, StartedRun, UndoPlan,
};

/// Longer than common idempotency keys, and short enough for a log line.
const KEY_CHARS_MAX: usize = 255;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    status: Option<RunStatus>,
    record: Option<RecordName>,
    workspace: Option<WorkspaceId>,
    since: Option<String>,
    until: Option<String>,
    cursor: Option<String>,
    limit: Option<String>,
}

impl Filter {
    /// The filters that a cursor is bound to. A new filter must be added here.
    fn cursor_scope(&self) -> String {
        let Self { status, record, workspace, since, until, .. } = self;
        let parts = [
            status.map(|status| format!("status={status}")),
            record.as_ref().map(|record| format!("record={record}")),
            workspace.as_ref().map(|workspace| format!("workspace={workspace}")),
            since.as_ref().map(|since| format!("since={since}")),
            until.as_ref().map(|until| format!("until={until}")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("&")
    }
}

/// The timestamp of the query parameter `name`.
fn timestamp(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, ApiError> {
    let read = |text| {
        time::parse(text).ok_or_else(|| {
            ApiError::bad_request(format!("`{name}` is not a timestamp"))
                .remedy("write it in RFC 3339: 2026-11-15T08:00:00Z")
        })
    };
    text.map(read).transpose()
}

/// Runs, newest first.
pub(crate) async fn list<S: Store>(
    State(api): State<Shared<S>>,
    Viewer { handle, .. }: Viewer<S>,
    QueryParams(filter): QueryParams<Filter>,
) -> Result<Json<Runs>, ApiError> {
    let limit = page::limit(filter.limit.as_deref())?;
    let list = List {
        secret: &api.cursors,
        tenant: handle.tenant_id(),
        name: "runs",
        filter: filter.cursor_scope(),
    };
    let before = filter.cursor.as_deref().map(|cursor| list.open(cursor)).transpose()?;
    let since = timestamp("since", filter.since.as_deref())?;
    let until = timestamp("until", filter.until.as_deref())?;
    let Filter { status, record, workspace, .. } = filter;
    let query = RunQuery { status, record, workspace, since, until, before, limit };
    let page = handle.runs(query).await?;
    Ok(Json(Runs {
        runs: page.runs.iter().map(RunSummary::from).collect(),
        next: page.next.as_ref().map(|next| list.encode_cursor(next)),
    }))
}

pub(crate) async fn show<S: Store>(
    State(api): State<Shared<S>>,
    Viewer { handle, caller }: Viewer<S>,
    PathParam(run): PathParam<RunId>,
) -> Result<Json<Run>, ApiError> {
    let snapshot =
        RunSnapshot::load_compared(&handle, &run, caller.hints(), api.trusted_keys.as_ref()).await?;
    Ok(Json(run_document(&snapshot)))
}

/// Starts a run. A repeated request returns the same run.
pub(crate) async fn start<S: Store>(
    Operator { handle, caller }: Operator<S>,
    headers: HeaderMap,
    JsonBody(StartRun { workflow, workspace, input, record }): JsonBody<StartRun>,
) -> Result<Response, ApiError> {
    let key = request_key(&caller.credential, idempotency_key(&headers)?)?;
    let request = StartApplied { key, trigger_kind: "api", workspace, record, input };
    let start = handle.start(&workflow, request);
    let started = trace::with_parent(trace_context(&headers), start).await;
    Ok(started_run(started.map_err(|error| start_error(error, &workflow))?))
}

/// The body names the workflow, so the response differs from an unknown path.
fn start_error(error: engine::EngineError, workflow: &WorkflowName) -> ApiError {
    match error {
        engine::EngineError::NoWorkflow { .. } => {
            ApiError::no_workflow(format!("no workflow {workflow} is applied"))
        }
        error => error.into(),
    }
}

pub(crate) fn started_run(StartResult { run, new, outcome }: StartResult) -> Response {
    let status = match (&outcome, new) {
        (StartOutcome::WaitsFor(_), _) => StatusCode::ACCEPTED,
        (StartOutcome::OwnRun, true) => StatusCode::CREATED,
        (StartOutcome::OwnRun | StartOutcome::Joined, _) => StatusCode::OK,
    };
    let location = format!("{PREFIX}/runs/{}", run.run);
    let joined = outcome == StartOutcome::Joined;
    let blocked_by = match outcome {
        StartOutcome::WaitsFor(by) => Some(by.run),
        StartOutcome::OwnRun | StartOutcome::Joined => None,
    };
    let started = StartedRun { run: run.run, joined, blocked_by };
    (status, [(header::LOCATION, location)], Json(started)).into_response()
}

/// Identifies a request permanently: by the credential and the given key, or by random bytes. The given key is hashed,
/// because it can contain any characters.
pub fn request_key(credential: &str, given: Option<&str>) -> Result<IdempotencyKey, ApiError> {
    let request = match given {
        Some(given) => Digest::of_parts("countersign/api-request/v1", &[given]).to_string(),
        None => format!("once-{}", random::hex::<16>()?),
    };
    let key = IdempotencyKey::new(&format!("api:{credential}:{request}"));
    key.map_err(|error| ApiError::bad_request(error.to_string()))
}

pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let (first, second) = (values.next(), values.next());
    let Some(first) = first else { return Ok(None) };
    let text = first.to_str().ok().filter(|text| {
        second.is_none()
            && (1..=KEY_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic())
    });
    let unusable = || {
        ApiError::bad_request(format!(
            "`Idempotency-Key` must be one value of 1 to {KEY_CHARS_MAX} visible ASCII characters"
        ))
    };
    text.map(Some).ok_or_else(unusable)
}

/// The trace context of the caller, if the request has exactly one valid header.
pub(crate) fn trace_context(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(TraceContext::HEADER).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok()?.parse().ok()
}

pub(crate) async fn cancel<S: Store>(
    Operator { handle, .. }: Operator<S>,
    PathParam(run): PathParam<RunId>,
    JsonBody(ReasonRequest { reason }): JsonBody<ReasonRequest>,
) -> Result<Json<RunActionResponse>, ApiError> {
    let result = match handle.cancel(&run, &reason).await? {
        CancelResult::Stopped(_) => RunActionResult::Done,
        CancelResult::Requested => RunActionResult::Requested,
        CancelResult::AlreadyRequested => RunActionResult::AlreadyRequested,
        CancelResult::RollingBack => RunActionResult::RollingBack,
    };
    action_response(&handle, run, result).await
}

pub(crate) async fn pause<S: Store>(
    Operator { handle, .. }: Operator<S>,
    PathParam(run): PathParam<RunId>,
    JsonBody(ReasonRequest { reason }): JsonBody<ReasonRequest>,
) -> Result<Json<RunActionResponse>, ApiError> {
    let result = match handle.pause(&run, &reason).await? {
        Some(_) => RunActionResult::Done,
        None => RunActionResult::Requested,
    };
    action_response(&handle, run, result).await
}

pub(crate) async fn resume<S: Store>(
    Operator { handle, .. }: Operator<S>,
    PathParam(run): PathParam<RunId>,
    JsonBody(ReasonRequest { reason }): JsonBody<ReasonRequest>,
) -> Result<Json<RunActionResponse>, ApiError> {
    handle.resume(&run, &reason).await?;
    action_response(&handle, run, RunActionResult::Done).await
}

pub(crate) async fn roll_back<S: Store>(
    Operator { handle, .. }: Operator<S>,
    PathParam(run): PathParam<RunId>,
    JsonBody(RollbackRequest { reason, step }): JsonBody<RollbackRequest>,
) -> Result<Json<RunActionResponse>, ApiError> {
    handle.roll_back(&run, &reason, step).await?;
    action_response(&handle, run, RunActionResult::Done).await
}

async fn action_response<S: Store>(
    handle: &TenantHandle<S>,
    run: RunId,
    result: RunActionResult,
) -> Result<Json<RunActionResponse>, ApiError> {
    let status = handle.record(&run).await?.status;
    Ok(Json(RunActionResponse { run, status, result }))
}

/// The plan to undo a finished run.
pub(crate) async fn undo_plan<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    PathParam(run): PathParam<RunId>,
) -> Result<Json<UndoPlan>, ApiError> {
    Ok(Json(handle.undo_plan(&run).await?.into()))
}

/// Starts a run that undoes a finished run.
pub(crate) async fn undo<S: Store>(
    Operator { handle, .. }: Operator<S>,
    PathParam(run): PathParam<RunId>,
) -> Result<Response, ApiError> {
    Ok(started_run(handle.undo(&run).await?))
}

pub(crate) async fn signal<S: Store>(
    Operator { handle, .. }: Operator<S>,
    PathParam(run): PathParam<RunId>,
    JsonBody(SendSignal { id, event, payload }): JsonBody<SendSignal>,
) -> Result<Json<SignalResponse>, ApiError> {
    let delivery = match handle.signal(&run, SignalRun { id, event, payload }).await? {
        Delivering::Woke(_) => SignalDelivery::Delivered,
        Delivering::Buffered => SignalDelivery::Buffered,
        Delivering::Duplicate => SignalDelivery::Duplicate,
    };
    Ok(Json(SignalResponse { delivery }))
}
