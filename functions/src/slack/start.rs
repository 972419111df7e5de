//! `/countersign start`: a person asks in Slack for a run.
//!
//! What they ask for is kept before they are told so, which takes two small writes and fits well into Slack's three
//! seconds; a worker starts the run. Slack names each use of a command, so one that comes twice is one request. Whoever
//! asks is the requester of the run, and therefore cannot approve what it does.

use domain::{Asked, Cause, Digest, IdempotencyKey, Initiator, PersonId, Source, WorkspaceId, json};
use engine::{Engine, EngineError, Knock, Welcome};
use notify::command::Typed;
use serde_json::Value;
use store::Store;

use super::SlackDoor;

pub(super) const HELP: &str = "`/countersign start WORKFLOW {\"input\": …}` starts a run of a workflow.";

const NO_WORKFLOW: &str = "There is no such workflow in use.";
const NO_INPUT: &str = "What follows the workflow is its input, a JSON object such as `{\"host\": \"db1\"}`.";
const NO_NAME: &str = "Slack did not say which use of the command this is; please try again.";

/// A wish to start `workflow`, as it was typed.
pub(super) struct Wish<'w> {
    pub(super) typed: &'w Typed,
    pub(super) person: &'w PersonId,
    pub(super) workflow: &'w str,
    /// The rest of the line.
    pub(super) input: &'w str,
}

/// What the person is told.
pub(super) async fn start<S: Store>(
    engine: &Engine<S>,
    door: &SlackDoor,
    wish: Wish<'_>,
) -> Result<String, EngineError> {
    let Some(input) = input(wish.input) else { return Ok(NO_INPUT.to_owned()) };
    let Some(key) = key(wish.typed) else { return Ok(NO_NAME.to_owned()) };
    let applied = engine.applied(&door.tenant).await?;
    let Some(applied) = applied.into_iter().find(|applied| applied.workflow.as_str() == wish.workflow) else {
        return Ok(NO_WORKFLOW.to_owned());
    };
    let by = Initiator::new(Cause::User, wish.person.as_str()).with("slack_team", &wish.typed.team);
    let accepted = engine.accept(Knock {
        tenant: door.tenant.clone(),
        proof: Digest::of_parts("countersign/slack-command/v1", &[door.tenant.as_str(), key.as_str()]),
        key,
        source: Source::Slack,
        about: None,
        record: None,
        alike: None,
        body: input,
        asked: Some(Asked {
            plan: applied.plan,
            workspace: WorkspaceId::default(),
            trigger_kind: Source::Slack.to_string(),
            by,
        }),
    });
    match accepted.await {
        Ok(Welcome { run, .. }) => {
            let run = &run.run;
            Ok(format!(
                "`{run}` of `{}` starts; `/countersign run {run}` says how it stands.",
                applied.workflow
            ))
        }
        Err(EngineError::Refused(refusal)) => Ok(refusal.to_string()),
        Err(EngineError::BadInput { .. }) => Ok(NO_INPUT.to_owned()),
        Err(error) => Err(error),
    }
}

/// What a run gets; nothing typed is nothing in it.
fn input(text: &str) -> Option<Value> {
    match text.trim() {
        "" => Some(Value::Object(serde_json::Map::new())),
        text => json::parse(text.as_bytes()).ok().filter(Value::is_object),
    }
}

fn key(typed: &Typed) -> Option<IdempotencyKey> {
    IdempotencyKey::new(&format!("slack:{}:{}", typed.team, typed.trigger.as_ref()?)).ok()
}
