//! Error responses as problem details (RFC 9457): a code, a text and a remedy.
//!
//! The responses for a resource of another tenant, for an unknown resource and for a malformed name are the same bytes:
//! they contain no text of the request. Only an event of the caller's own tenant that started no run gets a more
//! specific response.

use api_types::SourceLocation;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::{Code, InboxStatus, Refusal};
use engine::EngineError;
use serde::Serialize;

/// The delay before a retry, after the store did not respond.
const RETRY_AFTER_SECS: &str = "2";

/// The code for a run that is accepted but not started yet.
pub const PENDING: &str = "RUN_PENDING";

/// Every error code with its meaning. `docs/api.md` has the same table.
pub const CODES: [(&str, &str); 37] = [
    ("BAD_REQUEST", "the request is invalid; `detail` gives the reason"),
    ("WORKFLOW_INVALID", "the workflow file is invalid; `location` gives the line and the column"),
    ("POLICY_INVALID", "the policy is invalid; `location` gives the file, the line and the column"),
    ("POLICY_TESTS_FAILED", "the policy's tests fail, or it has no tests"),
    ("UNAUTHENTICATED", "the credential is missing, wrong, expired or revoked"),
    (
        "FORBIDDEN",
        "the credential does not have the required role, or the tenant's directory does not list its user",
    ),
    (
        "APPROVAL_REFUSED",
        "the caller may not decide this approval: they participated in the run, are not in the required groups, or are not in the tenant's directory",
    ),
    ("NOT_FOUND", "the resource does not exist, or it belongs to another tenant"),
    ("NO_WORKFLOW", "no workflow of that name is applied"),
    ("NO_EVIDENCE", "the evidence of the run is not recorded yet"),
    ("METHOD_NOT_ALLOWED", "the route does not support the method; `Allow` lists those that it supports"),
    ("TOO_LARGE", "the body is larger than 1 MiB, or its content is larger than one record may be"),
    ("UNSUPPORTED_MEDIA_TYPE", "the body is not JSON, or its `Content-Type` is not `application/json`"),
    (
        "NOT_ACCEPTABLE",
        "the route is a stream, and the request accepts neither a WebSocket nor server-sent events",
    ),
    ("ORIGIN_NOT_ALLOWED", "a page of another origin requested a stream"),
    (
        "RUN_INVALID_TRANSITION",
        "the current status of the run, the step or the approval does not allow the request",
    ),
    ("RUN_TERMINAL_STATE", "the run has finished"),
    ("LEASE_LOST", "the lease of the step expired, and another worker claimed it"),
    ("RUN_RESUME_FAILED", "the run is not paused"),
    ("RUN_NOT_FINISHED", "the run has not finished yet"),
    (
        "IDEMPOTENCY_CONFLICT",
        "the key was used with another input, record or workflow, or the `id` of a signal with another event or payload",
    ),
    (
        "CONCURRENCY_CONFLICT",
        "another unfinished run holds the concurrency key, and the workflow rejects conflicts",
    ),
    ("CONCURRENCY_KEY_INVALID", "the concurrency key cannot be computed from the input"),
    ("RUN_NOT_STARTED", "the event was stored but started no run; `detail` gives the reason"),
    (PENDING, "the event was stored and waits for a worker or for its concurrency key"),
    ("WORKFLOW_NOT_NEWER", "this version, or a later one, is applied with other content"),
    ("AUTHOR_UNKNOWN", "the author of the workflow is not in the `people` of the tenant"),
    ("TRIGGER_AMBIGUOUS", "another workflow is triggered by the same events"),
    ("IDEMPOTENCY_EXPIRED", "the external system may no longer remember the idempotency key"),
    ("POLICY_DENIED", "the policy denies the action"),
    ("TENANT_CHANGED", "the settings of the tenant changed since the given `revision`"),
    ("KEY_IN_USE", "an API key cannot revoke itself"),
    ("CONTENDED", "concurrent changes prevented the update; try again"),
    ("CHAIN_BROKEN", "an event of the chain cannot be read, because stored data was altered"),
    ("NO_PUBLIC_KEY", "the server has no public key to verify evidence with"),
    ("TOO_MANY_LISTENERS", "the tenant or the server has reached its maximum of open streams"),
    (
        "UNAVAILABLE",
        "the store or the identity provider does not respond; `Retry-After` gives the delay before a retry",
    ),
];

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApiError {
    pub status: u16,
    /// A stable code for programs.
    pub code: &'static str,
    /// The problem, in a sentence.
    pub detail: String,
    /// The fix; empty if there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub remedy: &'static str,
    /// The location of the problem in the file that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<SourceLocation>,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        debug_assert!(CODES.iter().any(|(known, _)| *known == code), "{code} is missing in CODES");
        Self { status: status.as_u16(), code, detail: detail.into(), remedy: "", location: None }
    }

    #[must_use]
    pub fn with_location(mut self, location: SourceLocation) -> Self {
        self.location = Some(location);
        self
    }

    #[must_use]
    pub fn remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = remedy;
        self
    }

    /// The resource does not exist, or it belongs to another tenant.
    pub fn not_found(what: &'static str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", format!("{what} not found"))
    }

    /// The workflow that the body names does not exist.
    pub(crate) fn no_workflow(detail: String) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NO_WORKFLOW", detail)
            .remedy("list the workflows with GET /api/v1/workflows, or apply one with POST /api/v1/workflows")
    }

    /// The credential is missing or not valid.
    pub fn unauthenticated() -> Self {
        let detail = "the credential is missing or not valid";
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail)
            .remedy("send a valid API key or token: `Authorization: Bearer …`")
    }

    /// The identity provider does not respond, so the credential cannot be verified.
    pub(crate) fn cannot_check() -> Self {
        let detail = "the identity provider does not respond, so the token cannot be verified";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", detail)
            .remedy("try again later, or use an API key, which needs no identity provider")
    }

    /// The caller lacks the required role.
    pub fn forbidden(role: domain::Role) -> Self {
        let detail = format!("the caller lacks the required role {role}");
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail)
            .remedy("ask an admin of the tenant for an API key with this role")
    }

    /// The directory of the tenant does not list the caller.
    pub(crate) fn forbidden_to_unlisted(detail: &'static str, remedy: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail).remedy(remedy)
    }

    /// The request is invalid.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", detail)
    }

    fn unavailable(error: &EngineError) -> Self {
        tracing::error!(event = "request_failed", error = %engine::error_chain(error), "request failed");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", "the store did not respond")
            .remedy("try again with the same Idempotency-Key: the request may have been processed")
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(refusal) => refusal.into(),
            EngineError::NoRun { .. } => Self::not_found("run"),
            EngineError::NotStarted { ref status, .. } => {
                let (code, remedy) = not_started_code(status);
                Self::new(StatusCode::NOT_FOUND, code, error.to_string()).remedy(remedy)
            }
            EngineError::NoWorkflow { .. } => Self::not_found("workflow"),
            EngineError::NoEvidence { .. } => {
                Self::new(StatusCode::NOT_FOUND, "NO_EVIDENCE", "the evidence of the run is not recorded yet")
                    .remedy("a worker records it after the run has finished; try again later")
            }
            EngineError::NotFinished { status, .. } => {
                let detail = format!("the run is {status} and has not finished yet");
                Self::new(StatusCode::CONFLICT, "RUN_NOT_FINISHED", detail)
            }
            EngineError::BadInput { what, source } => Self::bad_request(format!("{what}: {source}")),
            EngineError::BadPlan { why, .. } => Self::bad_request(why),
            EngineError::DispatchStartedDuringBackout => {
                Self::bad_request(error.to_string()).remedy("start another backout without a cursor")
            }
            EngineError::InvalidUserName { .. } => Self::bad_request(error.to_string()),
            EngineError::TenantChanged { .. } => {
                let detail = "the settings of the tenant changed since the given revision";
                Self::new(StatusCode::CONFLICT, "TENANT_CHANGED", detail)
                    .remedy("read GET /api/v1/tenant, and send the change again with the current revision")
            }
            EngineError::BadPolicy(error) => {
                let problem = Self::new(StatusCode::BAD_REQUEST, "POLICY_INVALID", error.to_string());
                let location = error.location.map(|at| source_location(&at.file, at.line, at.column));
                Self { location, ..problem }
                    .remedy("correct the file at this location and send all files again")
            }
            EngineError::PolicyTestsFailed { .. } => {
                Self::new(StatusCode::CONFLICT, "POLICY_TESTS_FAILED", error.to_string())
                    .remedy("correct the rules or the tests and send all files again; nothing was changed")
            }
            EngineError::NoConnection { .. } => Self::not_found("connection"),
            EngineError::BadConnection { .. } => Self::bad_request(error.to_string())
                .remedy("correct the connection and send it again; nothing was changed"),
            EngineError::OtherWorkspace { .. } => {
                Self::bad_request(error.to_string()).remedy("send the request again without `workspace`")
            }
            EngineError::StepConnection { .. } => unusable_connection(&error),
            EngineError::ConnectionChanged { .. } => connection_changed(&error),
            EngineError::BadPeople(_)
            | EngineError::BadRedaction(_)
            | EngineError::DirectoryRemoved { .. } => Self::bad_request(error.to_string())
                .remedy("correct the settings and send all of them again; nothing was changed"),
            EngineError::TenantTooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", error.to_string())
            }
            EngineError::NoApiKey { .. } => Self::not_found("key"),
            EngineError::NoWorker { .. } => Self::not_found("worker"),
            EngineError::Contended { .. }
            | EngineError::KeyChanged { .. }
            | EngineError::WorkerRecordContended { .. } => {
                Self::new(StatusCode::CONFLICT, "CONTENDED", error.to_string()).remedy("try again")
            }
            EngineError::PolicyBusy { .. } | EngineError::UnsupportedRecordFormat { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", error.to_string())
                    .remedy("try again later; nothing was changed")
            }
            EngineError::Store(_)
            | EngineError::NoPlan { .. }
            | EngineError::NoPayload { .. }
            | EngineError::NoSigningKey
            | EngineError::NoSlack
            | EngineError::BadEvidence { .. }
            | EngineError::AlteredRun { .. }
            | EngineError::NotifyFailure(_) => Self::unavailable(&error),
        }
    }
}

