//! Everybody else who writes the record: the approver and the timer who settle a wait, the operator
//! who cancels, and the person who says what becomes of a paused run. Each reads first and writes on
//! condition that nothing changed; whoever comes second is shown the answer of the first.

use crate::action::{Action, Reply};
use crate::ledger;
use crate::state::{Decider, Decision, Operator, State, Status, Visit};
use crate::world::{Mutant, World};

/// Collects what they may do.
pub(crate) fn actions(world: &World, state: &State, actions: &mut Vec<Action>) {
    if let Some(wait) = world.wait() {
        for decider in Decider::ALL {
            decider_actions(state, decider, wait, actions);
        }
    }
    if world.cancel {
        operator_actions(state, actions);
    }
    if state.run.status == Status::Paused && state.left.directives > 0 {
        actions.extend([Action::DirectRetry, Action::DirectCancel]);
    }
}

fn decider_actions(state: &State, decider: Decider, wait: u8, actions: &mut Vec<Action>) {
    match state.deciders[decider as usize] {
        Visit::Away if has_business(state, decider, wait) => actions.push(Action::Look(decider)),
        Visit::Loaded { current } => {
            actions.push(Action::Decide(decider, Reply::Heard));
            if current && state.left.lost_replies > 0 {
                actions.push(Action::Decide(decider, Reply::Lost));
            }
        }
        Visit::Away | Visit::Told(_) => {}
    }
}

/// The timer fires for an open wait; an event may come before.
fn has_business(state: &State, decider: Decider, wait: u8) -> bool {
    let early = decider == Decider::Approver && state.run.pointer < wait;
    let settled = state.run.decision != Decision::Open;
    settled || state.run.is_waiting() || (early && !state.run.is_terminal())
}

fn operator_actions(state: &State, actions: &mut Vec<Action>) {
    let run = &state.run;
    let cancelable = run.status == Status::Active && !run.cancel_requested && !run.undoing;
    match state.operator {
        Operator::Away if cancelable => actions.push(Action::LookToCancel),
        Operator::Loaded { .. } => actions.push(Action::Cancel),
        Operator::Away | Operator::Finished => {}
    }
}

/// A decider reads the record; if it is too late, it is told so.
pub(crate) fn look(state: &mut State, decider: Decider) {
    state.deciders[decider as usize] = match state.run.decision {
        Decision::Open => Visit::Loaded { current: true },
        settled @ (Decision::Approved | Decision::TimedOut | Decision::Canceled) => Visit::Told(settled),
    };
}

/// A decider writes what it came for. One that does not hear the reply comes again, and is told.
pub(crate) fn decide(world: &World, state: &mut State, decider: Decider, reply: Reply) {
    let current = state.deciders[decider as usize] == Visit::Loaded { current: true };
    if !current && !world.is(Mutant::UnconditionalDecision) {
        state.deciders[decider as usize] = Visit::Away;
        return;
    }
    state.outdate_snapshots();
    let answer = settle(world, state, decider);
    state.deciders[decider as usize] = match reply {
        Reply::Heard => Visit::Told(answer),
        Reply::Lost | Reply::NoneToHear => {
            state.left.lost_replies -= 1;
            Visit::Away
        }
    };
}

/// Settles the wait, or keeps the event until there is one.
fn settle(world: &World, state: &mut State, decider: Decider) -> Decision {
    match world.wait() {
        Some(wait) if state.run.pointer >= wait => {
            ledger::decide(world, state, wait, decider.wants());
            decider.wants()
        }
        Some(_) | None => {
            state.signal = true;
            Decision::Open
        }
    }
}

/// The operator reads the record and decides what to ask for.
pub(crate) fn look_to_cancel(world: &World, state: &mut State) {
    state.operator = Operator::Loaded { current: true, at_once: ledger::may_cancel_at_once(world, state) };
}

/// The operator writes, if the record is still the one that was read.
pub(crate) fn cancel(world: &World, state: &mut State) {
    let Operator::Loaded { current, at_once } = state.operator else {
        return;
    };
    if !current && !world.is(Mutant::UnguardedCancel) {
        state.operator = Operator::Away;
        return;
    }
    state.outdate_snapshots();
    state.operator = Operator::Finished;
    if at_once {
        ledger::cancel_at_once(state);
    } else {
        state.run.cancel_requested = true;
    }
}

/// A person lets a paused run try again.
pub(crate) fn direct_retry(world: &World, state: &mut State) {
    state.left.directives -= 1;
    state.outdate_snapshots();
    ledger::direct_retry(world, state);
}

/// A person ends a paused run.
pub(crate) fn direct_cancel(state: &mut State) {
    state.left.directives -= 1;
    state.outdate_snapshots();
    ledger::direct_cancel(state);
}
