//! Runs.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::command::{Canceling, Delivered as Delivering};
use domain::{Digest, IdempotencyKey, RecordName, RunId, RunStatus, Timestamp, TraceContext, WorkflowName};
use engine::{Place, SignalRun, Started, TenantHandle};
use serde::Deserialize;
use store::{RunQuery, Store, trace};
use views::{Seen, run_document, time};

use crate::at::{Operator, Viewer};
use crate::extract::{Asked, Named, Sent};
use crate::page::{self, List};
use crate::problem::Problem;
use crate::{Shared, chance};
use api_types::PREFIX;
use api_types::{
    Delivered, Delivery, ReasonRequest, Run, RunActionResponse, RunActionResult, RunLine, Runs, SendSignal,
    StartRun, StartedRun, UndoPlan,
};

/// As long as anybody's key is, and short enough for a log line.
const KEY_CHARS_MAX: usize = 255;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Which runs are asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    status: Option<RunStatus>,
    record: Option<RecordName>,
    since: Option<String>,
    until: Option<String>,
    cursor: Option<String>,
    limit: Option<String>,
}

impl Filter {
    /// What a cursor of this list is good for. A filter that is added is added here too.
    fn told(&self) -> String {
        let Self { status, record, since, until, .. } = self;
        let parts = [
            status.map(|status| format!("status={status}")),
            record.as_ref().map(|record| format!("record={record}")),
            since.as_ref().map(|since| format!("since={since}")),
            until.as_ref().map(|until| format!("until={until}")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("&")
    }
}

/// The moment that somebody asked for under `name`.
fn moment(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let read = |text| {
        time::read(text).ok_or_else(|| {
            Problem::bad_request(format!("`{name}` is not a moment"))
                .remedy("write it as RFC 3339 has it: 2026-11-15T08:00:00Z")
        })
    };
    text.map(read).transpose()
}

/// Runs, newest first.
pub(crate) async fn list<S: Store>(
    State(api): State<Shared<S>>,
    Viewer { handle, .. }: Viewer<S>,
    Asked(filter): Asked<Filter>,
) -> Result<Json<Runs>, Problem> {
    let limit = page::limit(filter.limit.as_deref())?;
    let list = List { secret: &api.cursors, tenant: handle.tenant_id(), name: "runs", filter: filter.told() };
    let before = filter.cursor.as_deref().map(|cursor| list.open(cursor)).transpose()?;
    let since = moment("since", filter.since.as_deref())?;
    let until = moment("until", filter.until.as_deref())?;
    let wanted = RunQuery { status: filter.status, record: filter.record, since, until, before, limit };
    let page = handle.runs(wanted).await?;
    Ok(Json(Runs {
        runs: page.runs.iter().map(RunLine::from).collect(),
        next: page.next.as_ref().map(|next| list.seal(next)),
    }))
}

/// Everything about a run.
pub(crate) async fn show<S: Store>(
    Viewer { handle, caller }: Viewer<S>,
    Named(run): Named<RunId>,
) -> Result<Json<Run>, Problem> {
    let seen = Seen::at(&handle, &run, caller.hints()).await?;
    Ok(Json(run_document(&seen)))
}

/// Starts a run, or finds the one that the same request started before.
pub(crate) async fn start<S: Store>(
    Operator { handle, caller }: Operator<S>,
    headers: HeaderMap,
    Sent(StartRun { workflow, input, record }): Sent<StartRun>,
) -> Result<Response, Problem> {
    let key = request_key(&caller.credential, chosen(&headers)?)?;
    let start = handle.start(&workflow, key, "api", record, input);
    let started = trace::within_told(told_trace(&headers), start).await;
    Ok(started_run(started.map_err(|error| no_start(error, &workflow))?))
}

/// A workflow is named in what was sent, not in the address.
fn no_start(error: engine::EngineError, workflow: &WorkflowName) -> Problem {
    match error {
        engine::EngineError::NoWorkflow { .. } => {
            Problem::no_workflow(format!("no workflow {workflow} is in use"))
        }
        error => error.into(),
    }
}

fn started_run(Started { run, new, place }: Started) -> Response {
    let status = match (&place, new) {
        (Place::Behind(_), _) => StatusCode::ACCEPTED,
        (Place::Own, true) => StatusCode::CREATED,
        (Place::Own | Place::Joined, _) => StatusCode::OK,
    };
    let location = format!("{PREFIX}/runs/{}", run.run);
    let joined = place == Place::Joined;
    let behind = match place {
        Place::Behind(by) => Some(by.run),
        Place::Own | Place::Joined => None,
    };
    let told = StartedRun { run: run.run, joined, behind };
    (status, [(header::LOCATION, location)], Json(told)).into_response()
}

/// Names a request for ever: by who asks and the key they chose, or by chance if they chose none. What they chose
/// is hashed, because it may hold anything.
pub fn request_key(credential: &str, chosen: Option<&str>) -> Result<IdempotencyKey, Problem> {
    let request = match chosen {
        Some(chosen) => Digest::of_parts("countersign/api-request/v1", &[chosen]).to_string(),
        None => format!("once-{}", chance::hex::<16>()?),
    };
    let key = IdempotencyKey::new(&format!("api:{credential}:{request}"));
    key.map_err(|error| Problem::bad_request(error.to_string()))
}

fn chosen(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let (first, second) = (values.next(), values.next());
    let Some(first) = first else { return Ok(None) };
    let text = first.to_str().ok().filter(|text| {
        second.is_none()
            && (1..=KEY_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic())
    });
    let unusable = || {
        Problem::bad_request(format!(
            "`Idempotency-Key` is not one text of 1 to {KEY_CHARS_MAX} visible ASCII characters"
        ))
    };
    text.map(Some).ok_or_else(unusable)
}

/// The work outside that leads to a request, if whoever asks tells one that can be read.
fn told_trace(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(TraceContext::HEADER).iter();
    let told = values.next().filter(|_| values.next().is_none())?;
    told.to_str().ok()?.parse().ok()
}

/// Stops a run.
pub(crate) async fn cancel<S: Store>(
    Operator { handle, .. }: Operator<S>,
    Named(run): Named<RunId>,
    Sent(ReasonRequest { reason }): Sent<ReasonRequest>,
) -> Result<Json<RunActionResponse>, Problem> {
    let result = match handle.cancel(&run, &reason).await? {
        Canceling::Now(_) => RunActionResult::Done,
        Canceling::Requested => RunActionResult::Requested,
        Canceling::AlreadyRequested => RunActionResult::AlreadyRequested,
    };
    moved(&handle, run, result).await
}

/// Holds a run.
pub(crate) async fn pause<S: Store>(
    Operator { handle, .. }: Operator<S>,
    Named(run): Named<RunId>,
    Sent(ReasonRequest { reason }): Sent<ReasonRequest>,
) -> Result<Json<RunActionResponse>, Problem> {
    let result = match handle.pause(&run, &reason).await? {
        Some(_) => RunActionResult::Done,
        None => RunActionResult::Requested,
    };
    moved(&handle, run, result).await
}

/// Lets a paused run go on.
pub(crate) async fn resume<S: Store>(
    Operator { handle, .. }: Operator<S>,
    Named(run): Named<RunId>,
    Sent(ReasonRequest { reason }): Sent<ReasonRequest>,
) -> Result<Json<RunActionResponse>, Problem> {
    handle.resume(&run, &reason).await?;
    moved(&handle, run, RunActionResult::Done).await
}

/// Takes a run's effects back.
pub(crate) async fn roll_back<S: Store>(
    Operator { handle, .. }: Operator<S>,
    Named(run): Named<RunId>,
    Sent(ReasonRequest { reason }): Sent<ReasonRequest>,
) -> Result<Json<RunActionResponse>, Problem> {
    handle.roll_back(&run, &reason).await?;
    moved(&handle, run, RunActionResult::Done).await
}

async fn moved<S: Store>(
    handle: &TenantHandle<S>,
    run: RunId,
    result: RunActionResult,
) -> Result<Json<RunActionResponse>, Problem> {
    let status = handle.record(&run).await?.status;
    Ok(Json(RunActionResponse { run, status, result }))
}

/// What taking back a finished run would do.
pub(crate) async fn undo_plan<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    Named(run): Named<RunId>,
) -> Result<Json<UndoPlan>, Problem> {
    Ok(Json(handle.undo_plan(&run).await?.into()))
}

/// Starts a run that takes back what a finished run did.
pub(crate) async fn undo<S: Store>(
    Operator { handle, .. }: Operator<S>,
    Named(run): Named<RunId>,
) -> Result<Response, Problem> {
    Ok(started_run(handle.undo(&run).await?))
}

/// Delivers an event.
pub(crate) async fn signal<S: Store>(
    Operator { handle, .. }: Operator<S>,
    Named(run): Named<RunId>,
    Sent(SendSignal { id, event, payload }): Sent<SendSignal>,
) -> Result<Json<Delivered>, Problem> {
    let delivery = match handle.signal(&run, SignalRun { id, event, payload }).await? {
        Delivering::Woke(_) => Delivery::Woke,
        Delivering::Kept => Delivery::Kept,
        Delivering::Duplicate => Delivery::Duplicate,
    };
    Ok(Json(Delivered { delivery }))
}
