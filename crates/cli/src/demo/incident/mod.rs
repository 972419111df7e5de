//! The first part: an incident, from the model's proposal to the undo.
//!
//! A model proposes a change in production and policy requires an approval. The requester cannot approve; another
//! user does. A worker is killed during the change and another takes over. The evidence is verified, and the change
//! is undone. Only the external systems are fakes, which use the same protocols as the real ones.

mod answer;
mod ask;
mod crash;
mod evidence;
mod undo;

use domain::{RunKey, StepSeq};
use fakes::servicenow::INCIDENT;
use fakes::slack::FakeMessage;

use crate::error::CliError;

use super::env::{DemoEnv, WorkerProcess};
use super::narrator::Narrator;
use super::verdict::Check;

/// The step that changes the incident.
const ASSIGN: StepSeq = StepSeq(2);

/// Runs the first part and returns its checks.
pub(super) async fn play(env: &DemoEnv, narrator: &mut Narrator) -> Result<Vec<Check>, CliError> {
    let before = incident(env);
    let run = ask::start(env, narrator).await?;
    let first = env.worker("worker-a")?;
    let request = ask::propose(env, narrator, &run, &first).await?;
    let mut checks = request.checks;
    checks.extend(answer::requester_approves(env, narrator, &request.card, &first).await?);
    checks.extend(crash::approve_and_kill(env, narrator, (&run, &request.card), first).await?);
    let second = env.worker("worker-b")?;
    checks.extend(crash::take_over(env, narrator, (&run, &request.card), &second).await?);
    checks.extend(evidence::verify_and_alter(env, narrator, &run, &second).await?);
    checks.extend(undo::play(env, narrator, (&run, &before), &second).await?);
    second.drain().await?;
    Ok(checks)
}

/// The printed fields of the incident.
type Incident = [(&'static str, String); 5];

/// The current incident in ServiceNow.
fn incident(env: &DemoEnv) -> Incident {
    ["number", "short_description", "assignment_group", "urgency", "state"]
        .map(|field| (field, env.systems.servicenow.value("incident", INCIDENT, field)))
}

fn render(incident: &Incident) -> String {
    let value = |value: &str| if value.is_empty() { "(empty)".to_owned() } else { value.to_owned() };
    incident
        .iter()
        .flat_map(|(field, text)| [format!("{field:<18} "), value(text), "\n".to_owned()])
        .collect()
}

/// The open approval card of `run`.
async fn wait_for_card(env: &DemoEnv, run: &RunKey, worker: &WorkerProcess) -> Result<FakeMessage, CliError> {
    let about = |message: &FakeMessage| {
        message.button(slack::card::APPROVE).is_some_and(|token| token.contains(run.run.as_str()))
    };
    worker.wait_for("a card in Slack", || env.systems.slack.messages().into_iter().find(about)).await
}

/// The same card after the decision.
async fn wait_for_decision(
    env: &DemoEnv,
    card: &FakeMessage,
    worker: &WorkerProcess,
) -> Result<FakeMessage, CliError> {
    let is_decided = |message: &FakeMessage| message.button(slack::card::APPROVE).is_none();
    let find = || env.systems.slack.message(&card.place()).filter(is_decided);
    worker.wait_for("the decision on the card", find).await
}
