//! The second act: an effect without any promise. Nobody guesses; a person decides.

use domain::{RunKey, RunStatus};
use serde_json::json;

use crate::error::CliError;
use views::{Seen, run_text};

use super::desk::Count;
use super::narrator::Narrator;
use super::stage::Stage;
use super::verdict::{Check, check};

const WORKFLOW: &str = include_str!("workflows/call.yaml");

/// Where the request that is interrupted goes.
const PHONE: &str = "/phone-calls";

/// Plays the act; gives back what it claims.
pub(super) async fn play(stage: &Stage, narrator: &mut Narrator) -> Result<Vec<Check>, CliError> {
    narrator.title("And if the other side promises nothing?")?;
    let run = kill(stage, narrator).await?;
    let paused = pause(stage, narrator, &run).await?;
    let canceled = decide(stage, narrator, &run).await?;
    let rang: Vec<Count> = stage.desk.counts(PHONE).into_iter().map(|(_, count)| count).collect();
    Ok(vec![
        check("with no promise to rely on, the run paused", &paused.view.record.status, &RunStatus::Paused),
        check("the phone was asked once to ring, and rang once", &rang, &vec![Count { asked: 1, done: 1 }]),
        check("a person ended the run", &canceled.view.record.status, &RunStatus::Canceled),
        check("its chain of events holds, too", &canceled.view.events.is_ok(), &true),
    ])
}

async fn kill(stage: &Stage, narrator: &mut Narrator) -> Result<RunKey, CliError> {
    narrator.scene("A phone call").await?;
    narrator.say(
        "ServiceNow could be asked what had become of the change. Not everything can. This workflow ends in a request \
         that rings a phone: asked twice, it rings twice, and afterwards nobody can tell.",
    )?;
    narrator.show(WORKFLOW)?;
    let file = stage.write("wake-somebody.yaml", WORKFLOW)?;
    let desk = format!("http://{}", stage.desk.address());
    let run = stage.start(&file, "demo:call", json!({ "ticket": "INC0010001", "desk": desk })).await?;
    let reached = stage.desk.hold(PHONE);
    let worker = stage.worker("worker-c")?;
    let process = worker.process();
    worker.bring_about(reached).await?;
    worker.kill().await?;
    narrator
        .say(&format!("Worker C, process {process}, was killed just now, while the phone was ringing."))?;
    Ok(run)
}

async fn pause(stage: &Stage, narrator: &mut Narrator, run: &RunKey) -> Result<Seen, CliError> {
    let worker = stage.worker("worker-d")?;
    stage
        .until(run, &worker, |record| record.status == RunStatus::Paused || record.status.is_terminal())
        .await?;
    worker.leave().await?;
    let seen = stage.look(run).await?;
    narrator.scene("Worker D does not guess").await?;
    narrator.say(
        "Worker D found an intent, no result and no promise. To ask again might ring twice; to go on might mean \
         that nobody was called. So it paused the run. This is what `countersign run show` tells an operator:",
    )?;
    narrator.show(&run_text(&seen))?;
    Ok(seen)
}

async fn decide(stage: &Stage, narrator: &mut Narrator, run: &RunKey) -> Result<Seen, CliError> {
    narrator.scene("A person decides").await?;
    narrator.say("The operator looks at the phone's own numbers:")?;
    narrator.show(&stage.desk.numbers(&[PHONE]))?;
    narrator.say("It did ring. So the operator stops the run instead of retrying it:")?;
    let reason = "the phone did ring";
    narrator.show(&format!("{} \\\n    --reason '{reason}'", stage.context.hints().run("cancel", run)))?;
    stage.engine.cancel(run, &stage.context.by_user(), reason).await?;
    let seen = stage.look(run).await?;
    narrator.say(&format!(
        "The run is {} now. Who decided that, when and why is part of its chain of events.",
        seen.view.record.status
    ))?;
    Ok(seen)
}
