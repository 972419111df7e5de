//! The transactions of the ledger. Each public function is one conditional write whose condition the caller
//! has checked; it is atomic. The transactions maintain three invariants: a receipt is written before its
//! effect, a step ends once, and a run with work to do has a message.

use crate::config::{Class, Config, Mutant, Step};
use crate::state::{Decision, Key, Live, Outcome, Plan, Receipt, State, Status};

/// How a worker continues when a step has ended and the run has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuation {
    /// Claim the next step in the same transaction.
    HandOff,
    /// Send a message in the transaction; its receiver claims the next step.
    Enqueue,
}

/// What a worker does after a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Continue with the next step, which is already claimed.
    Claimed(Key),
    /// Leave the message so that the step is retried.
    Retry,
    /// Delete the message.
    Delete,
}

/// Decides what a worker does with a run it has loaded.
pub(crate) fn plan(config: &Config, state: &State) -> Plan {
    let run = &state.run;
    match (run.status, run.live) {
        (Status::Active, Live::Ready | Live::FailedRetryable) => plan_claim(config, state),
        (Status::Active, Live::Running) if run.lease_expired => plan_claim(config, state),
        (Status::Active, Live::Running) => Plan::Leave,
        (Status::Active, Live::Waiting)
        | (Status::Paused | Status::Succeeded | Status::Failed | Status::Canceled, _) => Plan::Nothing,
    }
}

fn plan_claim(config: &Config, state: &State) -> Plan {
    let receipt = state.receipts[next_key(config, state).index()];
    if state.run.cancel_requested && !state.run.undoing && !receipt.may_have_happened() {
        return Plan::Cancel;
    }
    plan_effect(config, config.class(state.run.pointer), receipt)
}

/// The table of the protocol: the next move for each effect class and state of its receipt.
fn plan_effect(config: &Config, class: Class, receipt: Receipt) -> Plan {
    use Receipt::{Absent, Done, Failed, Intent, IntentAgain, Unknown};
    match (class, receipt) {
        // No effect can have happened, or repeating it is safe, or a person has decided to retry.
        // `Done` belongs to a step that has ended; only a mutant gets here with it.
        (Class::ReadOnly, _)
        | (Class::NativeKey | Class::CompareAndSet, Intent | IntentAgain)
        | (_, Absent | Failed | Unknown | Done) => Plan::Perform,
        (Class::LookUp, Intent | IntentAgain) => Plan::LookUp,
        (Class::Opaque, Intent | IntentAgain) => plan_unknown_outcome(config),
    }
}

/// The next move when the outcome of an opaque effect is unknown.
fn plan_unknown_outcome(config: &Config) -> Plan {
    if config.has(Mutant::RetryOnUnknownOutcome) {
        return Plan::Perform;
    }
    Plan::Pause
}

/// The key under which the current step would be claimed now.
pub(crate) fn next_key(config: &Config, state: &State) -> Key {
    key(config, state, next_attempt(state))
}

fn key(config: &Config, state: &State, attempt: u8) -> Key {
    if config.has(Mutant::KeyPerAttempt) {
        return Key::of_attempt(state.run.effect(), attempt);
    }
    Key::of(state.run.effect())
}

fn next_attempt(state: &State) -> u8 {
    match state.run.live {
        Live::Ready | Live::Waiting => state.run.attempt,
        Live::Running | Live::FailedRetryable => state.run.attempt + 1,
    }
}

/// Claims the current step: a new one, or one whose lease has expired.
pub(crate) fn claim(config: &Config, state: &mut State) -> Key {
    let attempt = next_attempt(state);
    let key = key(config, state, attempt);
    state.run.attempt = attempt;
    state.run.live = Live::Running;
    state.run.lease_expired = false;
    state.run.fence.0 += 1;
    write_intent(config, state, key);
    key
}

fn write_intent(config: &Config, state: &mut State, key: Key) {
    let is_read = config.class(key.effect().step()) == Class::ReadOnly;
    if is_read || config.has(Mutant::NoIntent) {
        return;
    }
    let receipt = &mut state.receipts[key.index()];
    *receipt = match *receipt {
        Receipt::Absent | Receipt::Failed => Receipt::Intent,
        Receipt::Intent | Receipt::IntentAgain | Receipt::Unknown => Receipt::IntentAgain,
        Receipt::Done => Receipt::Done,
    };
}

/// Records that the effect has happened, and advances the run.
pub(crate) fn commit_done(config: &Config, state: &mut State, key: Key, continuation: Continuation) -> Next {
    let step = key.effect().step();
    let is_read = config.class(step) == Class::ReadOnly;
    if !is_read {
        state.receipts[key.index()] = Receipt::Done;
    }
    if key.effect().is_undo() {
        end_step(state, step, Outcome::RolledBack);
        return end_run(state, Status::Canceled);
    }
    if !state.run.cancel_requested {
        end_step(state, step, Outcome::Succeeded);
        advance(config, state, step + 1);
        return continue_run(config, state, continuation);
    }
    if is_read {
        end_step(state, step, Outcome::Canceled);
        return end_run(state, Status::Canceled);
    }
    state.run.undoing = true;
    state.run.attempt = 0;
    state.run.live = Live::Ready;
    continue_run(config, state, continuation)
}

