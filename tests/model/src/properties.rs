//! What must hold in every state, and what must be reached in some. The first kind is what the
//! protocol promises; the second shows that the promise was tested, because a world in which no
//! lease is ever taken over proves nothing about taking over.

use stateright::{Model, Property};

use crate::model::Protocol;
use crate::service;
use crate::state::{Decider, Decision, EFFECTS, Effect, Outcome, Receipt, Stage, State, Status, Visit};
use crate::world::Class;

/// An effect of a class that protects itself happens at most once.
pub(crate) const EFFECT_AT_MOST_ONCE: &str = "an effect happens at most once";
/// An effect of class none happens again only on a person's word.
pub(crate) const OPAQUE_AT_MOST_ONCE: &str = "an effect of class none happens again only if a person said so";
/// Success is never recorded for something that did not happen.
pub(crate) const SUCCESS_IS_REAL: &str = "a succeeded step had its effect, once or as often as a person said";
/// The receipt stands before the effect.
pub(crate) const INTENT_FIRST: &str = "nothing happens without an intent";
/// The run's status follows from its steps.
pub(crate) const RUN_FOLLOWS_STEPS: &str = "a run succeeded if and only if all its steps did";
/// An outcome is never overwritten.
pub(crate) const STEP_ENDS_ONCE: &str = "a step ends once";
/// Two workers never hold one fence, and none holds one that was not given out.
pub(crate) const ONE_HOLDER: &str = "a fence has one holder";
/// `canceled` is the whole truth.
pub(crate) const CANCELED_HIDES_NOTHING: &str = "canceled hides no effect";
/// What somebody was told about a wait stays true.
pub(crate) const ANSWER_STAYS: &str = "a decision once told never changes";
/// An event that came early is not waited for.
pub(crate) const EARLY_EVENT_COUNTS: &str = "no wait is open whose event has come";
/// A paused run says why.
pub(crate) const PAUSE_IS_NAMED: &str = "a paused run has a receipt of unknown outcome";
/// A run with something to do can always be found.
pub(crate) const WORK_HAS_MESSAGE: &str = "work to do has a message";
/// Nothing is lost.
pub(crate) const REST_IS_SETTLED: &str = "a run at rest has ended or waits for a person";

