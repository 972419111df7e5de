//! Compares receipts with the chain: every effect has a verdict and a receipt.

use std::collections::BTreeMap;

use domain::event::{Attempt, ReceiptRef};
use domain::payload::Fingerprint;
use domain::record::Effects;
use domain::{Event, EventBody, IdempotencyKey, Ruling};

use crate::bundle::{EvidenceBundle, ReceiptStatus, ReceiptSummary};
use crate::error::VerifyError;

/// The events of a run, by effect.
#[derive(Default)]
struct EffectEvents<'a> {
    /// The last intent of each effect.
    intents: BTreeMap<&'a IdempotencyKey, &'a Event>,
    /// The events that end a step with an effect.
    ends: Vec<StepEnd<'a>>,
    /// Every effect in the chain, with the required owner of its receipt.
    owners: BTreeMap<&'a IdempotencyKey, ReceiptOwner>,
}

/// The end of a step, or of its rollback, with an effect.
struct StepEnd<'a> {
    event: &'a Event,
    receipt: &'a ReceiptRef,
    /// Absent if an earlier receipt was reused.
    attempt: Option<&'a Attempt>,
    output: &'a Fingerprint,
}

/// The effect that an event refers to. A denied action has no effect.
fn effect_key(body: &EventBody) -> Option<&IdempotencyKey> {
    match body {
        EventBody::EffectIntended { receipt, .. } | EventBody::OutcomeUnknown { receipt, .. } => {
            Some(&receipt.key)
        }
        EventBody::StepSucceeded { receipt, .. } | EventBody::StepRolledBack { receipt, .. } => {
            receipt.as_ref().map(|receipt| &receipt.key)
        }
        _ => None,
    }
}

/// The run whose receipt of an effect belongs in the bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiptOwner {
    /// This run: it intended the effect and must account for it.
    ThisRun,
    /// Any run: this run found the effect done, or left open by another run.
    AnyRun,
}

/// The required owner of the receipt of each effect in `events`.
pub(crate) fn receipt_owners(events: &[Event]) -> BTreeMap<&IdempotencyKey, ReceiptOwner> {
    let mut owners = BTreeMap::new();
    for event in events {
        let Some(key) = effect_key(&event.body) else { continue };
        match &event.body {
            EventBody::EffectIntended { .. } => drop(owners.insert(key, ReceiptOwner::ThisRun)),
            // Another run performed the effect in the meantime.
            EventBody::StepSucceeded { attempt: None, .. }
            | EventBody::StepRolledBack { attempt: None, .. } => {
                owners.insert(key, ReceiptOwner::AnyRun);
            }
            _ => drop(owners.entry(key).or_insert(ReceiptOwner::AnyRun)),
        }
    }
    owners
}

pub(super) fn check(bundle: &EvidenceBundle, events: &[Event]) -> Result<(), VerifyError> {
    super::check_ascending("receipts", bundle.receipts.iter().map(|receipt| &receipt.key))?;
    check_reads(events)?;
    let effects = EffectEvents::new(events, bundle)?;
    for end in &effects.ends {
        check_end(end, bundle)?;
    }
    for receipt in &bundle.receipts {
        check_receipt(receipt, events, &effects, bundle)?;
    }
    check_counts(bundle, events, &effects)
}

/// Policy allowed every read that the chain records.
fn check_reads(events: &[Event]) -> Result<(), VerifyError> {
    let is_denied =
        |event: &&Event| event.read_verdict.as_ref().is_some_and(|verdict| verdict.ruling != Ruling::Allow);
    match events.iter().find(is_denied) {
        Some(event) => Err(VerifyError::Denied { n: event.n }),
        None => Ok(()),
    }
}

impl<'a> EffectEvents<'a> {
    fn new(events: &'a [Event], bundle: &EvidenceBundle) -> Result<Self, VerifyError> {
        let mut effects = Self { owners: receipt_owners(events), ..Self::default() };
        for event in events {
            effects.add(event, bundle)?;
        }
        Ok(effects)
    }

    fn add(&mut self, event: &'a Event, bundle: &EvidenceBundle) -> Result<(), VerifyError> {
        let Some(key) = effect_key(&event.body) else { return Ok(()) };
        match &event.body {
            EventBody::EffectIntended { .. } => drop(self.intents.insert(key, event)),
            EventBody::StepSucceeded { receipt: Some(receipt), attempt, output, .. }
            | EventBody::StepRolledBack { receipt: Some(receipt), attempt, output, .. } => {
                self.add_end(StepEnd { event, receipt, attempt: attempt.as_ref(), output })?;
            }
            _ => {}
        }
        if bundle.receipt(key).is_none() {
            return Err(VerifyError::ReceiptMissing { n: event.n, key: key.clone() });
        }
        Ok(())
    }

    /// An attempt must have intended exactly this action before.
    fn add_end(&mut self, end: StepEnd<'a>) -> Result<(), VerifyError> {
        let intended = self.intents.get(&end.receipt.key).is_some_and(|intent| match &intent.body {
            EventBody::EffectIntended { receipt, .. } => *receipt == *end.receipt,
            _ => false,
        });
        if end.attempt.is_some() && !intended {
            let key = end.receipt.key.clone();
            return Err(VerifyError::NotItsEffect { n: end.event.n, key });
        }
        self.ends.push(end);
        Ok(())
    }
}