fn unusable_connection(error: &EngineError) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "WORKFLOW_INVALID", error.to_string())
        .remedy("list the connections with GET /api/v1/connections, and correct the workflow")
}

fn connection_changed(error: &EngineError) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, "CONNECTION_CHANGED", error.to_string())
        .remedy("read GET /api/v1/connections, and send the change again with the current version")
}

fn source_location(file: &str, line: u32, column: u32) -> SourceLocation {
    let index = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    SourceLocation { file: Some(file.to_owned()), line: index(line), column: index(column) }
}

/// The code and the remedy for an event that has started no run.
fn not_started_code(status: &InboxStatus) -> (&'static str, &'static str) {
    let not_started = Code::RunNotStarted.as_str();
    match status {
        InboxStatus::Pending | InboxStatus::Started => (PENDING, "try again later"),
        InboxStatus::Joined { .. } => (not_started, "get the other run, which `detail` names"),
        InboxStatus::Unmatched { .. } => {
            (not_started, "apply a workflow whose trigger matches the event, and send the event again")
        }
        InboxStatus::Rejected { .. } => {
            (not_started, "correct the event or the workflow, which `detail` names, and send the event again")
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal {
            Refusal::UnknownApproval { .. } => return Self::not_found("approval"),
            Refusal::NotApprover { .. } => StatusCode::FORBIDDEN,
            Refusal::InvalidConcurrencyKey { .. } => StatusCode::BAD_REQUEST,
            _ => StatusCode::CONFLICT,
        };
        let remedy = match (&refusal, refusal.code()) {
            (Refusal::LeaseHeld { .. }, _) => {
                "`pause` the run, wait until its step has finished, then try again"
            }
            (Refusal::NothingToRollBack, _) => "use `cancel` to end the run; its effects stay",
            (Refusal::SignalConflict { .. }, _) => "use another `id` for another event",
            (_, Code::IdempotencyConflict) => "use another Idempotency-Key for another request",
            (_, Code::ConcurrencyConflict) => "send the request again after that run has finished",
            (_, Code::ConcurrencyKeyInvalid) => {
                "send the input fields that the `concurrency` key of the workflow reads"
            }
            (_, Code::RunNotStarted) => {
                "correct the event or the workflow, which `detail` names, and send the event again"
            }
            (_, Code::WorkflowNotNewer) => "increase `version` and apply the workflow again",
            (_, Code::AuthorUnknown) => "correct `author`, or add the user to the `people` of the tenant",
            (_, Code::TriggerAmbiguous) => {
                "add a `when` condition so that each event matches one workflow, or apply a version of the other one without a trigger"
            }
            (_, Code::RunTerminalState) => {
                "a finished run cannot change; use `undo` to roll back its effects"
            }
            (_, Code::RunInvalidTransition) => "read the run again: its status has changed",
            _ => "",
        };
        // Only the code: the text names runs and users.
        tracing::info!(event = "request_refused", code = %refusal.code(), "request refused");
        Self::new(status, refusal.code().as_str(), refusal.to_string()).remedy(remedy)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_string(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECS));
            }
            _ => {}
        }
        response
    }
}

/// The response for an unknown path.
pub(crate) async fn no_route() -> ApiError {
    ApiError::not_found("route")
}

/// The response for an unsupported method.
pub(crate) async fn no_method() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "METHOD_NOT_ALLOWED",
        "the route does not support this method",
    )
    .remedy("use one of the methods in the `Allow` header")
}