/// Records that the service refused. The refusal is final only if no earlier attempt may have had its effect.
pub(crate) fn commit_refused(state: &mut State, key: Key) -> Next {
    let receipt = &mut state.receipts[key.index()];
    if *receipt == Receipt::Intent {
        *receipt = Receipt::Failed;
    }
    let nothing_happened = !receipt.may_have_happened();
    if state.run.cancel_requested && !state.run.undoing && nothing_happened {
        return cancel_at_once(state);
    }
    state.run.live = Live::FailedRetryable;
    Next::Retry
}

/// Records that the worker does not know whether its effect happened.
pub(crate) fn commit_unknown(config: &Config, state: &mut State, key: Key) -> Next {
    let opaque = config.class(key.effect().step()) == Class::Opaque;
    if opaque && plan_unknown_outcome(config) == Plan::Pause {
        return pause(state, key);
    }
    state.run.live = Live::FailedRetryable;
    Next::Retry
}

/// Pauses the run until a person has seen the evidence.
pub(crate) fn pause(state: &mut State, key: Key) -> Next {
    state.receipts[key.index()] = Receipt::Unknown;
    state.run.status = Status::Paused;
    state.run.live = Live::Ready;
    state.run.lease_expired = false;
    Next::Delete
}

/// A person decides to retry the paused effect.
pub(crate) fn direct_retry(config: &Config, state: &mut State) {
    state.person_retries[state.run.effect().index()] += 1;
    state.run.status = Status::Active;
    state.run.attempt += 1;
    enqueue_message(config, state);
}

/// A person ends the paused run; its receipt stays `Unknown`.
pub(crate) fn direct_cancel(state: &mut State) {
    end_step(state, state.run.pointer, Outcome::Canceled);
    end_run(state, Status::Canceled);
}

/// Ends the run at its current step. This resolves an open wait.
pub(crate) fn cancel_at_once(state: &mut State) -> Next {
    if state.run.live == Live::Waiting {
        state.run.decision = Decision::Canceled;
    }
    end_step(state, state.run.pointer, Outcome::Canceled);
    end_run(state, Status::Canceled)
}

/// Whether a cancel may end the run at once, instead of asking its worker to.
pub(crate) fn may_cancel_at_once(config: &Config, state: &State) -> bool {
    match state.run.live {
        Live::Waiting => true,
        Live::Running => false,
        // An earlier attempt may still have its effect although no worker holds the step.
        Live::Ready | Live::FailedRetryable => {
            !state.receipts[next_key(config, state).index()].may_have_happened()
        }
    }
}

/// Resolves the wait.
pub(crate) fn decide(config: &Config, state: &mut State, wait: u8, decision: Decision) {
    state.run.decision = decision;
    if decision == Decision::Approved {
        end_step(state, wait, Outcome::Succeeded);
        advance(config, state, wait + 1);
        continue_run(config, state, Continuation::Enqueue);
    } else {
        end_step(state, wait, Outcome::Failed);
        end_run(state, Status::Failed);
    }
}

fn end_step(state: &mut State, step: u8, outcome: Outcome) {
    let ended = &mut state.run.outcomes[usize::from(step)];
    state.ended_again |= *ended != Outcome::Pending;
    *ended = outcome;
}

fn end_run(state: &mut State, status: Status) -> Next {
    state.run.status = status;
    state.run.live = Live::Ready;
    state.run.lease_expired = false;
    Next::Delete
}

/// Moves the pointer to a step. Opening a wait and checking for its early event are one transaction.
fn advance(config: &Config, state: &mut State, to: u8) {
    state.run.pointer = to;
    state.run.attempt = 0;
    state.run.live = Live::Ready;
    match config.steps.get(usize::from(to)) {
        None => {
            end_run(state, Status::Succeeded);
        }
        Some(Step::Wait) if state.signal => {
            state.run.decision = Decision::Approved;
            end_step(state, to, Outcome::Succeeded);
            advance(config, state, to + 1);
        }
        Some(Step::Wait) => state.run.live = Live::Waiting,
        Some(Step::Act(_)) => {}
    }
}

fn continue_run(config: &Config, state: &mut State, continuation: Continuation) -> Next {
    if !state.run.has_work() {
        return Next::Delete;
    }
    match continuation {
        Continuation::HandOff => Next::Claimed(claim(config, state)),
        Continuation::Enqueue => {
            enqueue_message(config, state);
            Next::Delete
        }
    }
}

/// Writes a message to the outbox, in the transaction that makes it necessary.
fn enqueue_message(config: &Config, state: &mut State) {
    if config.has(Mutant::OutboxOutsideTheTransaction) {
        state.queue.unsent += 1;
    } else {
        state.queue.outbox += 1;
    }
}
