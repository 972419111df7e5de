//! A person asks in Slack for a run: by `/countersign start`, or in the window of a shortcut.
//!
//! What they ask for is kept before they are told so, which takes three small writes and fits well into Slack's three
//! seconds; a worker starts the run. A command that is cut off is not sent again, so the first of them is a message that
//! has the run begun, should the second one stand and the third not be made. Slack names each use of a command and each window, so one that comes twice is one
//! request. Whoever asks is the requester of the run, and therefore cannot approve what it does.

use ::slack::Stranger;
use domain::{
    Asked, Cause, Digest, IdempotencyKey, InboxEntry, InboxStatus, Initiator, PersonId, Refusal, RunId,
    Source, WorkflowName, WorkspaceId, json,
};
use engine::{AcceptResult, Engine, EngineError, InboundEvent};
use serde_json::{Map, Value};
use store::Store;

use super::status::became;
use super::{NOT_NOW, SlackInstallation};

pub(super) const HELP: &str = "`/countersign start WORKFLOW {\"input\": …}` starts a run of a workflow.";

/// A wish to start `workflow`.
pub(super) struct Wish<'w> {
    /// The workspace it comes from.
    pub(super) team: &'w str,
    /// What Slack calls it, if it says so in plain letters.
    pub(super) name: Option<&'w str>,
    pub(super) person: &'w PersonId,
    pub(super) workflow: &'w str,
    /// What was typed.
    pub(super) input: &'w str,
}

/// Why no run starts, in words for whoever asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotStarted {
    #[error("There is no such workflow in use.")]
    Workflow,
    #[error("The input is a JSON object such as `{{\"host\": \"db1\"}}`, or words such as `host=db1`.")]
    Input,
    #[error("Slack did not say which use of the command this is; please try again.")]
    Name,
    #[error(transparent)]
    Stranger(Stranger),
    #[error(transparent)]
    Refused(Refusal),
    /// Nobody knows.
    #[error("{NOT_NOW}")]
    Failed(#[source] EngineError),
}

impl From<EngineError> for NotStarted {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(refusal) => {
                tracing::info!(code = %refusal.code(), "refused");
                Self::Refused(refusal)
            }
            EngineError::BadInput { .. } => Self::Input,
            error => Self::Failed(error),
        }
    }
}

/// What the person is told of their run.
pub(super) async fn start<S: Store>(
    engine: &Engine<S>,
    door: &SlackInstallation,
    wish: Wish<'_>,
) -> Result<String, NotStarted> {
    let input = input(wish.input).ok_or(NotStarted::Input)?;
    let key = key(wish.team, wish.name).ok_or(NotStarted::Name)?;
    let applied = engine.applied(&door.tenant).await?;
    let applied = applied.into_iter().find(|applied| applied.workflow.as_str() == wish.workflow);
    let applied = applied.ok_or(NotStarted::Workflow)?;
    let by = Initiator::new(Cause::User, wish.person.as_str()).with("slack_team", wish.team);
    let accepted = engine.accept_at_once(InboundEvent {
        tenant: door.tenant.clone(),
        proof: Digest::of_parts("countersign/slack-command/v1", &[door.tenant.as_str(), key.as_str()]),
        key,
        source: Source::Slack,
        about: None,
        record: None,
        dedupe_key: None,
        body: input,
        asked: Some(Asked {
            plan: applied.plan,
            workspace: WorkspaceId::default(),
            trigger_kind: Source::Slack.to_string(),
            by,
        }),
    });
    let AcceptResult { run, status, .. } = accepted.await?;
    Ok(told(&run.run, &status, &applied.workflow))
}

/// What is told of a wish that was taken in. Whether its run begins turns out when a worker takes it up, so nothing is
/// promised before.
fn told(run: &RunId, status: &InboxStatus, workflow: &WorkflowName) -> String {
    if *status != InboxStatus::Pending {
        return became(run, status);
    }
    format!("`{run}` of `{workflow}` was taken in; `/countersign run {run}` tells what becomes of it.")
}

/// What a run gets: a JSON object, or words such as `host=db1`. Nothing typed is nothing in it.
fn input(text: &str) -> Option<Value> {
    let text = text.trim();
    if text.starts_with('{') {
        return json::parse(text.as_bytes()).ok().filter(Value::is_object);
    }
    let mut input = Map::new();
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').filter(|(name, _)| !name.is_empty())?;
        // A second value would leave it to the reader which one counts.
        if input.insert(name.to_owned(), value.into()).is_some() {
            return None;
        }
    }
    Some(Value::Object(input))
}

/// The run that a wish of this name starts, if it starts one.
pub(super) fn run_of(door: &SlackInstallation, team: &str, name: Option<&str>) -> Option<RunId> {
    key(team, name).map(|key| InboxEntry::run_of(&door.tenant, &key).run)
}

fn key(team: &str, name: Option<&str>) -> Option<IdempotencyKey> {
    IdempotencyKey::new(&format!("slack:{team}:{}", name?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_input_is_an_object_or_words_and_nothing_that_could_be_read_twice() {
        for (typed, read) in [
            ("", json!({})),
            (r#" {"host": "db1", "tries": 2} "#, json!({ "host": "db1", "tries": 2 })),
            ("host=db1\n why=a=b", json!({ "host": "db1", "why": "a=b" })),
            ("host=", json!({ "host": "" })),
        ] {
            assert_eq!(input(typed), Some(read), "{typed}");
        }
        for typed in ["{", "[1]", "db1", "=db1", "host=db1 host=db2", r#"{"a": 1, "a": 2}"#, "{} x"] {
            assert_eq!(input(typed), None, "{typed}");
        }
    }
}
