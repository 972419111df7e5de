//! The invariants, which must hold in every state, and the situations, which must be reached in some state.
//! The situations show that the invariants were tested: a model without take-overs says nothing about
//! take-overs.

use stateright::{Model, Property};

use crate::config::Class;
use crate::model::Protocol;
use crate::service;
use crate::state::{
    Decider, DeciderState, Decision, EFFECTS, Effect, Outcome, Receipt, Stage, State, Status,
};

pub(crate) const EFFECT_AT_MOST_ONCE: &str = "an effect happens at most once";
pub(crate) const OPAQUE_AT_MOST_ONCE: &str = "an opaque effect happens again only if a person retries it";
pub(crate) const SUCCESS_IS_REAL: &str = "a succeeded step had its effect, once plus each retry by a person";
pub(crate) const INTENT_FIRST: &str = "an effect has a receipt before it happens";
pub(crate) const RUN_FOLLOWS_STEPS: &str = "a run succeeded if and only if all its steps did";
pub(crate) const STEP_ENDS_ONCE: &str = "a step ends once";
/// Two workers never hold one fence, and no worker holds a fence that was not issued.
pub(crate) const ONE_HOLDER: &str = "a fence has one holder";
pub(crate) const CANCELED_HIDES_NOTHING: &str = "a canceled run hides no effect";
pub(crate) const DECISION_IS_FINAL: &str = "a reported decision never changes";
pub(crate) const EARLY_EVENT_COUNTS: &str = "no wait is open after its event has arrived";
pub(crate) const PAUSE_HAS_A_CAUSE: &str = "a paused run has a receipt with an unknown outcome";
pub(crate) const WORK_HAS_MESSAGE: &str = "a run with work to do has a message";
pub(crate) const IDLE_RUN_IS_RESOLVED: &str = "an idle run has ended or waits for a person";

