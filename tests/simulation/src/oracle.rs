//! The oracle compares the ledger with the effects in the fake service.

use std::collections::BTreeMap;

use domain::plan::{Plan, PlannedStep, Work};
use domain::receipt::ReceiptState;
use domain::{
    ApprovalId, ApprovalStatus, EffectClass, IdempotencyKey, Receipt, RunKey, RunRecord, RunStatus,
    StepRecord, StepSeq, StepState, StepStatus, chain, view,
};
use evidence::PublicKey;
use store::{Archive as _, Blobs as _, Governance as _, Ledger as _, Queue as _, RunQuery, SqliteStore};

use crate::flow::{Flow, Script};
use crate::service::TOOLS;

/// The state at the end of a scenario.
pub(crate) struct FinalState<'s> {
    pub(crate) flow: &'static Flow,
    /// Whether the scenario had no faults and no clock skew; then the flow must end in one of its `final_statuses`.
    pub(crate) faultless: bool,
    pub(crate) record: RunRecord,
    pub(crate) plan: &'s Plan,
    pub(crate) store: &'s SqliteStore,
    pub(crate) effects: BTreeMap<IdempotencyKey, u32>,
    /// The status on the last card posted for each approval.
    pub(crate) cards: BTreeMap<ApprovalId, ApprovalStatus>,
    pub(crate) key: PublicKey,
    /// Whether to verify the evidence bundle. Scenarios with a pair of faults, of which there are hundreds of
    /// thousands, only check that the bundle exists.
    pub(crate) verify_evidence: bool,
}

/// An effect of a step, or of its rollback, in the ledger and in the fake service.
struct EffectAccount<'e> {
    step: &'e PlannedStep,
    record: Option<&'e StepRecord>,
    receipt: Option<Receipt>,
    happened: u32,
    key: IdempotencyKey,
}

/// Returns every invariant that does not hold.
pub(crate) async fn check(final_state: &FinalState<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    let steps = final_state.store.steps(&final_state.record.key).await.unwrap_or_default();
    broken.extend(wrong_final_status(final_state));
    broken.extend(wrong_statuses(final_state, &steps));
    broken.extend(broken_chain(final_state).await);
    broken.extend(dead_letters(final_state).await);
    broken.extend(missing_evidence(final_state).await);
    broken.extend(stale_cards(final_state).await);
    for rollback in [false, true] {
        for index in 0..final_state.record.steps {
            if let Some(effect) = effect_account(final_state, &steps, StepSeq(index), rollback).await {
                broken.extend(wrong_effect(final_state, &effect, rollback));
            }
        }
    }
    broken
}

fn wrong_final_status(final_state: &FinalState<'_>) -> Option<String> {
    let (flow, status) = (final_state.flow, final_state.record.status);
    let expected = flow.final_statuses.contains(&status)
        || (!final_state.faultless && flow.final_statuses_with_faults.contains(&status));
    let step_state = &final_state.record.step_state;
    (!expected).then(|| format!("the run ended {status}, which this flow does not allow: {step_state:?}"))
}

fn wrong_statuses(final_state: &FinalState<'_>, steps: &[StepRecord]) -> Vec<String> {
    let mut broken = Vec::new();
    let record = &final_state.record;
    let statuses: Vec<StepStatus> =
        (0..record.steps).map(|seq| view::step_status(record, steps, StepSeq(seq))).collect();
    let all_succeeded = statuses.iter().all(|status| *status == StepStatus::Succeeded);
    if (record.status == RunStatus::Succeeded) != all_succeeded {
        broken.push(format!("the run is {} but its steps are {statuses:?}", record.status));
    }
    if record.completed_at.is_some() != record.status.is_terminal() {
        broken.push("completed_at does not match whether the run is terminal".to_owned());
    }
    if record.due_at.is_some() {
        broken.push("an idle run is still in the due index".to_owned());
    }
    broken
}

async fn broken_chain(final_state: &FinalState<'_>) -> Option<String> {
    let record = &final_state.record;
    let entries = match final_state.store.events(&record.key, 0, u32::MAX).await {
        Ok(entries) => entries,
        Err(error) => return Some(error.to_string()),
    };
    chain::verify(&record.key, &entries, record.events, &record.head).err().map(|fault| fault.to_string())
}

/// Every terminal run has evidence that the public key verifies.
async fn missing_evidence(final_state: &FinalState<'_>) -> Vec<String> {
    let tenant = &final_state.record.key.tenant;
    let runs =
        final_state.store.runs(tenant, RunQuery::newest(10)).await.map(|page| page.runs).unwrap_or_default();
    let mut broken = Vec::new();
    for run in runs.iter().filter(|run| run.status.is_terminal()) {
        broken.extend(evidence_fault(final_state, &run.key).await);
    }
    let succeeded = runs.iter().filter(|run| run.status == RunStatus::Succeeded).count();
    if final_state.flow.script == Script::UndoWhenFinished && succeeded != 2 {
        broken.push(format!("{succeeded} runs succeeded; expected 2: the run and its undo"));
    }
    broken
}

