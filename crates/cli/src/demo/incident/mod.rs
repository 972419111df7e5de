//! The first act: an incident, from the model's proposal to the undo.
//!
//! A model proposes a change in production, policy asks for a person, the one who wants it may not approve it,
//! another one does; a worker is killed in the middle of the change and another takes over; the evidence is
//! verified, and at last everything is taken back. Each part of it is the real thing but for the systems
//! outside, which are simulated and speak the same protocols.

mod answer;
mod ask;
mod crash;
mod evidence;
mod undo;

use domain::{RunKey, StepSeq};
use fakes::servicenow::INCIDENT;
use fakes::slack::Message;

use crate::error::CliError;

pub(crate) use ask::WORKFLOW;

use super::narrator::Narrator;
use super::stage::{Stage, WorkerProcess};
use super::verdict::Check;

/// The step that changes something.
const ASSIGN: StepSeq = StepSeq(2);

/// Plays the act; gives back what it claims.
pub(super) async fn play(stage: &Stage, narrator: &mut Narrator) -> Result<Vec<Check>, CliError> {
    let before = incident(stage);
    let run = ask::begin(stage, narrator).await?;
    let first = stage.worker("worker-a")?;
    let asked = ask::propose(stage, narrator, &run, &first).await?;
    let mut checks = asked.checks;
    checks.extend(answer::by_the_requester(stage, narrator, &asked.card, &first).await?);
    checks.extend(crash::approve_and_kill(stage, narrator, (&run, &asked.card), first).await?);
    let second = stage.worker("worker-b")?;
    checks.extend(crash::take_over(stage, narrator, (&run, &asked.card), &second).await?);
    checks.extend(evidence::verify_and_alter(stage, narrator, &run, &second).await?);
    checks.extend(undo::play(stage, narrator, (&run, &before), &second).await?);
    second.leave().await?;
    Ok(checks)
}

/// What of the incident is shown: what it is, and what the workflow changes.
type Incident = [(&'static str, String); 5];

/// The incident as ServiceNow has it now.
fn incident(stage: &Stage) -> Incident {
    ["number", "short_description", "assignment_group", "urgency", "state"]
        .map(|field| (field, stage.world.servicenow.value("incident", INCIDENT, field)))
}

/// The incident as a person would read it.
fn shown(incident: &Incident) -> String {
    let value = |value: &str| if value.is_empty() { "(empty)".to_owned() } else { value.to_owned() };
    incident
        .iter()
        .flat_map(|(field, text)| [format!("{field:<18} "), value(text), "\n".to_owned()])
        .collect()
}

/// The card about `run` that can still be answered.
async fn card_of(stage: &Stage, run: &RunKey, worker: &WorkerProcess) -> Result<Message, CliError> {
    let about = |message: &Message| {
        message.button(slack::card::APPROVE).is_some_and(|token| token.contains(run.run.as_str()))
    };
    worker.see("a card in Slack", || stage.world.slack.messages().into_iter().find(about)).await
}

/// The card at the same place, once it says that it was decided.
async fn decided(stage: &Stage, card: &Message, worker: &WorkerProcess) -> Result<Message, CliError> {
    let settled = |message: &Message| message.button(slack::card::APPROVE).is_none();
    let look = || stage.world.slack.message(&card.place()).filter(settled);
    worker.see("the outcome on the card", look).await
}