type NamedPredicate = (&'static str, fn(&Protocol, &State) -> bool);

pub(crate) fn all() -> Vec<Property<Protocol>> {
    let invariants = INVARIANTS.iter().map(|(name, holds)| Property::always(name, *holds));
    let situations = SITUATIONS.iter().map(|(name, reached)| Property::sometimes(name, *reached));
    invariants.chain(situations).collect()
}

const INVARIANTS: &[NamedPredicate] = &[
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
    (DECISION_IS_FINAL, |_, state| {
        state.deciders.iter().all(|decider| match decider {
            DeciderState::Idle | DeciderState::Loaded { .. } => true,
            // An approver that came early was answered that the event is stored.
            DeciderState::Answered(Decision::Open) => state.signal,
            DeciderState::Answered(answer) => *answer == state.run.decision,
        })
    }),
    (EARLY_EVENT_COUNTS, |_, state| !(state.signal && state.run.is_waiting())),
    (PAUSE_HAS_A_CAUSE, |_, state| {
        state.run.status != Status::Paused
            || receipts(state, state.run.effect()).any(|receipt| receipt == Receipt::Unknown)
    }),
    (WORK_HAS_MESSAGE, |_, state| !state.run.has_work() || !state.queue.is_empty()),
    (IDLE_RUN_IS_RESOLVED, |protocol, state| {
        let resolved = state.run.is_terminal() || state.run.status == Status::Paused;
        resolved || has_certain_action(protocol, state)
    }),
];

const SITUATIONS: &[NamedPredicate] = &[
    ("a run succeeds after the last crash of the budget", |_, state| {
        state.run.status == Status::Succeeded && state.left.crashes == 0
    }),
    ("two workers act as holders of the step", |_, state| {
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
    ("a request with a revoked credential is in transit", |_, state| {
        let mut requests = state.service.requests();
        requests.any(|request| !request.accepted && request.fence < state.service.revoked_below)
    }),
    ("a worker waits for the drain", |_, state| {
        let mut draining = state.workers.iter().filter(|worker| worker.stage == Stage::Draining);
        draining.any(|worker| !service::is_drained(state, *worker))
    }),
    ("a look-up finds the effect", |_, state| any_look_up(state, |happened| happened > 0)),
    ("a look-up finds nothing", |_, state| any_look_up(state, |happened| happened == 0)),
    ("a commit with a lost reply is recognized by its op_id", |_, state| {
        state.workers.iter().any(|worker| worker.reply_lost && worker.current)
    }),
    ("a commit with a lost reply is not recognized", |_, state| {
        state.workers.iter().any(|worker| worker.reply_lost && !worker.current)
    }),
    ("a run pauses after its effect happened", |_, state| paused_after(state, |happened| happened > 0)),
    ("a run pauses before its effect happened", |_, state| paused_after(state, |happened| happened == 0)),
    ("a run succeeds after a person's retry", |_, state| {
        state.run.status == Status::Succeeded && was_retried_by_person(state)
    }),
    ("a person's retry makes an effect happen twice", |_, state| {
        was_retried_by_person(state) && state.service.happened.contains(&2)
    }),
    ("a person ends a run with an unknown outcome", |_, state| {
        state.run.status == Status::Canceled && state.receipts.contains(&Receipt::Unknown)
    }),
    ("a run is canceled before any effect", |_, state| {
        state.run.status == Status::Canceled && state.service.happened.iter().all(|n| *n == 0)
    }),
    ("a run is canceled after its effect was undone", |_, state| {
        state.run.status == Status::Canceled && state.run.outcomes.contains(&Outcome::RolledBack)
    }),
    ("a cancel is requested while an earlier outcome is unknown", |_, state| {
        state.run.cancel_requested && !state.run.undoing && state.receipts.contains(&Receipt::IntentAgain)
    }),
    ("a refusal is final", |_, state| state.receipts.contains(&Receipt::Failed)),
    ("the timer gets the approver's answer", |_, state| {
        answer_of(state, Decider::Timer) == Some(Decision::Approved)
    }),
    ("the approver gets the timer's answer", |_, state| {
        answer_of(state, Decider::Approver) == Some(Decision::TimedOut)
    }),
    ("the approver gets the answer that the run was canceled", |_, state| {
        answer_of(state, Decider::Approver) == Some(Decision::Canceled)
    }),
    ("an early event is stored until its wait opens", |_, state| {
        state.signal && state.run.decision == Decision::Approved
    }),
];

fn class(protocol: &Protocol, effect: Effect) -> Class {
    protocol.0.class(effect.step())
}

fn effects(protocol: &Protocol) -> impl Iterator<Item = Effect> + use<> {
    Effect::all().take(protocol.0.steps.len() * 2)
}

/// How often an effect may happen: once, plus once for each retry of an opaque effect by a person.
fn allowed(protocol: &Protocol, state: &State, effect: Effect) -> u8 {
    match class(protocol, effect) {
        Class::Opaque => 1 + state.person_retries[effect.index()],
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

/// Receipts under every key of the effect; without a mutant there is one.
fn receipts(state: &State, effect: Effect) -> impl Iterator<Item = Receipt> + '_ {
    state.receipts.iter().copied().skip(effect.index()).step_by(EFFECTS)
}

fn has_receipt(state: &State, effect: Effect) -> bool {
    receipts(state, effect).any(|receipt| receipt != Receipt::Absent)
}

/// An effect is visible if its step is recorded as succeeded, if it was undone, or if a receipt records its
/// outcome as unknown.
fn is_hidden(state: &State, step: u8) -> bool {
    let (doing, undoing) = (Effect::new(step, false), Effect::new(step, true));
    let retries = state.person_retries[doing.index()];
    let remains = state.service.happened(doing) > state.service.happened(undoing) + retries;
    let is_unknown = |effect| receipts(state, effect).any(|receipt| receipt == Receipt::Unknown);
    let is_recorded = state.run.outcomes[usize::from(step)] == Outcome::Succeeded;
    remains && !is_recorded && !is_unknown(doing) && !is_unknown(undoing)
}

fn has_certain_action(protocol: &Protocol, state: &State) -> bool {
    let mut actions = Vec::new();
    protocol.actions(state, &mut actions);
    actions.iter().any(|action| action.is_certain())
}

fn any_look_up(state: &State, matches: fn(u8) -> bool) -> bool {
    let mut looking_up = state.workers.iter().filter(|worker| worker.stage == Stage::LookingUp);
    looking_up.any(|worker| matches(state.service.happened(worker.key.effect())))
}

fn paused_after(state: &State, matches: fn(u8) -> bool) -> bool {
    state.run.status == Status::Paused && matches(state.service.happened(state.run.effect()))
}

fn was_retried_by_person(state: &State) -> bool {
    state.person_retries.iter().any(|times| *times > 0)
}

fn answer_of(state: &State, decider: Decider) -> Option<Decision> {
    match state.deciders[decider as usize] {
        DeciderState::Answered(answer) => Some(answer),
        DeciderState::Idle | DeciderState::Loaded { .. } => None,
    }
}
