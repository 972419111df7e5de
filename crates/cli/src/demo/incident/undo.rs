//! Everything is taken back by receipt, as a run of its own: asked for, approved, recorded, verified.

use ::evidence::verify;
use domain::{RunKey, RunStatus};
use engine::{UndoEffect, UndoPlan};
use serde_json::Value;

use crate::demo::card;
use crate::demo::narrator::Narrator;
use crate::demo::stage::{Stage, WorkerProcess};
use crate::demo::verdict::{Check, check};
use crate::error::CliError;
use crate::keys;

use super::answer::press;
use super::evidence::{bundle_of, told};
use super::{Incident, card_of, incident, shown};

pub(super) async fn play(
    stage: &Stage,
    narrator: &mut Narrator,
    (run, before): (&RunKey, &Incident),
    worker: &WorkerProcess,
) -> Result<Vec<Check>, CliError> {
    narrator.scene("Taking it back").await?;
    narrator.say(
        "Say that it was the wrong team after all. The receipt of step 3 holds what stood in the incident before, so \
         nobody has to remember it. This is what an undo would do:",
    )?;
    narrator.show(&plan(&stage.engine.undo_plan(run).await?))?;
    let undo = stage.engine.undo(run, &stage.context.by_user()).await?.run;
    let card = card_of(stage, &undo, worker).await?;
    narrator.say(&format!(
        "ada starts it: {}. To take back is to change production, too, so people are asked:",
        undo.run
    ))?;
    narrator.show(&changes(&card::text(&card)))?;
    press(stage, &card, "grace").await?;
    stage.until(&undo, worker, |record| record.status.is_terminal()).await?;
    let status = stage.look(&undo).await?.view.record.status;
    narrator.say(&format!("grace presses Approve, and the run has {status}. ServiceNow has again:"))?;
    let after = incident(stage);
    narrator.show(&shown(&after))?;
    let key = keys::public(&keys::public_path(&stage.context.store))?;
    let verified = verify(&bundle_of(stage, &undo, worker).await?, &key);
    narrator.say("The undo leaves evidence of its own:")?;
    narrator.quote(&told(&verified))?;
    Ok(vec![
        check("the undo was approved, and succeeded", &status, &RunStatus::Succeeded),
        check("the incident is as it was before", &after, before),
        check("the evidence of the undo verifies", &verified.is_ok(), &true),
    ])
}

/// What the undo would do, effect by effect.
fn plan(plan: &UndoPlan) -> String {
    let effect = |effect: &UndoEffect| match &effect.by {
        Ok(call) => {
            let with = Value::Object(call.with.clone());
            let fields = with["fields"].as_object().into_iter().flatten();
            let back: Vec<_> = fields.map(|(field, value)| format!("\n  {field} back to {value}")).collect();
            format!("step {}: {} on {}{}\n", effect.step, call.tool, effect.target, back.concat())
        }
        Err(why) => format!("step {}: stays, because {why}\n", effect.step),
    };
    plan.effects.iter().map(effect).collect()
}

/// The lines of a card that say what would change.
fn changes(card: &str) -> String {
    let wanted =
        |line: &&str| line.contains(" → ") || line.contains("Approval needed") || line.contains("[ ");
    card.lines().filter(wanted).flat_map(|line| [line, "\n"]).collect()
}
