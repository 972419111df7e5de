//! A no, as problem details (RFC 9457): which code, in words, and what to do about it.
//!
//! What belongs to another tenant, what there is not and what cannot be a name at all are told in the same bytes:
//! no text of the request stands in them. Only of what came in for the tenant of whoever asks, and started no run, more
//! is told.

use api_types::Place;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::{Code, InboxStatus, Refusal};
use engine::EngineError;
use serde::Serialize;

/// When somebody may ask again after the store did not answer.
const RETRY_AFTER_SECS: &str = "2";

/// The code of a run that is to come.
pub const TO_COME: &str = "RUN_TO_COME";

/// Every code that a problem can have, and what it means. `docs/api.md` has the same table.
pub const CODES: [(&str, &str); 35] = [
    ("BAD_REQUEST", "what was sent cannot be used, and why"),
    ("WORKFLOW_INVALID", "the file is no workflow; `place` says where it is wrong"),
    ("POLICY_INVALID", "the files are no policy; `place` says where they are wrong"),
    ("POLICY_NOT_GREEN", "the policy's own tests do not pass, or it has none"),
    ("UNAUTHENTICATED", "the credential is missing, wrong, over or taken back"),
    ("FORBIDDEN", "whoever asks has not the role that it takes"),
    (
        "APPROVAL_REFUSED",
        "whoever answers may not: it is their own run or workflow, others are asked, or the tenant's directory does not know them",
    ),
    ("NOT_FOUND", "there is no such thing, or it is another tenant's"),
    ("NO_WORKFLOW", "no workflow of that name is in use"),
    ("NO_EVIDENCE", "the evidence is not there yet"),
    ("METHOD_NOT_ALLOWED", "nothing answers to that method; `Allow` says what does"),
    ("TOO_LARGE", "the body has more than 1 MiB, or holds more than is kept in one record"),
    ("UNSUPPORTED_MEDIA_TYPE", "the body is not JSON, or does not say so"),
    ("NOT_ACCEPTABLE", "a stream is a WebSocket or server-sent events, and the request takes neither"),
    ("FOREIGN_ORIGIN", "a page of another host asks for a stream"),
    ("RUN_INVALID_TRANSITION", "the run, the step or the request cannot do that where it stands"),
    ("RUN_TERMINAL_STATE", "the run is over"),
    ("RUN_ORPHANED", "somebody else holds the step now"),
    ("RUN_RESUME_FAILED", "the run is not paused"),
    ("RUN_NOT_OVER", "the run is not over yet"),
    (
        "IDEMPOTENCY_CONFLICT",
        "the key was used before, with another input, record or workflow; or a signal's `id`, with another event or payload",
    ),
    ("TICKET_TAKEN", "a run about the same ticket is not over, and the workflow has one at a time"),
    ("TICKET_UNKNOWN", "the input does not say which ticket the run would be about"),
    ("RUN_NOT_STARTED", "what came in was kept, and has not started its run: `detail` says why"),
    (TO_COME, "what starts the run came in, and waits for a worker or its ticket"),
    ("WORKFLOW_NOT_NEWER", "that version, or a later one, is in use with other content"),
    ("IDEMPOTENCY_EXPIRED", "the other side no longer remembers the key"),
    ("POLICY_DENIED", "policy says no"),
    ("TENANT_CHANGED", "somebody has settled something since it was looked at"),
    ("KEY_IN_USE", "a key does not take itself back"),
    ("CONTENDED", "others kept changing it; try again"),
    ("CHAIN_BROKEN", "an entry of the chain cannot be read: somebody changed what was stored"),
    ("NO_PUBLIC_KEY", "the server was given no key to verify evidence with"),
    ("TOO_MANY_LISTENERS", "the tenant has as many streams open as it may have"),
    (
        "UNAVAILABLE",
        "the store or the identity provider does not answer; `Retry-After` says when to try again",
    ),
];

