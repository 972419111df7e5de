//! Starts a run from Slack: by `/countersign start`, or from the modal of a shortcut.
//!
//! The request is stored before the reply, in three small writes that fit into Slack's three seconds. A worker starts the
//! run. Slack does not repeat a command, so a delayed message is sent before the inbox entry is stored: if the process
//! dies between storing the entry and sending its message, the delayed message still starts the run. Slack assigns an id
//! to each command and each modal, so a repeated request starts one run. The user becomes the requester of the run and
//! cannot approve its actions.

use ::slack::escape::{self, TextLimit};
use ::slack::{MissingRole, UnknownSlackUser, require_role};
use domain::{
    Cause, Digest, IdempotencyKey, InboxEntry, InboxStatus, Initiator, PersonId, Refusal, Role, RunId,
    Source, Tenant, WorkflowName, json,
};
use engine::{AcceptResult, Engine, EngineError, InboundEvent};
use serde_json::{Map, Value};
use store::Store;

use super::{SlackInstallation, UNAVAILABLE};

pub(super) const HELP: &str = "`/countersign start WORKFLOW {\"input\": …}` starts a run of a workflow.";

/// Longer than a stored reason, with room for escapes.
const REASON_UNITS_MAX: usize = 1_024;

pub(super) struct StartRequest<'r> {
    pub(super) directory: &'r Tenant,
    /// The Slack workspace.
    pub(super) team: &'r str,
    /// Slack's id of the command or modal, if it is valid in an idempotency key.
    pub(super) request_id: Option<&'r str>,
    pub(super) person: &'r PersonId,
    pub(super) workflow: &'r str,
    /// The text that the user typed.
    pub(super) input: &'r str,
}

/// Why no run starts. The texts are shown to the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotStarted {
    #[error("Workflow not found.")]
    Workflow,
    #[error("The input must be a JSON object such as `{{\"host\": \"db1\"}}`, or words such as `host=db1`.")]
    Input,
    #[error("Slack sent no valid id for this request. Please try again.")]
    RequestId,
    #[error(transparent)]
    UnknownSlackUser(UnknownSlackUser),
    #[error(transparent)]
    Role(#[from] MissingRole),
    #[error(transparent)]
    Refused(Refusal),
    /// The outcome is unknown.
    #[error("{UNAVAILABLE}")]
    Failed(#[source] EngineError),
}

impl From<EngineError> for NotStarted {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(refusal) => {
                tracing::info!(event = "request_refused", code = %refusal.code(), "request refused");
                Self::Refused(refusal)
            }
            EngineError::BadInput { .. } => Self::Input,
            error => Self::Failed(error),
        }
    }
}

/// Accepts the request and returns the reply for the user.
pub(super) async fn start<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    request: StartRequest<'_>,
) -> Result<String, NotStarted> {
    require_role(request.directory, request.person, Role::Operator)?;
    let input = input(request.input).ok_or(NotStarted::Input)?;
    let key = key(request.team, request.request_id).ok_or(NotStarted::RequestId)?;
    let by = Initiator::new(Cause::User, request.person.as_str()).with("slack_team", request.team);
    let applied = engine.tenant_handle(&installation.tenant, &by).workflows().await?;
    let applied = applied.into_iter().find(|applied| applied.workflow.as_str() == request.workflow);
    let applied = applied.ok_or(NotStarted::Workflow)?;
    let accepted = engine.admission().accept_without_retry(InboundEvent {
        tenant: installation.tenant.clone(),
        proof: Digest::of_parts(
            "countersign/slack-command/v1",
            &[installation.tenant.as_str(), key.as_str()],
        ),
        key,
        source: Source::Slack,
        topic: None,
        record: None,
        dedupe_key: None,
        body: input,
        start_request: Some(domain::StartRequest {
            plan: applied.plan,
            workspace: None,
            trigger_kind: Source::Slack.to_string(),
            by,
            applied_by: applied.applied_by(),
        }),
    });
    let AcceptResult { run, status, .. } = accepted.await?;
    Ok(accepted_text(&run.run, &status, &applied.workflow))
}

/// The reply to an accepted request. A worker decides later whether its run starts, so the text promises nothing.
fn accepted_text(run: &RunId, status: &InboxStatus, workflow: &WorkflowName) -> String {
    if *status != InboxStatus::Pending {
        return describe(run, status);
    }
    format!("`{run}` of `{workflow}` was accepted; `/countersign run {run}` shows its status.")
}

/// The input of the run: a JSON object, or words such as `host=db1`. An empty text is an empty object.
fn input(text: &str) -> Option<Value> {
    let text = text.trim();
    if text.starts_with('{') {
        return json::parse(text.as_bytes()).ok().filter(Value::is_object);
    }
    let mut input = Map::new();
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').filter(|(name, _)| !name.is_empty())?;
        // Two values for one name are ambiguous.
        if input.insert(name.to_owned(), value.into()).is_some() {
            return None;
        }
    }
    Some(Value::Object(input))
}

/// The id of the run that this request starts, if it starts one.
pub(super) fn run_of(
    installation: &SlackInstallation,
    team: &str,
    request_id: Option<&str>,
) -> Option<RunId> {
    key(team, request_id).map(|key| InboxEntry::run_of(&installation.tenant, &key).run)
}

fn key(team: &str, request_id: Option<&str>) -> Option<IdempotencyKey> {
    IdempotencyKey::new(&format!("slack:{team}:{}", request_id?)).ok()
}

/// Describes `run` by the status of the inbox entry that starts it.
pub(super) fn describe(run: &RunId, status: &InboxStatus) -> String {
    match status {
        InboxStatus::Pending => {
            format!("`{run}` has not started: it waits for a worker or for its concurrency key.")
        }
        InboxStatus::Started => format!("`{run}` has started; `/countersign run {run}` shows its status."),
        InboxStatus::Joined { run: other } => format!(
            "`{run}` was not started: it joined `{other}`, which holds the same concurrency key; `/countersign run {other}` \
             shows its status."
        ),
        InboxStatus::Unmatched { .. } => format!("`{run}` was not started: no workflow matches the event."),
        InboxStatus::Rejected { reason, .. } => {
            format!("`{run}` was not started: {}", escape::line(reason, TextLimit::plain(REASON_UNITS_MAX)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn input_is_a_json_object_or_words() {
        for (typed, parsed) in [
            ("", json!({})),
            (r#" {"host": "db1", "tries": 2} "#, json!({ "host": "db1", "tries": 2 })),
            ("host=db1\n why=a=b", json!({ "host": "db1", "why": "a=b" })),
            ("host=", json!({ "host": "" })),
        ] {
            assert_eq!(input(typed), Some(parsed), "{typed}");
        }
        for typed in ["{", "[1]", "db1", "=db1", "host=db1 host=db2", r#"{"a": 1, "a": 2}"#, "{} x"] {
            assert_eq!(input(typed), None, "{typed}");
        }
    }
}
