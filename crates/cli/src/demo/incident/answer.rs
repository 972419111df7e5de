//! Clicks: signed by Slack, delivered over HTTP, answered by the engine.

use domain::ApprovalStatus;
use fakes::slack::{Message, Press, deliver};
use ingress::served::CLICKS;
use slack::card::{APPROVE, Token};

use crate::demo::narrator::Narrator;
use crate::demo::stage::{Stage, WorkerProcess};
use crate::demo::verdict::{Check, check};
use crate::dev::world::{PEOPLE, TEAM};
use crate::error::CliError;

/// Whoever wants the change presses the button as well.
pub(super) async fn by_the_requester(
    stage: &Stage,
    narrator: &mut Narrator,
    card: &Message,
    worker: &WorkerProcess,
) -> Result<Vec<Check>, CliError> {
    narrator.scene("ada presses Approve herself").await?;
    let told = stage.world.slack.answers().len();
    press(stage, card, "ada").await?;
    let answers = || stage.world.slack.answers().get(told).cloned();
    let answer = worker.see("an answer to ada", answers).await?;
    narrator.say("The click comes in over HTTP, under Slack's signature. In Slack, ada alone is told:")?;
    narrator.quote(answer["text"].as_str().unwrap_or_default())?;
    let (status, votes) = standing(stage, card).await?;
    narrator
        .say("Nobody approves what they asked for themselves. The card stands as it stood, and waits.")?;
    Ok(vec![check(
        "ada could not approve what she had asked for",
        &(status, votes),
        &(ApprovalStatus::Requested, 0),
    )])
}

/// `person` presses Approve on `card`.
pub(super) async fn press(stage: &Stage, card: &Message, person: &str) -> Result<(), CliError> {
    let user = PEOPLE.iter().find(|(name, _)| *name == person).map_or("", |(_, user)| *user);
    let at_secs = stage.engine.now().0.div_euclid(1_000);
    let press = Press { place: &card.place(), action_id: APPROVE, user, team: TEAM, at_secs };
    let click = stage.world.slack.press(&press);
    let click = click.ok_or_else(|| CliError::Demo("the card in Slack has no such button".into()))?;
    let address = format!("{}{CLICKS}/{}", stage.door.url(), stage.context.tenant);
    match deliver(click, &address).await {
        Ok(200) => Ok(()),
        Ok(status) => Err(CliError::Demo(format!("a click of {person} was answered with {status}"))),
        Err(error) => Err(CliError::Demo(format!("a click of {person} was not delivered: {error}"))),
    }
}

/// How the request that `card` shows stands, and how many people have answered it.
async fn standing(stage: &Stage, card: &Message) -> Result<(ApprovalStatus, usize), CliError> {
    let token = card.button(APPROVE).and_then(|token| token.parse::<Token>().ok());
    let token = token.ok_or_else(|| CliError::Demo("the card in Slack names no request".into()))?;
    let approval = stage.engine.approval(&token.run.tenant, &token.approval).await?;
    Ok((approval.status, approval.votes.len()))
}
