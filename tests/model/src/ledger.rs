//! The transactions of the ledger. Each public function is one conditional write whose condition
//! the caller has checked: everything in it happens, or nothing. It keeps true that a receipt
//! stands before its effect, that a step ends once, and that a run with something to do has a
//! message.

use crate::state::{Decision, Key, Live, Outcome, Plan, Receipt, State, Status};
use crate::world::{Class, Mutant, Step, World};

/// How a worker goes on when a step has ended and another is there to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// Take the next step in the same transaction.
    HandOff,
    /// Leave it to whoever gets the message that goes with the transaction.
    HandOn,
}

/// What a commit leaves its worker with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next step, already claimed.
    Claimed(Key),
    /// A step to be tried again: the message stays.
    Retry,
    /// Nothing its message is needed for.
    Delete,
}

/// Decides what a worker does with a run it has just loaded.
pub(crate) fn plan(world: &World, state: &State) -> Plan {
    let run = &state.run;
    match (run.status, run.live) {
        (Status::Active, Live::Ready | Live::FailedRetryable) => take(world, state),
        (Status::Active, Live::Running) if run.lease_lapsed => take(world, state),
        (Status::Active, Live::Running) => Plan::Leave,
        (Status::Active, Live::Waiting)
        | (Status::Paused | Status::Succeeded | Status::Failed | Status::Canceled, _) => Plan::Nothing,
    }
}

fn take(world: &World, state: &State) -> Plan {
    let receipt = state.receipts[next_key(world, state).index()];
    if state.run.cancel_requested && !state.run.undoing && !receipt.may_have_happened() {
        return Plan::Cancel;
    }
    begin(world, world.class(state.run.pointer), receipt)
}

/// The table of the protocol: what an earlier attempt left behind, by the class of the effect.
fn begin(world: &World, class: Class, receipt: Receipt) -> Plan {
    use Receipt::{Absent, Done, Failed, Intent, IntentAgain, Unknown};
    match (class, receipt) {
        // Nothing can have happened, or again is as good as once, or a person has seen the evidence.
        // `Done` belongs to a step that has ended; only a mutant comes here with it.
        (Class::ReadOnly, _)
        | (Class::NativeKey | Class::CompareAndSet, Intent | IntentAgain)
        | (_, Absent | Failed | Unknown | Done) => Plan::Perform,
        (Class::LookUp, Intent | IntentAgain) => Plan::LookUp,
        (Class::Opaque, Intent | IntentAgain) => when_unknown(world),
    }
}

/// What follows when nobody can say whether an opaque effect happened.
fn when_unknown(world: &World) -> Plan {
    if world.is(Mutant::RetryOnUnknownOutcome) {
        return Plan::Perform;
    }
    Plan::Pause
}

/// The key under which the current step would be claimed now.
pub(crate) fn next_key(world: &World, state: &State) -> Key {
    key(world, state, next_attempt(state))
}

