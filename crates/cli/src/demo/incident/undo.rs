//! The undo: a separate run that restores the old values from the receipt.

use ::evidence::verify;
use domain::{RunKey, RunStatus};
use engine::{UndoEffect, UndoPlan};
use serde_json::Value;

use crate::demo::card;
use crate::demo::env::{DemoEnv, WorkerProcess};
use crate::demo::narrator::Narrator;
use crate::demo::verdict::{Check, check};
use crate::error::CliError;
use crate::keys;

use super::answer::press_approve;
use super::evidence::{result_line, wait_for_bundle};
use super::{Incident, incident, render, wait_for_card};

pub(super) async fn play(
    env: &DemoEnv,
    narrator: &mut Narrator,
    (run, before): (&RunKey, &Incident),
    worker: &WorkerProcess,
) -> Result<Vec<Check>, CliError> {
    narrator.section("The change is undone").await?;
    narrator.paragraph(
        "Suppose that it was the wrong team. The receipt of step 3 contains the previous values of the incident. This \
         is the plan of an undo:",
    )?;
    let handle = env.engine.tenant_handle(&run.tenant, &env.context.by_user());
    narrator.block(&plan(&handle.undo_plan(&run.run).await?))?;
    let undo = handle.undo(&run.run).await?.run;
    let card = wait_for_card(env, &undo, worker).await?;
    narrator.paragraph(&format!(
        "ada starts the undo: {}. It changes production too, so it needs an approval:",
        undo.run
    ))?;
    narrator.block(&changes(&card::text(&card)))?;
    press_approve(env, &card, "grace").await?;
    env.wait_until(&undo, worker, |record| record.status.is_terminal()).await?;
    let status = env.load(&undo).await?.view.record.status;
    narrator.paragraph(&format!("grace approves, and the run has {status}. The incident in ServiceNow:"))?;
    let after = incident(env);
    narrator.block(&render(&after))?;
    let keys = keys::read_trusted_keys(&keys::public_key_path(&env.context.store))?;
    let verified = verify(&wait_for_bundle(env, &undo, worker).await?, keys.current());
    narrator.paragraph("The undo has its own evidence:")?;
    narrator.quote(&result_line(&verified))?;
    Ok(vec![
        check("the approved undo succeeds", &status, &RunStatus::Succeeded),
        check("the incident has its previous values", &after, before),
        check("the evidence of the undo verifies", &verified.is_ok(), &true),
    ])
}

/// The plan of the undo, effect by effect.
fn plan(plan: &UndoPlan) -> String {
    let effect = |effect: &UndoEffect| match &effect.by {
        Ok(call) => {
            let with = Value::Object(call.with.clone());
            let fields = with["fields"].as_object().into_iter().flatten();
            let back: Vec<_> = fields.map(|(field, value)| format!("\n  set {field} to {value}")).collect();
            format!("step {}: {} on {}{}\n", effect.step, call.tool, effect.target, back.concat())
        }
        Err(why) => format!("step {}: stays: {why}\n", effect.step),
    };
    plan.effects.iter().map(effect).collect()
}

/// The lines of a card with the title, the changes and the buttons.
fn changes(card: &str) -> String {
    let is_shown =
        |line: &&str| line.contains(" → ") || line.contains("Approval needed") || line.contains("[ ");
    card.lines().filter(is_shown).flat_map(|line| [line, "\n"]).collect()
}
