//! The receipts, held against the chain: nothing outside was changed without a verdict, and everything
//! that was has a receipt.

use std::collections::BTreeMap;

use domain::event::{Attempt, ReceiptRef};
use domain::payload::Fingerprint;
use domain::record::Effects;
use domain::{Event, EventBody, IdempotencyKey};

use crate::bundle::{Bundle, ReceiptSummary, State};
use crate::fault::Fault;

/// The events of a run by the effects they speak of.
#[derive(Default)]
struct Told<'a> {
    /// The newest intent of each effect.
    intents: BTreeMap<&'a IdempotencyKey, &'a Event>,
    /// The ends of steps with an effect.
    endings: Vec<Ending<'a>>,
    /// Every effect that an event speaks of, and whose receipt of it there must be.
    named: BTreeMap<&'a IdempotencyKey, Whose>,
}

/// A step, or its undoing, ended with an effect.
struct Ending<'a> {
    event: &'a Event,
    receipt: &'a ReceiptRef,
    /// Absent when an earlier receipt was reused.
    attempt: Option<&'a Attempt>,
    output: &'a Fingerprint,
}

/// The effect whose receipt an event speaks of. One that policy denied has none.
pub(crate) fn named(body: &EventBody) -> Option<&IdempotencyKey> {
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

/// Whose receipt of an effect a run's bundle holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The run's own: it was about to act, and must account for that.
    Own,
    /// Whoever's stands there: the run found the effect done, or left open by somebody else.
    Anybodys,
}

/// Whose receipt belongs into the bundle of a run with these events, for each effect they speak of.
pub(crate) fn whose(events: &[Event]) -> BTreeMap<&IdempotencyKey, Whose> {
    let mut whose = BTreeMap::new();
    for event in events {
        let Some(key) = named(&event.body) else { continue };
        match &event.body {
            EventBody::EffectIntended { .. } => drop(whose.insert(key, Whose::Own)),
            // Found done after all, by somebody who had acted in the meantime.
            EventBody::StepSucceeded { attempt: None, .. }
            | EventBody::StepRolledBack { attempt: None, .. } => {
                whose.insert(key, Whose::Anybodys);
            }
            _ => drop(whose.entry(key).or_insert(Whose::Anybodys)),
        }
    }
    whose
}

/// Refuses receipts that the chain tells otherwise, or leaves out.
pub(super) fn check(bundle: &Bundle, events: &[Event]) -> Result<(), Fault> {
    super::ascending("receipts", bundle.receipts.iter().map(|receipt| &receipt.key))?;
    let told = Told::by(events, bundle)?;
    for ending in &told.endings {
        ended(ending, bundle)?;
    }
    for receipt in &bundle.receipts {
        described(receipt, events, &told, bundle)?;
    }
    counted(bundle, events, &told)
}

impl<'a> Told<'a> {
    fn by(events: &'a [Event], bundle: &Bundle) -> Result<Self, Fault> {
        let mut told = Self { named: whose(events), ..Self::default() };
        for event in events {
            told.hear(event, bundle)?;
        }
        Ok(told)
    }

    fn hear(&mut self, event: &'a Event, bundle: &Bundle) -> Result<(), Fault> {
        let Some(key) = named(&event.body) else { return Ok(()) };
        match &event.body {
            EventBody::EffectIntended { .. } => drop(self.intents.insert(key, event)),
            EventBody::StepSucceeded { receipt: Some(receipt), attempt, output, .. }
            | EventBody::StepRolledBack { receipt: Some(receipt), attempt, output, .. } => {
                self.end(Ending { event, receipt, attempt: attempt.as_ref(), output })?;
            }
            _ => {}
        }
        if bundle.receipt(key).is_none() {
            return Err(Fault::ReceiptMissing { n: event.n, key: key.clone() });
        }
        Ok(())
    }

    /// Whoever worked on the step intended its effect before, and that very action.
    fn end(&mut self, ending: Ending<'a>) -> Result<(), Fault> {
        let intended = self.intents.get(&ending.receipt.key).is_some_and(|intent| match &intent.body {
            EventBody::EffectIntended { receipt, .. } => *receipt == *ending.receipt,
            _ => false,
        });
        if ending.attempt.is_some() && !intended {
            let key = ending.receipt.key.clone();
            return Err(Fault::NotItsEffect { n: ending.event.n, key });
        }
        self.endings.push(ending);
        Ok(())
    }
}

