//! A worker is killed after the change and before its reply; another finds the change and records it.

use std::time::Duration;

use domain::receipt::ReceiptState;
use domain::{Live, Receipt, RunKey, RunStatus};
use fakes::server::Fault;
use fakes::servicenow::INCIDENT;
use fakes::slack::Message;
use store::Ledger as _;

use crate::demo::card;
use crate::demo::narrator::Narrator;
use crate::demo::stage::{LEASE, Stage, WorkerProcess};
use crate::demo::verdict::{Check, check};
use crate::error::CliError;
use views::time::{distance, moment};
use views::{Seen, TryEnd, steps_table};

use super::answer::press;
use super::{ASSIGN, decided};

/// Longer than anything here takes: whoever waits for this reply is dead by then.
const HELD: Duration = Duration::from_mins(1);

pub(super) async fn approve_and_kill(
    stage: &Stage,
    narrator: &mut Narrator,
    (run, card): (&RunKey, &Message),
    worker: WorkerProcess,
) -> Result<Vec<Check>, CliError> {
    narrator.scene("grace presses Approve, and worker A is killed").await?;
    let servicenow = &stage.world.servicenow;
    servicenow.faults().on_write(Fault::Held(HELD));
    press(stage, card, "grace").await?;
    narrator.say("grace's yes counts. Worker A sends the change, and ServiceNow makes it ...")?;
    worker.see("a change in ServiceNow", || (servicenow.writes(INCIDENT) > 0).then_some(())).await?;
    worker.kill().await?;
    narrator.say(
        "... and before ServiceNow has answered: kill -9. The change has happened, and the only process that knew \
         about it is gone. On disk, at this moment:",
    )?;
    let seen = stage.look(run).await?;
    narrator.show(&gap(&seen))?;
    narrator.say(
        "Before it sent the request, worker A wrote down what it was about to do: the intent. An intent without a \
         result means: somebody may have acted. Without that record, whoever comes next could only guess.",
    )?;
    let intended = matches!(&seen.open, Some(Receipt { state: ReceiptState::Intent, .. }));
    Ok(vec![
        check("when worker A was killed, its intent was on disk, and no result", &intended, &true),
        check("at that moment, the change had been made", &servicenow.writes(INCIDENT), &1),
    ])
}

fn gap(seen: &Seen) -> String {
    let (Some(receipt), Live::Running(lease)) = (&seen.open, &seen.view.record.live) else {
        return steps_table(seen);
    };
    format!(
        "intent   {} on {}\nwritten  {}\naction   {}, which is what grace said yes to\nresult   none\n\
         lease    {} holds the step until {} ({})",
        receipt.tool,
        receipt.target,
        moment(receipt.intended_at),
        receipt.action.short(),
        lease.owner,
        moment(lease.until),
        distance(lease.until, seen.now),
    )
}

pub(super) async fn take_over(
    stage: &Stage,
    narrator: &mut Narrator,
    (run, card): (&RunKey, &Message),
    worker: &WorkerProcess,
) -> Result<Vec<Check>, CliError> {
    narrator.scene("Worker B takes over").await?;
    narrator.say(&format!(
        "Worker B is process {}, on the same file. A worker holds a step for {LEASE} at a time (its lease) and \
         extends that while it lives; worker A no longer does. When its lease has run out, worker B takes the step, \
         finds the intent, and looks before it writes.",
        worker.process()
    ))?;
    stage.until(run, worker, |record| record.status.is_terminal()).await?;
    let seen = stage.look(run).await?;
    narrator.show(&steps_table(&seen))?;
    let receipt = receipt(stage, &seen).await?;
    let how = receipt.as_ref().map_or("nothing", how);
    let writes = stage.world.servicenow.writes(INCIDENT);
    narrator.say(&format!(
        "The run has {}. On the receipt of step 3, worker B wrote: \"{how}\". ServiceNow has counted how often this \
         incident was changed: {}.",
        seen.view.record.status,
        times(writes),
    ))?;
    let card = decided(stage, card, worker).await?;
    narrator.say("The card in Slack has no buttons any more; it says who decided:")?;
    narrator.show(&outcome(&card))?;
    let named = outcome(&card).contains("grace approved");
    let action = receipt.map(|receipt| receipt.action);
    let approved = seen.asked().filter(|approval| approval.consumed.is_some());
    let approved = approved.map(|approval| approval.subject.hash());
    let ends: Vec<TryEnd> = seen.history().step(ASSIGN).tries.iter().map(|attempt| attempt.end).collect();
    Ok(vec![
        check("the run succeeded", &seen.view.record.status, &RunStatus::Succeeded),
        check("worker A fell silent, worker B finished", &ends, &vec![TryEnd::Silent, TryEnd::Done]),
        check("ServiceNow changed the incident once", &writes, &1),
        check("what was done is exactly what grace saw and approved", &action, &approved),
        check("the card says that grace approved it", &named, &true),
    ])
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// The receipt of the change.
async fn receipt(stage: &Stage, seen: &Seen) -> Result<Option<Receipt>, CliError> {
    let record = seen.view.steps.iter().find(|step| step.seq == ASSIGN);
    let Some(key) = record.and_then(|step| step.receipt.clone()) else { return Ok(None) };
    Ok(stage.engine.store().receipt(&seen.view.record.key.tenant, &key).await?)
}

/// How the change came about, as its receipt has it.
fn how(receipt: &Receipt) -> &str {
    match &receipt.state {
        ReceiptState::Done { response, .. } => response["how"].as_str().unwrap_or("done"),
        ReceiptState::Intent | ReceiptState::Failed { .. } => "nothing",
    }
}

/// The last lines of a card that was decided.
fn outcome(card: &Message) -> String {
    let text = card::text(card);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.iter().rposition(|line| line.starts_with("│ Approved.")).unwrap_or(0);
    lines[from..].iter().take_while(|line| **line != "│").flat_map(|line| [*line, "\n"]).collect()
}
