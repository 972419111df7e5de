//! The form that starts a run of the current version.

use api::{ApiError, request_key};
use axum::http::StatusCode;
use domain::{RecordName, Role, RunId};
use engine::{EngineError, StartApplied, StartOutcome, StartResult};
use maud::{Markup, html};
use serde::Deserialize;
use store::Store;

use super::json;
use super::show::WorkflowVersion;
use crate::extract::SessionUser;
use crate::layout::token;
use crate::page_error::notice;

/// The trigger kind of runs that are started here.
const TRIGGER: &str = "console";

/// The remedy if the outcome of a start is unknown.
pub(super) const RETRY: &str = "send the form again without changes; it starts one run";

/// Whether the run may have been started despite the error.
pub(super) fn is_outcome_unknown(problem: &ApiError) -> bool {
    problem.status >= StatusCode::INTERNAL_SERVER_ERROR.as_u16()
}

#[derive(Debug, Deserialize)]
pub(crate) struct StartForm {
    #[serde(default)]
    input: String,
    #[serde(default)]
    record: String,
    /// The idempotency key of the form: sent twice, it starts one run.
    #[serde(default)]
    once: String,
}

impl StartForm {
    pub(super) fn initial(workflow: &WorkflowVersion) -> Self {
        Self { input: workflow.sample(), record: String::new(), once: String::new() }
    }
}

pub(super) enum StartReply {
    /// The run of this request, or the run that it joined.
    Run(RunId),
    /// The run has not started yet.
    Queued(QueuedRun),
}

/// A run that starts when another run with the same concurrency key ends.
pub(super) struct QueuedRun {
    run: RunId,
    /// The run before it.
    blocker: RunId,
    /// Whether that run has started; otherwise it is queued, too.
    blocker_started: bool,
}

impl QueuedRun {
    async fn load<S: Store>(user: &SessionUser<S>, run: RunId, blocker: RunId) -> Result<Self, ApiError> {
        let blocker_started = match user.handle.record(&blocker).await {
            Ok(_) => true,
            Err(EngineError::NoRun { .. } | EngineError::NotStarted { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { run, blocker, blocker_started })
    }

    fn notice(&self) -> Markup {
        html! {
            div.why role="status" {
                p { strong { "Run " code { (self.run) } " is queued." } }
                p {
                    "It starts when "
                    @if self.blocker_started { a href={ "/runs/" (self.blocker) } { "run " code { (self.blocker) } } }
                    @else { "run " code { (self.blocker) } ", which is queued, too," }
                    " ends: both have the same concurrency key. Until then the run has no page."
                }
            }
        }
    }
}

/// Starts the run, or returns the run that the same form started before.
pub(super) async fn start<S: Store>(
    user: &SessionUser<S>,
    workflow: &WorkflowVersion,
    form: &StartForm,
) -> Result<StartReply, ApiError> {
    let input = json("the input", &form.input)?;
    let record = match form.record.trim() {
        "" => None,
        name => Some(RecordName::new(name).map_err(|error| ApiError::bad_request(error.to_string()))?),
    };
    let once = Some(form.once.as_str()).filter(|once| !once.is_empty());
    let key = request_key(&user.caller.credential, once)?;
    let request = StartApplied { key, trigger_kind: TRIGGER, workspace: None, record, input };
    let start = user.handle.start(&workflow.applied.workflow, request);
    let StartResult { run, outcome, .. } = start.await?;
    match outcome {
        StartOutcome::WaitsFor(blocker) => {
            QueuedRun::load(user, run.run, blocker.run).await.map(StartReply::Queued)
        }
        StartOutcome::OwnRun | StartOutcome::Joined => Ok(StartReply::Run(run.run)),
    }
}

/// The message above the form.
#[derive(Clone, Copy)]
pub(super) enum StartNotice<'a> {
    None,
    Refused(&'a ApiError),
    Queued(&'a QueuedRun),
}

/// The form, for users who can start runs.
pub(super) fn section<S: Store>(
    user: &SessionUser<S>,
    workflow: &WorkflowVersion,
    form: &StartForm,
    message: StartNotice<'_>,
) -> Result<Markup, ApiError> {
    if !user.has_role(Role::Operator) || !workflow.is_in_use() {
        return Ok(html! {});
    }
    let once = match message {
        // With another key it would start another run.
        StartNotice::Refused(problem) if is_outcome_unknown(problem) => form.once.clone(),
        StartNotice::None | StartNotice::Refused(_) | StartNotice::Queued(_) => api::hex::<16>()?,
    };
    Ok(html! {
        section aria-labelledby="start" {
            h2 #start { "Start a run" }
            p.soft { "Policy is evaluated before every external effect. You cannot approve the actions of a run that you start." }
            @match message {
                StartNotice::None => {}
                StartNotice::Refused(problem) => (notice(problem)),
                StartNotice::Queued(queued) => (queued.notice()),
            }
            form.stack method="post" action={ "/workflows/" (workflow.applied.workflow) "/start" } {
                (token(user))
                input type="hidden" name="once" value=(once);
                label for="start-input" { "Input (JSON)" }
                textarea #start-input name="input" rows="5" spellcheck="false" { (form.input) }
                label for="start-record" { "Record (optional), such as servicenow:incident:9d38" }
                input #start-record type="text" name="record" maxlength="256" autocomplete="off" spellcheck="false" value=(form.record);
                button.primary type="submit" { "Start run" }
            }
        }
    })
}
