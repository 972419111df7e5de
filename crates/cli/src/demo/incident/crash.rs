//! A worker is killed between the change and its response; another worker finds the change and records it.

use std::time::Duration;

use domain::receipt::ReceiptState;
use domain::{Receipt, RunKey, RunStatus, StepState};
use fakes::server::FakeFault;
use fakes::servicenow::INCIDENT;
use fakes::slack::FakeMessage;
use store::Ledger as _;

use crate::demo::card;
use crate::demo::env::{DemoEnv, LEASE, WorkerProcess};
use crate::demo::narrator::Narrator;
use crate::demo::verdict::{Check, check};
use crate::error::CliError;
use views::time::{relative, timestamp};
use views::{AttemptStatus, RunSnapshot, steps_table};

use super::answer::press_approve;
use super::{ASSIGN, wait_for_decision};

/// Longer than the demo takes: the worker that waits for the response is dead by then.
const REPLY_DELAY: Duration = Duration::from_mins(1);

pub(super) async fn approve_and_kill(
    env: &DemoEnv,
    narrator: &mut Narrator,
    (run, card): (&RunKey, &FakeMessage),
    worker: WorkerProcess,
) -> Result<Vec<Check>, CliError> {
    narrator.section("grace approves, and worker A is killed").await?;
    let servicenow = &env.systems.servicenow;
    servicenow.faults().on_write(FakeFault::DelayedReply(REPLY_DELAY));
    press_approve(env, card, "grace").await?;
    narrator.paragraph("grace may approve. Worker A sends the change, and ServiceNow applies it.")?;
    worker.wait_for("a change in ServiceNow", || (servicenow.writes(INCIDENT) > 0).then_some(())).await?;
    worker.kill().await?;
    narrator.paragraph(
        "Before ServiceNow responds, worker A is killed with kill -9. The change is made, and no running process \
         knows it. The store contains:",
    )?;
    let snapshot = env.load(run).await?;
    narrator.block(&intent_text(&snapshot))?;
    narrator.paragraph(
        "Worker A recorded its intent before it sent the request. An intent without a result means that the effect \
         may have happened. The next worker must find out before it acts.",
    )?;
    let intended = matches!(&snapshot.open, Some(Receipt { state: ReceiptState::Intent, .. }));
    Ok(vec![
        check("after the kill, the store has an intent and no result", &intended, &true),
        check("after the kill, the change is in ServiceNow", &servicenow.writes(INCIDENT), &1),
    ])
}

fn intent_text(snapshot: &RunSnapshot) -> String {
    let (Some(receipt), StepState::Running(lease)) = (&snapshot.open, &snapshot.view.record.step_state)
    else {
        return steps_table(snapshot);
    };
    format!(
        "intent    {} on {}\nrecorded  {}\naction    {}, as approved by grace\nresult    none\n\
         lease     held by {} until {} ({})",
        receipt.tool,
        receipt.target,
        timestamp(receipt.intended_at),
        receipt.action.short(),
        lease.owner,
        timestamp(lease.until),
        relative(lease.until, snapshot.now),
    )
}

pub(super) async fn take_over(
    env: &DemoEnv,
    narrator: &mut Narrator,
    (run, card): (&RunKey, &FakeMessage),
    worker: &WorkerProcess,
) -> Result<Vec<Check>, CliError> {
    narrator.section("Worker B takes over").await?;
    narrator.paragraph(&format!(
        "Worker B (process {}) uses the same store. A worker leases a step for {LEASE} and renews the lease while it \
         runs. The lease of worker A expires. Worker B takes over the step, finds the intent, and reads the incident \
         before it writes.",
        worker.pid()
    ))?;
    env.wait_until(run, worker, |record| record.status.is_terminal()).await?;
    let snapshot = env.load(run).await?;
    narrator.block(&steps_table(&snapshot))?;
    let receipt = receipt(env, &snapshot).await?;
    let how = receipt.as_ref().map_or("nothing", result_text);
    let writes = env.systems.servicenow.writes(INCIDENT);
    narrator.paragraph(&format!(
        "The run has {}. Worker B recorded on the receipt of step 3: \"{how}\". Number of writes that ServiceNow \
         counted for this incident: {}.",
        snapshot.view.record.status,
        writes,
    ))?;
    let card = wait_for_decision(env, card, worker).await?;
    narrator.paragraph("The Slack card now shows the decision instead of the buttons:")?;
    narrator.block(&outcome(&card))?;
    let named = outcome(&card).contains("grace approved");
    let action = receipt.map(|receipt| receipt.action);
    let approved = snapshot.approval().filter(|approval| approval.consumed.is_some());
    let approved = approved.map(|approval| approval.subject.hash());
    let ends: Vec<AttemptStatus> =
        snapshot.history().step(ASSIGN).attempts.iter().map(|attempt| attempt.status).collect();
    Ok(vec![
        check("the run succeeds", &snapshot.view.record.status, &RunStatus::Succeeded),
        check(
            "worker A loses its lease and worker B finishes the step",
            &ends,
            &vec![AttemptStatus::LeaseExpired, AttemptStatus::Succeeded],
        ),
        check("ServiceNow applies the change exactly once", &writes, &1),
        check("the executed action is the one that grace approved", &action, &approved),
        check("the card names grace as the approver", &named, &true),
    ])
}

/// The receipt of the change.
async fn receipt(env: &DemoEnv, snapshot: &RunSnapshot) -> Result<Option<Receipt>, CliError> {
    let record = snapshot.view.steps.iter().find(|step| step.seq == ASSIGN);
    let Some(key) = record.and_then(|step| step.receipt.clone()) else { return Ok(None) };
    Ok(env.engine.store().receipt(&snapshot.view.record.key.tenant, &key).await?)
}

/// How the change was made, according to its receipt.
fn result_text(receipt: &Receipt) -> &str {
    match &receipt.state {
        ReceiptState::Done { response, .. } => response["how"].as_str().unwrap_or("done"),
        ReceiptState::Intent | ReceiptState::Failed { .. } => "nothing",
    }
}

/// The decision on a card.
fn outcome(card: &FakeMessage) -> String {
    let text = card::text(card);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.iter().rposition(|line| line.starts_with("│ Approved.")).unwrap_or(0);
    lines[from..].iter().take_while(|line| **line != "│").flat_map(|line| [*line, "\n"]).collect()
}