/// An effect that a step ended with has happened, and is the step's own unless it was found done.
fn ended(ending: &Ending<'_>, bundle: &Bundle) -> Result<(), Fault> {
    let Ending { event, receipt: ReceiptRef { key, action }, attempt, output } = ending;
    let missing = || Fault::ReceiptMissing { n: event.n, key: key.clone() };
    let receipt = bundle.receipt(key).ok_or_else(missing)?;
    let own = receipt.is_of(&bundle.run.run, event.seq, event.undo);
    let State::Done { at, result, .. } = &receipt.state else {
        return Err(Fault::NotItsEffect { n: event.n, key: key.clone() });
    };
    if attempt.is_some() && !own {
        return Err(Fault::NotItsEffect { n: event.n, key: key.clone() });
    }
    let facts = [
        ("action", receipt.action == *action),
        ("result", result == *output),
        ("time of completion", attempt.is_none() || *at == event.at),
        ("fence", attempt.is_none_or(|attempt| attempt.fence == receipt.fence)),
    ];
    super::all(&facts, |what| Fault::Receipt { what, key: key.clone() })
}

fn described(
    receipt: &ReceiptSummary,
    events: &[Event],
    told: &Told<'_>,
    bundle: &Bundle,
) -> Result<(), Fault> {
    let key = &receipt.key;
    if receipt.tenant != bundle.run.tenant {
        return Err(Fault::Receipt { what: "tenant", key: key.clone() });
    }
    // Another run's effect is that run's to account for; this one must have had a reason to look at it, and
    // it does not stand for what this one was about to do.
    if receipt.run != bundle.run.run {
        return match told.named.get(key) {
            Some(Whose::Anybodys) => Ok(()),
            Some(Whose::Own) => Err(Fault::NotOwnReceipt { key: key.clone() }),
            None => Err(Fault::StrayReceipt { key: key.clone() }),
        };
    }
    let intent = told.intents.get(key).ok_or_else(|| Fault::ReceiptWithoutVerdict { key: key.clone() })?;
    intended(receipt, intent, bundle)?;
    let ended = told.endings.iter().any(|ending| ending.receipt.key == *key);
    let fits = match &receipt.state {
        State::Done { .. } => ended,
        State::Intent => !ended,
        // What closed it also moved the run, and so left an event.
        State::Failed { at, .. } => {
            !ended && events.iter().any(|event| event.n > intent.n && event.at == *at)
        }
    };
    if fits { Ok(()) } else { Err(Fault::Receipt { what: "state", key: key.clone() }) }
}

/// Refuses a receipt that differs from the event which allowed it.
fn intended(receipt: &ReceiptSummary, event: &Event, bundle: &Bundle) -> Result<(), Fault> {
    let key = &receipt.key;
    let EventBody::EffectIntended { receipt: intent, tool, class, target, verdict, approval, fence } =
        &event.body
    else {
        return Err(Fault::ReceiptWithoutVerdict { key: key.clone() });
    };
    let step = bundle.step(event.seq);
    // An undoing may be done by another tool than the step.
    let planned = step.and_then(|step| step.tool.as_ref());
    let facts = [
        ("verdict", receipt.verdict == verdict.hash()),
        ("approval", receipt.approval == *approval),
        ("action", receipt.action == intent.action),
        (
            "step",
            step.map(|step| &step.id) == Some(&receipt.step)
                && receipt.is_of(&bundle.run.run, event.seq, event.undo),
        ),
        ("tool", receipt.tool == *tool && (event.undo || planned == Some(tool))),
        ("class", receipt.class == *class),
        ("target", receipt.target == *target),
        // Whoever takes over goes on under a larger fence.
        ("fence", receipt.fence >= *fence),
        ("time of intent", receipt.intended_at == event.at),
    ];
    super::all(&facts, |what| Fault::Receipt { what, key: key.clone() })
}

/// Refuses counts that do not follow from the rest.
fn counted(bundle: &Bundle, events: &[Event], told: &Told<'_>) -> Result<(), Fault> {
    let own = |ending: &&Ending<'_>| {
        let receipt = bundle.receipt(&ending.receipt.key);
        receipt.is_some_and(|receipt| receipt.is_of(&bundle.run.run, ending.event.seq, ending.event.undo))
    };
    let count = |undo: bool| {
        let ended = told.endings.iter().filter(|ending| ending.event.undo == undo);
        u32::try_from(ended.filter(own).count()).unwrap_or(u32::MAX)
    };
    let open = |receipt: &&ReceiptSummary| receipt.run == bundle.run.run && receipt.state == State::Intent;
    let open = u32::try_from(bundle.receipts.iter().filter(open).count()).unwrap_or(u32::MAX);
    let Effects { done, undone, unknown } = bundle.run.effects;
    let said = events.last().and_then(|event| match &event.body {
        EventBody::RunCanceled { effects, .. } | EventBody::RunFailed { effects, .. } => Some(*effects),
        _ => None,
    });
    // An effect that nobody can account for is owned up to; `canceled` never hides one.
    let facts = done == count(false) && undone == count(true) && unknown >= open;
    let holds = facts && said.is_none_or(|said| said == bundle.run.effects);
    if holds { Ok(()) } else { Err(Fault::Run { what: "count of effects" }) }
}
