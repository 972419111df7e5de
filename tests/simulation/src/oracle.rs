//! The oracle: it has watched the world outside, and holds the ledger against it.

use std::collections::BTreeMap;

use domain::plan::{Plan, PlannedStep, Work};
use domain::receipt::ReceiptState;
use domain::{
    ApprovalId, ApprovalStatus, EffectClass, IdempotencyKey, Live, Receipt, RunKey, RunRecord, RunStatus,
    StepRecord, StepSeq, StepStatus, chain, view,
};
use evidence::PublicKey;
use store::{
    Archive as _, BlobKind, Blobs as _, Governance as _, Ledger as _, Queue as _, RunQuery, SqliteStore,
};

use crate::flow::{Flow, Script};
use crate::world::TOOLS;

/// How a scenario ended.
pub(crate) struct Ending<'s> {
    pub(crate) flow: &'static Flow,
    /// Whether nothing went wrong; then the flow must end as it says.
    pub(crate) faultless: bool,
    pub(crate) record: RunRecord,
    pub(crate) plan: &'s Plan,
    pub(crate) store: &'s SqliteStore,
    pub(crate) effects: BTreeMap<IdempotencyKey, u32>,
    /// How each request for approval was last shown to people.
    pub(crate) cards: BTreeMap<ApprovalId, ApprovalStatus>,
    /// What evidence is verified with.
    pub(crate) key: PublicKey,
    /// Whether it is. What is built is held to the same rules as what is verified, so where faults are
    /// tried in pairs, by the hundred thousand, it is enough that the evidence is there.
    pub(crate) verifies: bool,
}

/// An effect of a step, or of its undoing, as the ledger and the world have it.
struct Accounted<'e> {
    step: &'e PlannedStep,
    record: Option<&'e StepRecord>,
    receipt: Option<Receipt>,
    happened: u32,
    key: IdempotencyKey,
}

/// Everything that is not as it must be.
pub(crate) async fn judge(ending: &Ending<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    let steps = ending.store.steps(&ending.record.key).await.unwrap_or_default();
    broken.extend(wrong_end(ending));
    broken.extend(wrong_statuses(ending, &steps));
    broken.extend(broken_chain(ending).await);
    broken.extend(dead_letters(ending).await);
    broken.extend(unproved(ending).await);
    broken.extend(unseen(ending).await);
    for undo in [false, true] {
        for index in 0..ending.record.steps {
            if let Some(effect) = account(ending, &steps, StepSeq(index), undo).await {
                broken.extend(wrong_effect(ending, &effect, undo));
            }
        }
    }
    broken
}

fn wrong_end(ending: &Ending<'_>) -> Option<String> {
    let (flow, status) = (ending.flow, ending.record.status);
    let expected = flow.ends.contains(&status) || (!ending.faultless && flow.may_end.contains(&status));
    let live = &ending.record.live;
    (!expected).then(|| format!("the run ended {status}, which this flow may not: {live:?}"))
}

fn wrong_statuses(ending: &Ending<'_>, steps: &[StepRecord]) -> Vec<String> {
    let mut broken = Vec::new();
    let record = &ending.record;
    let statuses: Vec<StepStatus> =
        (0..record.steps).map(|seq| view::step_status(record, steps, StepSeq(seq))).collect();
    let all_succeeded = statuses.iter().all(|status| *status == StepStatus::Succeeded);
    if (record.status == RunStatus::Succeeded) != all_succeeded {
        broken.push(format!("the run is {} and its steps are {statuses:?}", record.status));
    }
    if record.completed_at.is_some() != record.status.is_terminal() {
        broken.push("completed_at does not say whether the run is over".to_owned());
    }
    if record.due_at.is_some() {
        broken.push("a run at rest is still due".to_owned());
    }
    broken
}

async fn broken_chain(ending: &Ending<'_>) -> Option<String> {
    let record = &ending.record;
    let entries = match ending.store.events(&record.key, 0, u32::MAX).await {
        Ok(entries) => entries,
        Err(error) => return Some(error.to_string()),
    };
    chain::verify(&record.key, &entries, record.events, &record.head).err().map(|fault| fault.to_string())
}

/// Every run that is over has evidence, which anybody with the public key can verify.
async fn unproved(ending: &Ending<'_>) -> Vec<String> {
    let tenant = &ending.record.key.tenant;
    let runs =
        ending.store.runs(tenant, RunQuery::newest(10)).await.map(|page| page.runs).unwrap_or_default();
    let mut broken = Vec::new();
    for run in runs.iter().filter(|run| run.status.is_terminal()) {
        broken.extend(no_proof(ending, &run.key).await);
    }
    let undone = runs.iter().filter(|run| run.status == RunStatus::Succeeded).count();
    if ending.flow.script == Script::UndoWhenOver && undone != 2 {
        broken.push(format!("{undone} runs succeeded; the run and its undoing should have"));
    }
    broken
}