fn key(world: &World, state: &State, attempt: u8) -> Key {
    if world.is(Mutant::KeyPerAttempt) {
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

/// Claims the current step, fresh or from a holder whose lease has lapsed.
pub(crate) fn claim(world: &World, state: &mut State) -> Key {
    let attempt = next_attempt(state);
    let key = key(world, state, attempt);
    state.run.attempt = attempt;
    state.run.live = Live::Running;
    state.run.lease_lapsed = false;
    state.run.fence.0 += 1;
    put_intent(world, state, key);
    key
}

fn put_intent(world: &World, state: &mut State, key: Key) {
    let is_read = world.class(key.effect().step()) == Class::ReadOnly;
    if is_read || world.is(Mutant::NoIntent) {
        return;
    }
    let receipt = &mut state.receipts[key.index()];
    *receipt = match *receipt {
        Receipt::Absent | Receipt::Failed => Receipt::Intent,
        Receipt::Intent | Receipt::IntentAgain | Receipt::Unknown => Receipt::IntentAgain,
        Receipt::Done => Receipt::Done,
    };
}

/// Records that the effect has happened, and moves the run on.
pub(crate) fn commit_done(world: &World, state: &mut State, key: Key, walk: Walk) -> Next {
    let step = key.effect().step();
    let is_read = world.class(step) == Class::ReadOnly;
    if !is_read {
        state.receipts[key.index()] = Receipt::Done;
    }
    if key.effect().is_undo() {
        end_step(state, step, Outcome::RolledBack);
        return end_run(state, Status::Canceled);
    }
    if !state.run.cancel_requested {
        end_step(state, step, Outcome::Succeeded);
        advance(world, state, step + 1);
        return walk_on(world, state, walk);
    }
    if is_read {
        end_step(state, step, Outcome::Canceled);
        return end_run(state, Status::Canceled);
    }
    state.run.undoing = true;
    state.run.attempt = 0;
    state.run.live = Live::Ready;
    walk_on(world, state, walk)
}

/// Records that the service refused, which is certain only if no earlier attempt is in doubt.
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
pub(crate) fn commit_unknown(world: &World, state: &mut State, key: Key) -> Next {
    let opaque = world.class(key.effect().step()) == Class::Opaque;
    if opaque && when_unknown(world) == Plan::Pause {
        return pause(state, key);
    }
    state.run.live = Live::FailedRetryable;
    Next::Retry
}

/// Stops the run until a person has seen the evidence.
pub(crate) fn pause(state: &mut State, key: Key) -> Next {
    state.receipts[key.index()] = Receipt::Unknown;
    state.run.status = Status::Paused;
    state.run.live = Live::Ready;
    state.run.lease_lapsed = false;
    Next::Delete
}

/// A person says that the paused effect shall be tried again.
pub(crate) fn direct_retry(world: &World, state: &mut State) {
    state.directed[state.run.effect().index()] += 1;
    state.run.status = Status::Active;
    state.run.attempt += 1;
    wake(world, state);
}

/// A person says that the paused run shall end; its receipt goes on saying `Unknown`.
pub(crate) fn direct_cancel(state: &mut State) {
    end_step(state, state.run.pointer, Outcome::Canceled);
    end_run(state, Status::Canceled);
}

/// Ends the run where it stands. A wait that is open is settled by it.
pub(crate) fn cancel_at_once(state: &mut State) -> Next {
    if state.run.live == Live::Waiting {
        state.run.decision = Decision::Canceled;
    }
    end_step(state, state.run.pointer, Outcome::Canceled);
    end_run(state, Status::Canceled)
}

/// Whether a cancel may end the run at once, instead of asking its worker to.
pub(crate) fn may_cancel_at_once(world: &World, state: &State) -> bool {
    match state.run.live {
        Live::Waiting => true,
        Live::Running => false,
        // Not running is not enough: an attempt in doubt may yet have its effect.
        Live::Ready | Live::FailedRetryable => {
            !state.receipts[next_key(world, state).index()].may_have_happened()
        }
    }
}

/// Settles the wait.
pub(crate) fn decide(world: &World, state: &mut State, wait: u8, decision: Decision) {
    state.run.decision = decision;
    if decision == Decision::Approved {
        end_step(state, wait, Outcome::Succeeded);
        advance(world, state, wait + 1);
        walk_on(world, state, Walk::HandOn);
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
    state.run.lease_lapsed = false;
    Next::Delete
}

/// Moves the pointer to a step; opening a wait and finding its event there are one transaction.
fn advance(world: &World, state: &mut State, to: u8) {
    state.run.pointer = to;
    state.run.attempt = 0;
    state.run.live = Live::Ready;
    match world.steps.get(usize::from(to)) {
        None => {
            end_run(state, Status::Succeeded);
        }
        Some(Step::Wait) if state.signal => {
            state.run.decision = Decision::Approved;
            end_step(state, to, Outcome::Succeeded);
            advance(world, state, to + 1);
        }
        Some(Step::Wait) => state.run.live = Live::Waiting,
        Some(Step::Act(_)) => {}
    }
}

fn walk_on(world: &World, state: &mut State, walk: Walk) -> Next {
    if !state.run.has_work() {
        return Next::Delete;
    }
    match walk {
        Walk::HandOff => Next::Claimed(claim(world, state)),
        Walk::HandOn => {
            wake(world, state);
            Next::Delete
        }
    }
}

/// Promises a message, in the transaction that makes it necessary.
fn wake(world: &World, state: &mut State) {
    if world.is(Mutant::OutboxOutsideTheTransaction) {
        state.queue.unsent += 1;
    } else {
        state.queue.outbox += 1;
    }
}
