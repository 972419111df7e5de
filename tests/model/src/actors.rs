//! The other writers of the record: the approver and the timer, which resolve a wait, the operator who cancels,
//! and the person who decides about a paused run. Each reads first and writes on condition that nothing
//! changed; the second writer gets the answer of the first.

use crate::action::{Action, Reply};
use crate::config::{Config, Mutant};
use crate::ledger;
use crate::state::{Decider, DeciderState, Decision, Operator, State, Status};

pub(crate) fn actions(config: &Config, state: &State, actions: &mut Vec<Action>) {
    if let Some(wait) = config.wait() {
        for decider in Decider::ALL {
            decider_actions(state, decider, wait, actions);
        }
    }
    if config.cancel {
        operator_actions(state, actions);
    }
    if state.run.status == Status::Paused && state.left.directives > 0 {
        actions.extend([Action::DirectRetry, Action::DirectCancel]);
    }
}

fn decider_actions(state: &State, decider: Decider, wait: u8, actions: &mut Vec<Action>) {
    match state.deciders[decider as usize] {
        DeciderState::Idle if can_decide(state, decider, wait) => actions.push(Action::Load(decider)),
        DeciderState::Loaded { current } => {
            actions.push(Action::Decide(decider, Reply::Received));
            if current && state.left.lost_replies > 0 {
                actions.push(Action::Decide(decider, Reply::Lost));
            }
        }
        DeciderState::Idle | DeciderState::Answered(_) => {}
    }
}

/// The timer fires for an open wait; an event may arrive before the wait opens.
fn can_decide(state: &State, decider: Decider, wait: u8) -> bool {
    let early = decider == Decider::Approver && state.run.pointer < wait;
    let resolved = state.run.decision != Decision::Open;
    resolved || state.run.is_waiting() || (early && !state.run.is_terminal())
}

fn operator_actions(state: &State, actions: &mut Vec<Action>) {
    let run = &state.run;
    let cancelable = run.status == Status::Active && !run.cancel_requested && !run.undoing;
    match state.operator {
        Operator::Idle if cancelable => actions.push(Action::LoadToCancel),
        Operator::Loaded { .. } => actions.push(Action::Cancel),
        Operator::Idle | Operator::Finished => {}
    }
}

/// A decider reads the record; if the wait is resolved, it gets that answer.
pub(crate) fn load(state: &mut State, decider: Decider) {
    state.deciders[decider as usize] = match state.run.decision {
        Decision::Open => DeciderState::Loaded { current: true },
        resolved @ (Decision::Approved | Decision::TimedOut | Decision::Canceled) => {
            DeciderState::Answered(resolved)
        }
    };
}

/// A decider writes its decision. If it does not receive the reply, it reads again and gets the answer.
pub(crate) fn decide(config: &Config, state: &mut State, decider: Decider, reply: Reply) {
    let current = state.deciders[decider as usize] == DeciderState::Loaded { current: true };
    if !current && !config.has(Mutant::UnconditionalDecision) {
        state.deciders[decider as usize] = DeciderState::Idle;
        return;
    }
    state.outdate_snapshots();
    let answer = resolve_wait(config, state, decider);
    state.deciders[decider as usize] = match reply {
        Reply::Received => DeciderState::Answered(answer),
        Reply::Lost | Reply::RequestLost => {
            state.left.lost_replies -= 1;
            DeciderState::Idle
        }
    };
}

/// Resolves the wait, or stores the event until there is one.
fn resolve_wait(config: &Config, state: &mut State, decider: Decider) -> Decision {
    match config.wait() {
        Some(wait) if state.run.pointer >= wait => {
            ledger::decide(config, state, wait, decider.decision());
            decider.decision()
        }
        Some(_) | None => {
            state.signal = true;
            Decision::Open
        }
    }
}

/// The operator reads the record and decides how to cancel.
pub(crate) fn load_to_cancel(config: &Config, state: &mut State) {
    state.operator = Operator::Loaded { current: true, at_once: ledger::may_cancel_at_once(config, state) };
}

/// The operator writes if the record has not changed.
pub(crate) fn cancel(config: &Config, state: &mut State) {
    let Operator::Loaded { current, at_once } = state.operator else {
        return;
    };
    if !current && !config.has(Mutant::UnguardedCancel) {
        state.operator = Operator::Idle;
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

/// A person retries a paused run.
pub(crate) fn direct_retry(config: &Config, state: &mut State) {
    state.left.directives -= 1;
    state.outdate_snapshots();
    ledger::direct_retry(config, state);
}

/// A person ends a paused run.
pub(crate) fn direct_cancel(state: &mut State) {
    state.left.directives -= 1;
    state.outdate_snapshots();
    ledger::direct_cancel(state);
}