/// A sentence, and whether it is true of a state.
type Claim = (&'static str, fn(&Protocol, &State) -> bool);

pub(crate) fn all() -> Vec<Property<Protocol>> {
    let promises = PROMISES.iter().map(|(name, holds)| Property::always(name, *holds));
    let situations = SITUATIONS.iter().map(|(name, reached)| Property::sometimes(name, *reached));
    promises.chain(situations).collect()
}

const PROMISES: &[Claim] = &[
    (EFFECT_AT_MOST_ONCE, |protocol, state| {
        let mut guarded = effects(protocol).filter(|effect| class(protocol, *effect) != Class::Opaque);
        guarded.all(|effect| state.service.happened(effect) <= allowed(protocol, state, effect))
    }),
    (OPAQUE_AT_MOST_ONCE, |protocol, state| {
        let mut opaque = effects(protocol).filter(|effect| class(protocol, *effect) == Class::Opaque);
        opaque.all(|effect| state.service.happened(effect) <= allowed(protocol, state, effect))
    }),
    (SUCCESS_IS_REAL, succeeded_steps_happened),
    (INTENT_FIRST, |_, state| {
        Effect::all().all(|effect| state.service.happened(effect) == 0 || has_receipt(state, effect))
    }),
    (RUN_FOLLOWS_STEPS, |protocol, state| {
        let outcomes = &state.run.outcomes[..protocol.0.steps.len()];
        let all = outcomes.iter().all(|outcome| *outcome == Outcome::Succeeded);
        all == (state.run.status == Status::Succeeded)
    }),
    (STEP_ENDS_ONCE, |_, state| !state.ended_again),
    (ONE_HOLDER, |_, state| {
        let holders = || state.workers.iter().filter(|worker| worker.is_holder());
        let holders_of = |fence| holders().filter(|worker| worker.holds(fence)).count();
        holders().all(|worker| worker.fence <= state.run.fence && holders_of(worker.fence) == 1)
    }),
    (CANCELED_HIDES_NOTHING, |protocol, state| {
        let mut steps = (0..).take(protocol.0.steps.len());
        state.run.status != Status::Canceled || steps.all(|step| !is_hidden(state, step))
    }),
    (ANSWER_STAYS, |_, state| {
        state.deciders.iter().all(|visit| match visit {
            Visit::Away | Visit::Loaded { .. } => true,
            // Whoever came early was told that the event is kept.
            Visit::Told(Decision::Open) => state.signal,
            Visit::Told(answer) => *answer == state.run.decision,
        })
    }),
    (EARLY_EVENT_COUNTS, |_, state| !(state.signal && state.run.is_waiting())),
    (PAUSE_IS_NAMED, |_, state| {
        state.run.status != Status::Paused
            || receipts(state, state.run.effect()).any(|receipt| receipt == Receipt::Unknown)
    }),
    (WORK_HAS_MESSAGE, |_, state| !state.run.has_work() || !state.queue.is_empty()),
    (REST_IS_SETTLED, |protocol, state| {
        let settled = state.run.is_terminal() || state.run.status == Status::Paused;
        settled || something_will_happen(protocol, state)
    }),
];

const SITUATIONS: &[Claim] = &[
    ("a run succeeds after every crash it can suffer", |_, state| {
        state.run.status == Status::Succeeded && state.left.crashes == 0
    }),
    ("two workers believe that they hold the step", |_, state| {
        state.workers.iter().filter(|worker| worker.is_holder()).count() > 1
    }),
    ("all workers are busy at once", |protocol, state| {
        let workers = &state.workers[..usize::from(protocol.0.workers)];
        workers.iter().all(|worker| worker.stage != Stage::Idle)
    }),
    ("two workers have received one message", |_, state| {
        let receivers = |handle| state.workers.iter().filter(move |worker| worker.message == handle);
        state.queue.handles().any(|handle| receivers(handle).count() > 1)
    }),
    ("a request outlives its sender's lease", |_, state| {
        let mut requests = state.service.requests();
        requests.any(|request| request.fence < state.run.fence)
    }),
    ("a request arrives that repeats an effect", |protocol, state| {
        let mut requests = state.service.requests();
        requests.any(|request| {
            let effect = request.key.effect();
            class(protocol, effect) != Class::LookUp && state.service.happened(effect) > 0
        })
    }),
    ("a revoked credential is on its way", |_, state| {
        let mut requests = state.service.requests();
        requests.any(|request| !request.accepted && request.fence < state.service.revoked_below)
    }),
    ("a worker has to wait for the drain", |_, state| {
        let mut draining = state.workers.iter().filter(|worker| worker.stage == Stage::Draining);
        draining.any(|worker| !service::is_drained(state, *worker))
    }),
    ("a look-up finds the effect", |_, state| looks_up(state, |happened| happened > 0)),
    ("a look-up finds nothing", |_, state| looks_up(state, |happened| happened == 0)),
    ("a lost reply is recognised by its mark", |_, state| {
        state.workers.iter().any(|worker| worker.unsure && worker.current)
    }),
    ("a lost reply is not recognised", |_, state| {
        state.workers.iter().any(|worker| worker.unsure && !worker.current)
    }),
    ("a run pauses after its effect happened", |_, state| paused_after(state, |happened| happened > 0)),
    ("a run pauses before its effect happened", |_, state| paused_after(state, |happened| happened == 0)),
    ("a run succeeds on a person's retry", |_, state| {
        state.run.status == Status::Succeeded && was_directed(state)
    }),
    ("a person's retry makes an effect happen twice", |_, state| {
        was_directed(state) && state.service.happened.contains(&2)
    }),
    ("a person ends a run of unknown outcome", |_, state| {
        state.run.status == Status::Canceled && state.receipts.contains(&Receipt::Unknown)
    }),
    ("a run is canceled before anything happened", |_, state| {
        state.run.status == Status::Canceled && state.service.happened.iter().all(|n| *n == 0)
    }),
    ("a run is canceled after its effect was undone", |_, state| {
        state.run.status == Status::Canceled && state.run.outcomes.contains(&Outcome::RolledBack)
    }),
    ("a cancel is asked of an attempt in doubt", |_, state| {
        state.run.cancel_requested && !state.run.undoing && state.receipts.contains(&Receipt::IntentAgain)
    }),
    ("a refusal is final", |_, state| state.receipts.contains(&Receipt::Failed)),
    ("the timer is shown the approver's answer", |_, state| {
        told(state, Decider::Timer) == Some(Decision::Approved)
    }),
    ("the approver is shown the timer's answer", |_, state| {
        told(state, Decider::Approver) == Some(Decision::TimedOut)
    }),
    ("the approver is shown that the run was canceled", |_, state| {
        told(state, Decider::Approver) == Some(Decision::Canceled)
    }),
    ("an early event is kept until its wait opens", |_, state| {
        state.signal && state.run.decision == Decision::Approved
    }),
];

fn class(protocol: &Protocol, effect: Effect) -> Class {
    protocol.0.class(effect.step())
}

fn effects(protocol: &Protocol) -> impl Iterator<Item = Effect> + use<> {
    Effect::all().take(protocol.0.steps.len() * 2)
}

/// How often an effect may happen: once, and for an opaque one once more for every word of a person.
fn allowed(protocol: &Protocol, state: &State, effect: Effect) -> u8 {
    match class(protocol, effect) {
        Class::Opaque => 1 + state.directed[effect.index()],
        Class::ReadOnly | Class::NativeKey | Class::CompareAndSet | Class::LookUp => 1,
    }
}

fn succeeded_steps_happened(protocol: &Protocol, state: &State) -> bool {
    let mut steps = (0..).zip(protocol.0.steps);
    steps.all(|(step, _)| {
        let effect = Effect::new(step, false);
        let happened = state.service.happened(effect);
        let succeeded = state.run.outcomes[usize::from(step)] == Outcome::Succeeded;
        let is_read = class(protocol, effect) == Class::ReadOnly;
        !succeeded || is_read || (1..=allowed(protocol, state, effect)).contains(&happened)
    })
}

/// Receipts under every key the effect may have had; without mutants there is one.
fn receipts(state: &State, effect: Effect) -> impl Iterator<Item = Receipt> + '_ {
    state.receipts.iter().copied().skip(effect.index()).step_by(EFFECTS)
}