/// The effect at the end of a step has happened, and belongs to the step unless an earlier receipt was reused.
fn check_end(end: &StepEnd<'_>, bundle: &EvidenceBundle) -> Result<(), VerifyError> {
    let StepEnd { event, receipt: ReceiptRef { key, action }, attempt, output } = end;
    let missing = || VerifyError::ReceiptMissing { n: event.n, key: key.clone() };
    let receipt = bundle.receipt(key).ok_or_else(missing)?;
    let own = receipt.is_for_step(&bundle.run.run, event.seq, event.rollback);
    let ReceiptStatus::Done { at, result, .. } = &receipt.state else {
        return Err(VerifyError::NotItsEffect { n: event.n, key: key.clone() });
    };
    if attempt.is_some() && !own {
        return Err(VerifyError::NotItsEffect { n: event.n, key: key.clone() });
    }
    let conditions = [
        ("action", receipt.action == *action),
        ("result", result == *output),
        ("completion time", attempt.is_none() || *at == event.at),
        ("fence", attempt.is_none_or(|attempt| attempt.fence == receipt.fence)),
    ];
    super::check_all(&conditions, |what| VerifyError::Receipt { what, key: key.clone() })
}

fn check_receipt(
    receipt: &ReceiptSummary,
    events: &[Event],
    effects: &EffectEvents<'_>,
    bundle: &EvidenceBundle,
) -> Result<(), VerifyError> {
    let key = &receipt.key;
    if receipt.tenant != bundle.run.tenant {
        return Err(VerifyError::Receipt { what: "tenant", key: key.clone() });
    }
    // The bundle of another run accounts for its effects. This run must refer to the receipt, and must not have intended
    // the effect itself.
    if receipt.run != bundle.run.run {
        return match effects.owners.get(key) {
            Some(ReceiptOwner::AnyRun) => Ok(()),
            Some(ReceiptOwner::ThisRun) => Err(VerifyError::NotOwnReceipt { key: key.clone() }),
            None => Err(VerifyError::StrayReceipt { key: key.clone() }),
        };
    }
    let intent =
        effects.intents.get(key).ok_or_else(|| VerifyError::ReceiptWithoutVerdict { key: key.clone() })?;
    check_intent(receipt, intent, bundle)?;
    let ended = effects.ends.iter().any(|end| end.receipt.key == *key);
    let fits = match &receipt.state {
        ReceiptStatus::Done { .. } => ended,
        ReceiptStatus::Intent => !ended,
        // The failure also changed the run, so there is an event at that time.
        ReceiptStatus::Failed { at, .. } => {
            !ended && events.iter().any(|event| event.n > intent.n && event.at == *at)
        }
    };
    if fits { Ok(()) } else { Err(VerifyError::Receipt { what: "state", key: key.clone() }) }
}

/// Compares a receipt with the event that intended it.
fn check_intent(receipt: &ReceiptSummary, event: &Event, bundle: &EvidenceBundle) -> Result<(), VerifyError> {
    let key = &receipt.key;
    let EventBody::EffectIntended { receipt: intent, tool, class, target, verdict, approval, fence } =
        &event.body
    else {
        return Err(VerifyError::ReceiptWithoutVerdict { key: key.clone() });
    };
    let step = bundle.step(event.seq);
    // A rollback may use another tool than the step.
    let planned = step.and_then(|step| step.tool.as_ref());
    let conditions = [
        ("verdict", receipt.verdict == verdict.hash()),
        ("approval", receipt.approval == *approval),
        ("action", receipt.action == intent.action),
        (
            "step",
            step.map(|step| &step.id) == Some(&receipt.step)
                && receipt.is_for_step(&bundle.run.run, event.seq, event.rollback),
        ),
        ("tool", receipt.tool == *tool && (event.rollback || planned == Some(tool))),
        ("class", receipt.class == *class),
        ("target", receipt.target == *target),
        // A take-over continues under a larger fence.
        ("fence", receipt.fence >= *fence),
        ("intent time", receipt.intended_at == event.at),
    ];
    super::check_all(&conditions, |what| VerifyError::Receipt { what, key: key.clone() })
}

/// Compares the effect counts of the run with its receipts.
fn check_counts(
    bundle: &EvidenceBundle,
    events: &[Event],
    effects: &EffectEvents<'_>,
) -> Result<(), VerifyError> {
    let own = |end: &&StepEnd<'_>| {
        let receipt = bundle.receipt(&end.receipt.key);
        receipt.is_some_and(|receipt| receipt.is_for_step(&bundle.run.run, end.event.seq, end.event.rollback))
    };
    let count = |rollback: bool| {
        let ended = effects.ends.iter().filter(|end| end.event.rollback == rollback);
        u32::try_from(ended.filter(own).count()).unwrap_or(u32::MAX)
    };
    let open =
        |receipt: &&ReceiptSummary| receipt.run == bundle.run.run && receipt.state == ReceiptStatus::Intent;
    let open = u32::try_from(bundle.receipts.iter().filter(open).count()).unwrap_or(u32::MAX);
    let Effects { done, undone, unknown } = bundle.run.effects;
    let recorded = events.last().and_then(|event| match &event.body {
        EventBody::RunCanceled { effects, .. } | EventBody::RunFailed { effects, .. } => Some(*effects),
        _ => None,
    });
    // Every open intent counts as unknown, also in a canceled run.
    let counts = done == count(false) && undone == count(true) && unknown >= open;
    let holds = counts && recorded.is_none_or(|effects| effects == bundle.run.effects);
    if holds { Ok(()) } else { Err(VerifyError::Run { what: "number of effects" }) }
}