async fn no_proof(ending: &Ending<'_>, run: &RunKey) -> Option<String> {
    let Ok(Some(found)) = ending.store.evidence(run).await else {
        return Some(format!("run {run} is over and has no evidence"));
    };
    let Ok(Some(bytes)) = ending.store.blob(BlobKind::Evidence, &run.tenant, &found.bundle).await else {
        return Some(format!("the evidence of run {run} is not where the ledger says"));
    };
    if !ending.verifies {
        return None;
    }
    let fault = evidence::verify(&bytes, &ending.key).err()?;
    Some(format!("the evidence of run {run} does not verify: {fault}"))
}

/// People have been shown how every request for approval ended.
async fn unseen(ending: &Ending<'_>) -> Vec<String> {
    let asked = ending.store.approvals(&ending.record.key).await.unwrap_or_default();
    let unseen = asked.iter().filter(|approval| ending.cards.get(&approval.id) != Some(&approval.status));
    unseen
        .map(|approval| {
            let seen = ending.cards.get(&approval.id);
            format!("approval {} is {:?}, and people see {seen:?}", approval.id, approval.status)
        })
        .collect()
}

async fn dead_letters(ending: &Ending<'_>) -> Option<String> {
    let dead = ending.store.dead_letters(10).await.unwrap_or_default();
    (!dead.is_empty()).then(|| format!("{} messages were given up", dead.len()))
}

async fn account<'e>(
    ending: &'e Ending<'_>,
    steps: &'e [StepRecord],
    seq: StepSeq,
    undo: bool,
) -> Option<Accounted<'e>> {
    let step = ending.plan.step(seq)?;
    let tool = match (undo, &step.work, &step.rollback) {
        (false, Work::Call(call), _) | (true, _, Some(domain::plan::Undo::Call(call))) => &call.tool,
        _ => return None,
    };
    let key = IdempotencyKey::for_step(tool, &ending.record.key.run, &step.id);
    let key = if undo { key.undo() } else { key };
    let class = TOOLS.iter().find(|(name, ..)| *name == tool.as_str()).map(|(_, class, _)| *class)?;
    if class == EffectClass::ReadOnly {
        return None;
    }
    Some(Accounted {
        step,
        record: steps.iter().find(|record| record.seq == seq && record.undo == undo),
        receipt: ending.store.receipt(&ending.record.key.tenant, &key).await.ok().flatten(),
        happened: ending.effects.get(&key).copied().unwrap_or(0),
        key,
    })
}

fn wrong_effect(ending: &Ending<'_>, effect: &Accounted<'_>, undo: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let Accounted { step, record, receipt, happened, key } = effect;
    let name = format!("{}{}", step.id, if undo { " (undo)" } else { "" });
    // A person who says to try again after seeing the evidence may cause a second effect; nobody else may.
    let allowed = if ending.flow.script == Script::RetryWhenPaused { 1 + ending.record.resumes } else { 1 };
    if *happened > allowed {
        broken.push(format!("the effect of {name} happened {happened} times ({key})"));
    }
    let done = matches!(receipt.as_ref().map(|r| &r.state), Some(ReceiptState::Done { .. }));
    let open = matches!(receipt.as_ref().map(|r| &r.state), Some(ReceiptState::Intent));
    let ended = record.is_some_and(|record| {
        record.status == if undo { StepStatus::RolledBack } else { StepStatus::Succeeded }
    });
    if done && *happened == 0 {
        broken.push(format!("{name} has a receipt for an effect that never happened"));
    }
    if done != ended {
        broken.push(format!("{name}: receipt done = {done}, step ended = {ended}"));
    }
    if *happened > 0 && !done && !open {
        broken.push(format!("the effect of {name} happened and no receipt tells of it"));
    }
    if open && ending.record.status.is_terminal() && ending.record.effects.unknown == 0 {
        broken.push(format!("the run is over and the outcome of {name} was never settled"));
    }
    if open
        && ending.record.status == RunStatus::Paused
        && !matches!(ending.record.live, Live::Unresolved { .. })
    {
        broken.push(format!("the run is paused without saying that the outcome of {name} is unknown"));
    }
    // A run that was stopped while it acted takes back what it did, if the workflow says how.
    let stopped = ending.record.status == RunStatus::Canceled && !undo && done && step.rollback.is_some();
    if stopped && ending.record.rollback.is_none() {
        broken.push(format!("the run was stopped, and the effect of {name} was left behind"));
    }
    broken
}