fn has_receipt(state: &State, effect: Effect) -> bool {
    receipts(state, effect).any(|receipt| receipt != Receipt::Absent)
}

/// An effect is in the open if its step is on record as succeeded, if it was undone, or if a receipt
/// says that nobody knows.
fn is_hidden(state: &State, step: u8) -> bool {
    let (doing, undoing) = (Effect::new(step, false), Effect::new(step, true));
    let excused = state.directed[doing.index()];
    let remains = state.service.happened(doing) > state.service.happened(undoing) + excused;
    let is_unknown = |effect| receipts(state, effect).any(|receipt| receipt == Receipt::Unknown);
    let on_record = state.run.outcomes[usize::from(step)] == Outcome::Succeeded;
    remains && !on_record && !is_unknown(doing) && !is_unknown(undoing)
}

fn something_will_happen(protocol: &Protocol, state: &State) -> bool {
    let mut actions = Vec::new();
    protocol.actions(state, &mut actions);
    actions.iter().any(|action| action.is_certain())
}

fn looks_up(state: &State, wanted: fn(u8) -> bool) -> bool {
    let mut asking = state.workers.iter().filter(|worker| worker.stage == Stage::LookingUp);
    asking.any(|worker| wanted(state.service.happened(worker.key.effect())))
}

fn paused_after(state: &State, wanted: fn(u8) -> bool) -> bool {
    state.run.status == Status::Paused && wanted(state.service.happened(state.run.effect()))
}

fn was_directed(state: &State) -> bool {
    state.directed.iter().any(|times| *times > 0)
}

fn told(state: &State, decider: Decider) -> Option<Decision> {
    match state.deciders[decider as usize] {
        Visit::Told(answer) => Some(answer),
        Visit::Away | Visit::Loaded { .. } => None,
    }
}