async fn evidence_fault(final_state: &FinalState<'_>, run: &RunKey) -> Option<String> {
    let Ok(Some(found)) = final_state.store.evidence(run).await else {
        return Some(format!("run {run} is terminal and has no evidence"));
    };
    let Ok(Some(bytes)) = final_state.store.bundle(&run.tenant, &found.name).await else {
        return Some(format!("the evidence bundle of run {run} is missing"));
    };
    if !final_state.verify_evidence {
        return None;
    }
    let fault = evidence::verify(&bytes, &final_state.key).err()?;
    Some(format!("the evidence of run {run} does not verify: {fault}"))
}

/// The last card of every approval shows its final status.
async fn stale_cards(final_state: &FinalState<'_>) -> Vec<String> {
    let approvals = final_state.store.approvals(&final_state.record.key).await.unwrap_or_default();
    let stale_cards =
        approvals.iter().filter(|approval| final_state.cards.get(&approval.id) != Some(&approval.status));
    stale_cards
        .map(|approval| {
            let card_status = final_state.cards.get(&approval.id);
            format!("approval {} is {:?} but its card shows {card_status:?}", approval.id, approval.status)
        })
        .collect()
}

async fn dead_letters(final_state: &FinalState<'_>) -> Option<String> {
    let dead = final_state.store.dead_letters(10).await.unwrap_or_default();
    (!dead.is_empty()).then(|| format!("{} dead-letter messages", dead.len()))
}

async fn effect_account<'e>(
    final_state: &'e FinalState<'_>,
    steps: &'e [StepRecord],
    seq: StepSeq,
    rollback: bool,
) -> Option<EffectAccount<'e>> {
    let step = final_state.plan.step(seq)?;
    let tool = match (rollback, &step.work, &step.rollback) {
        (false, Work::Call(call), _) | (true, _, Some(domain::plan::Undo::Call(call))) => &call.tool,
        _ => return None,
    };
    let key = IdempotencyKey::for_step(tool, &final_state.record.key.run, &step.id);
    let key = if rollback { key.reverse() } else { key };
    let class = TOOLS.iter().find(|(name, ..)| *name == tool.as_str()).map(|(_, class, _)| *class)?;
    if class == EffectClass::ReadOnly {
        return None;
    }
    Some(EffectAccount {
        step,
        record: steps.iter().find(|record| record.seq == seq && record.rollback == rollback),
        receipt: final_state.store.receipt(&final_state.record.key.tenant, &key).await.ok().flatten(),
        happened: final_state.effects.get(&key).copied().unwrap_or(0),
        key,
    })
}

fn wrong_effect(final_state: &FinalState<'_>, effect: &EffectAccount<'_>, rollback: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let EffectAccount { step, record, receipt, happened, key } = effect;
    let name = format!("{}{}", step.id, if rollback { " (rollback)" } else { "" });
    // Only a person who resumes an opaque step after seeing the evidence may cause a second effect.
    let allowed =
        if final_state.flow.script == Script::RetryWhenPaused { 1 + final_state.record.resumes } else { 1 };
    if *happened > allowed {
        broken.push(format!("the effect of {name} happened {happened} times ({key})"));
    }
    let done = matches!(receipt.as_ref().map(|r| &r.state), Some(ReceiptState::Done { .. }));
    let open = matches!(receipt.as_ref().map(|r| &r.state), Some(ReceiptState::Intent));
    let ended = record.is_some_and(|record| {
        record.status == if rollback { StepStatus::RolledBack } else { StepStatus::Succeeded }
    });
    if done && *happened == 0 {
        broken.push(format!("{name} has a receipt for an effect that never happened"));
    }
    if done != ended {
        broken.push(format!("{name}: receipt done = {done}, step ended = {ended}"));
    }
    if *happened > 0 && !done && !open {
        broken.push(format!("the effect of {name} happened but has no receipt"));
    }
    if open && final_state.record.status.is_terminal() && final_state.record.effects.unknown == 0 {
        broken.push(format!("the run is terminal but the outcome of {name} was never resolved"));
    }
    if open
        && final_state.record.status == RunStatus::Paused
        && !matches!(final_state.record.step_state, StepState::Unresolved { .. })
    {
        broken.push(format!("the run is paused but does not report the unknown outcome of {name}"));
    }
    // A run that is canceled during an action rolls the effect back if the workflow has a rollback for it.
    let stopped =
        final_state.record.status == RunStatus::Canceled && !rollback && done && step.rollback.is_some();
    if stopped && final_state.record.rollback.is_none() {
        broken.push(format!("the run was canceled but the effect of {name} was not rolled back"));
    }
    broken
}
