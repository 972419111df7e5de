//! The first act: an effect with a key. It is asked for twice and happens once.

use domain::receipt::ReceiptState;
use domain::{Live, Receipt, RunKey, RunStatus, StepSeq};

use crate::error::CliError;
use crate::show::{Seen, TryEnd, steps_table};
use crate::time::{distance, moment};

use super::desk::Count;
use super::narrator::Narrator;
use super::stage::{LEASE, Stage};
use super::verdict::{Check, check};

const WORKFLOW: &str = include_str!("workflows/assign.yaml");

/// The step that is interrupted.
const ASSIGN: StepSeq = StepSeq(2);

/// Where its request goes, and where the last step's goes.
const ASSIGNMENTS: &str = "/assignments";
const NOTES: &str = "/notes";

/// Plays the act; gives back what it claims.
pub(super) async fn play(stage: &Stage, narrator: &mut Narrator) -> Result<Vec<Check>, CliError> {
    let run = begin(stage, narrator).await?;
    kill(stage, narrator).await?;
    let killed = stage.look(&run).await?;
    show_the_gap(narrator, &killed)?;
    take_over(stage, narrator, &run).await?;
    let ended = stage.look(&run).await?;
    show_the_end(stage, narrator, &ended)?;
    Ok(claims(stage, &killed, &ended))
}

async fn begin(stage: &Stage, narrator: &mut Narrator) -> Result<RunKey, CliError> {
    narrator.scene("A workflow of five steps")?;
    narrator.show(WORKFLOW)?;
    let file = stage.write("hand-over-ticket.yaml", WORKFLOW)?;
    let run = stage.start(&file, "demo:first").await?;
    narrator.scene("A run of it is started")?;
    narrator
        .say(&format!("{} is on disk now, with its plan and its input. Nobody works on it yet.", run.run))?;
    Ok(run)
}

async fn kill(stage: &Stage, narrator: &mut Narrator) -> Result<(), CliError> {
    let reached = stage.desk.hold(ASSIGNMENTS);
    let worker = stage.worker("worker-a")?;
    narrator.scene("Worker A takes the run, and is killed")?;
    narrator.say(&format!(
        "Worker A is a process of its own, number {}. It does steps 1 and 2 and sends the request of step 3. The \
         desk makes the assignment ...",
        worker.process()
    ))?;
    worker.bring_about(reached).await?;
    worker.kill().await?;
    narrator.say(
        "... and before the desk can answer: kill -9. The change has happened, and the only process that knew \
         about it is gone.",
    )
}

/// What the ledger has at this moment: an intent, and no result.
fn show_the_gap(narrator: &mut Narrator, seen: &Seen) -> Result<(), CliError> {
    narrator.scene("What is on disk at this moment")?;
    narrator.show(&steps_table(seen))?;
    if let (Some(receipt), Live::Running(lease)) = (&seen.open, &seen.view.record.live) {
        narrator.show(&format!(
            "intent   POST {}, written down at {}\nkey      {}\nresult   none\nlease    {} holds the step until {} ({})",
            receipt.target,
            moment(receipt.intended_at),
            receipt.key,
            lease.owner,
            moment(lease.until),
            distance(lease.until, seen.now),
        ))?;
    }
    narrator.say(
        "Before it sent the request, worker A wrote down what it was about to do: the intent. An intent without a \
         result means: somebody may have acted. Without that record, whoever comes next could only guess.",
    )
}

async fn take_over(stage: &Stage, narrator: &mut Narrator, run: &RunKey) -> Result<(), CliError> {
    let worker = stage.worker("worker-b")?;
    narrator.scene("Worker B takes over")?;
    narrator.say(&format!(
        "Worker B is process {}, on the same file. A worker holds a step for {LEASE} at a time (its lease) and \
         extends that while it lives. Worker A no longer does. When its lease has run out, worker B takes the step \
         and repeats the request with the same key, because the workflow says that the desk does nothing twice \
         for one key.",
        worker.process()
    ))?;
    stage.until(run, &worker, |record| record.status.is_terminal()).await?;
    worker.leave().await
}

fn show_the_end(stage: &Stage, narrator: &mut Narrator, seen: &Seen) -> Result<(), CliError> {
    narrator.scene("What became of it")?;
    narrator
        .say(&format!("The run ended as {}. Its steps, and who worked on each:", seen.view.record.status))?;
    narrator.show(&steps_table(seen))?;
    narrator.say("The desk's own numbers: how often it was asked, and how often it did it:")?;
    narrator.show(&stage.desk.numbers(&[ASSIGNMENTS, NOTES]))?;
    narrator.say(&match &seen.view.events {
        Ok(events) => format!(
            "Everything that happened is kept as a chain of {} events. Each is hashed together with the one before \
             it, so that none can be altered or left out unnoticed. The chain was checked just now: it holds.",
            events.len()
        ),
        Err(fault) => format!("The chain of events does not hold: {fault}."),
    })
}

fn claims(stage: &Stage, killed: &Seen, ended: &Seen) -> Vec<Check> {
    let ends: Vec<TryEnd> = ended.history().step(ASSIGN).tries.iter().map(|attempt| attempt.end).collect();
    let (twice, once) = (Count { asked: 2, done: 1 }, Count { asked: 1, done: 1 });
    let of = |path: &str| stage.desk.counts(path).into_iter().map(|(_, count)| count).collect::<Vec<_>>();
    vec![
        check("when worker A was killed, the intent was on disk, and no result", &intended(killed), &true),
        check("the run succeeded", &ended.view.record.status, &RunStatus::Succeeded),
        check(
            "worker A fell silent in step 3, worker B finished it",
            &ends,
            &vec![TryEnd::Silent, TryEnd::Done],
        ),
        check(
            "the desk was asked twice to assign the ticket, and did it once",
            &of(ASSIGNMENTS),
            &vec![twice],
        ),
        check("the desk was asked once to post the note, and did it once", &of(NOTES), &vec![once]),
        check("the chain of events holds", &ended.view.events.is_ok(), &true),
    ]
}

fn intended(seen: &Seen) -> bool {
    matches!(&seen.open, Some(Receipt { state: ReceiptState::Intent, .. }))
}