/// A no.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// Names the kind of problem for programs; it never changes its meaning.
    pub code: &'static str,
    /// What is wrong, in a sentence.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub remedy: &'static str,
    /// Where in a file it is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        debug_assert!(CODES.iter().any(|(known, _)| *known == code), "{code} stands in the table of codes");
        Self { status: status.as_u16(), code, detail: detail.into(), remedy: "", place: None }
    }

    /// The same, with where in a file it is wrong.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// The same, with what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = remedy;
        self
    }

    /// There is no such thing, or it is somebody else's.
    pub fn not_found(what: &'static str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", format!("there is no such {what}"))
    }

    /// A workflow that is named in what was sent is not there.
    pub(crate) fn no_workflow(detail: String) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NO_WORKFLOW", detail)
            .remedy("GET /api/v1/workflows lists those in use; POST there puts one to use")
    }

    /// Nobody knows who asks.
    pub fn unauthenticated() -> Self {
        let detail = "the request does not prove who sends it";
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail)
            .remedy("send an API key or a token that is still good: `Authorization: Bearer …`")
    }

    /// Nobody can say now who asks.
    pub(crate) fn cannot_check() -> Self {
        let detail = "who sends the request cannot be checked now";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", detail)
            .remedy("try again in a moment; API keys are checked without the identity provider")
    }

    /// Whoever asks may not.
    pub fn forbidden(role: domain::Role) -> Self {
        let detail = format!("this takes the role {role}");
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail)
            .remedy("ask an admin of the tenant for a key with that role")
    }

    /// What was sent cannot be used.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", detail)
    }

    fn unavailable(error: &EngineError) -> Self {
        tracing::error!(error = %engine::told(error), "a request could not be answered");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", "the store did not answer")
            .remedy("try again; nothing says that it was not done, so use the same Idempotency-Key")
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(refusal) => refusal.into(),
            EngineError::NoRun { .. } => Self::not_found("run"),
            EngineError::NotBegun { ref status, .. } => {
                let (code, remedy) = not_begun(status);
                Self::new(StatusCode::NOT_FOUND, code, error.to_string()).remedy(remedy)
            }
            EngineError::NoWorkflow { .. } => Self::not_found("workflow"),
            EngineError::NoEvidence { .. } => {
                Self::new(StatusCode::NOT_FOUND, "NO_EVIDENCE", "the evidence is not there yet")
                    .remedy("a worker puts it together when the run is over; ask again in a moment")
            }
            EngineError::NotOver { status, .. } => {
                let detail = format!("the run is {status}, and not over yet");
                Self::new(StatusCode::CONFLICT, "RUN_NOT_OVER", detail)
            }
            EngineError::BadInput { what, source } => Self::bad_request(format!("{what}: {source}")),
            EngineError::BadPlan { why, .. } => Self::bad_request(why),
            EngineError::BackoutOver => Self::bad_request(error.to_string())
                .remedy("begin another one without a cursor, if it is still meant"),
            EngineError::NotAPerson { .. } => Self::bad_request(error.to_string()),
            EngineError::TenantChanged { .. } => {
                let detail = "somebody has settled something since this was looked at";
                Self::new(StatusCode::CONFLICT, "TENANT_CHANGED", detail)
                    .remedy("GET /api/v1/tenant, and send the change again with the revision there")
            }
            EngineError::BadPolicy(error) => {
                let index = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
                let place = error.place.as_ref().map(|place| Place {
                    file: Some(place.file.clone()),
                    line: index(place.line),
                    column: index(place.column),
                });
                let problem = Self::new(StatusCode::BAD_REQUEST, "POLICY_INVALID", error.to_string());
                Self { place, ..problem }.remedy("mend the file there and send all of them again")
            }
            EngineError::NotGreen { .. } => {
                Self::new(StatusCode::CONFLICT, "POLICY_NOT_GREEN", error.to_string())
                    .remedy("mend the rules or the tests and send all of it again; nothing was changed")
            }
            EngineError::BadPeople(_) => Self::bad_request(error.to_string())
                .remedy("mend that and send all of it again; nothing was changed"),
            EngineError::TenantTooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", error.to_string())
            }
            EngineError::NoApiKey { .. } => Self::not_found("key"),
            EngineError::NoWorker { .. } => Self::not_found("worker"),
            EngineError::Contended { .. } | EngineError::KeyTaken { .. } | EngineError::WorkerBusy { .. } => {
                Self::new(StatusCode::CONFLICT, "CONTENDED", error.to_string()).remedy("try again")
            }
            EngineError::PolicyBusy { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", error.to_string())
                    .remedy("try again in a moment; nothing was changed")
            }
            EngineError::Store(_)
            | EngineError::NoPlan { .. }
            | EngineError::NoPayload { .. }
            | EngineError::NoKey
            | EngineError::NoSlack
            | EngineError::BadEvidence { .. }
            | EngineError::NotShown(_) => Self::unavailable(&error),
        }
    }
}

/// How it is called that what came in has started no run, and what can be done about it.
fn not_begun(status: &InboxStatus) -> (&'static str, &'static str) {
    let not_started = Code::RunNotStarted.as_str();
    match status {
        InboxStatus::Pending | InboxStatus::Started => (TO_COME, "ask again in a moment"),
        InboxStatus::Joined { .. } => (not_started, "look at that run"),
        InboxStatus::Unmatched { .. } => {
            (not_started, "put a workflow to use that wants it, and have it sent again")
        }
        InboxStatus::Rejected { .. } => (not_started, "mend what it says, and have it sent again"),
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal {
            Refusal::UnknownApproval { .. } => return Self::not_found("request for approval"),
            Refusal::NotApprover { .. } => StatusCode::FORBIDDEN,
            Refusal::NoTicket { .. } => StatusCode::BAD_REQUEST,
            _ => StatusCode::CONFLICT,
        };
        let remedy = match (&refusal, refusal.code()) {
            (Refusal::Held { .. }, _) => "`pause` holds the run once its step has finished; then try again",
            (Refusal::NothingToRollBack, _) => "`cancel` stops the run; its effects stand",
            (Refusal::SignalConflict { .. }, _) => "use another `id` for another event",
            (_, Code::IdempotencyConflict) => "use another Idempotency-Key for another request",
            (_, Code::TicketTaken) => "send it again when that run is over",
            (_, Code::TicketUnknown) => "give the input what the workflow's `ticket` reads",
            (_, Code::RunNotStarted) => "mend what it says, and send it again",
            (_, Code::WorkflowNotNewer) => "raise `version`, and apply it again",
            (_, Code::RunTerminalState) => "a run that is over is not changed; `undo` takes back what it did",
            (_, Code::RunInvalidTransition) => "look at the run again: it has moved since",
            _ => "",
        };
        // The code alone: the words name runs and people.
        tracing::info!(code = %refusal.code(), "refused");
        Self::new(status, refusal.code().as_str(), views::refusal_in_words(&refusal)).remedy(remedy)
    }
}

impl IntoResponse for Problem {
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

/// The answer where there is no route.
pub(crate) async fn no_route() -> Problem {
    Problem::not_found("address")
}

/// The answer where a route has no such method.
pub(crate) async fn no_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "nothing here answers to that method")
        .remedy("the header `Allow` says what does")
}
