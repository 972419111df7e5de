//! Slack interactions: signed by Slack, delivered over HTTP, decided by the engine.

use domain::ApprovalStatus;
use fakes::slack::{ButtonPress, FakeMessage, deliver};
use ingress::routes::SLACK_INTERACTIONS;
use slack::card::{APPROVE, ButtonToken};

use crate::demo::env::{DemoEnv, WorkerProcess};
use crate::demo::narrator::Narrator;
use crate::demo::verdict::{Check, check};
use crate::dev::env::{PEOPLE, TEAM};
use crate::error::CliError;

/// The requester tries to approve.
pub(super) async fn requester_approves(
    env: &DemoEnv,
    narrator: &mut Narrator,
    card: &FakeMessage,
    worker: &WorkerProcess,
) -> Result<Vec<Check>, CliError> {
    narrator.section("ada tries to approve her own run").await?;
    let before = env.systems.slack.answers().len();
    press_approve(env, card, "ada").await?;
    let answers = || env.systems.slack.answers().get(before).cloned();
    let answer = worker.wait_for("a reply to ada", answers).await?;
    narrator.paragraph("Slack signs the click and delivers it over HTTP. Only ada sees the reply:")?;
    narrator.quote(answer["text"].as_str().unwrap_or_default())?;
    let (status, votes) = approval_status(env, card).await?;
    narrator
        .paragraph("The requester of a run cannot approve it. The card does not change and stays open.")?;
    Ok(vec![check("ada cannot approve her own run", &(status, votes), &(ApprovalStatus::Requested, 0))])
}

/// `person` presses Approve on `card`.
pub(super) async fn press_approve(env: &DemoEnv, card: &FakeMessage, person: &str) -> Result<(), CliError> {
    let user = PEOPLE.iter().find(|(name, _)| *name == person).map_or("", |(_, user)| *user);
    let at_secs = env.engine.now().0.div_euclid(1_000);
    let press = ButtonPress { place: &card.place(), action_id: APPROVE, user, team: TEAM, at_secs };
    let click = env.systems.slack.press(&press);
    let click = click.ok_or_else(|| CliError::Demo("the Slack card has no Approve button".into()))?;
    let address = format!("{}{SLACK_INTERACTIONS}/{}", env.interactions.url(), env.context.tenant);
    match deliver(click, &address).await {
        Ok(200) => Ok(()),
        Ok(status) => Err(CliError::Demo(format!("the click by {person} got HTTP status {status}"))),
        Err(error) => Err(CliError::Demo(format!("the click by {person} was not delivered: {error}"))),
    }
}

/// The status of the approval on `card`, and its number of votes.
async fn approval_status(env: &DemoEnv, card: &FakeMessage) -> Result<(ApprovalStatus, usize), CliError> {
    let token = card.button(APPROVE).and_then(|token| token.parse::<ButtonToken>().ok());
    let token = token.ok_or_else(|| CliError::Demo("the Slack card names no approval".into()))?;
    let approval = env.engine.governance().approval(&token.run.tenant, &token.approval).await?;
    Ok((approval.status, approval.votes.len()))
}
