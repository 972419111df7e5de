//! A world as a model that can be explored: from a state, the actions that are possible; from a
//! state and an action, the next state.

use stateright::{Model, Property};

use crate::action::Action;
use crate::state::State;
use crate::world::World;
use crate::{people, properties, service, worker};

/// A world, ready to be explored.
#[derive(Clone, Debug)]
pub(crate) struct Protocol(pub World);

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::admitted(&self.0)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let workers = &state.workers[..usize::from(self.0.workers)];
        for (index, memory) in workers.iter().enumerate() {
            // Workers are sorted, so one that equals its neighbour would only repeat it.
            if index == 0 || *memory != workers[index - 1] {
                worker::actions(&self.0, state, index, actions);
            }
        }
        service::actions(state, actions);
        lease_actions(state, actions);
        queue_actions(state, actions);
        people::actions(&self.0, state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        happen(&self.0, &mut next, action);
        Some(next.canonical(&self.0))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

fn lease_actions(state: &State, actions: &mut Vec<Action>) {
    if !state.run.is_running() || state.run.lease_lapsed {
        return;
    }
    if !state.holder_is_alive() {
        actions.push(Action::LeaseLapses);
    } else if state.left.early_expiries > 0 {
        actions.push(Action::LeaseLapsesEarly);
    }
}

fn queue_actions(state: &State, actions: &mut Vec<Action>) {
    let queue = &state.queue;
    if queue.unsent > 0 && state.left.crashes > 0 {
        actions.push(Action::SenderDies);
    }
    if queue.outbox + queue.unsent == 0 || !queue.has_room() {
        return;
    }
    actions.push(Action::Relay);
    if queue.outbox > 0 && state.left.duplicates > 0 {
        actions.push(Action::RelayTwice);
    }
}

fn happen(world: &World, state: &mut State, action: Action) {
    match action {
        Action::Receive(index, handle) | Action::Redeliver(index, handle) => {
            worker::receive(world, state, index, handle);
        }
        Action::Claim(index, reply) => worker::claim(world, state, index, reply),
        Action::ReadAgain(index) => worker::read_again(state, index),
        Action::Revoke(index) => worker::revoke(world, state, index),
        Action::Drain(index) => worker::drain(state, index),
        Action::LookUp(index) => worker::look_up(state, index),
        Action::Perform(index) => worker::perform(world, state, index),
        Action::TimeOut(index) => worker::time_out(state, index),
        Action::Commit(index, walk, reply) => worker::commit(world, state, index, walk, reply),
        Action::Delete(index) => worker::delete(state, index),
        Action::Crash(index) => worker::crash(state, index),
        Action::Deliver(request) => service::deliver(world, state, request),
        Action::Refuse(request) => service::refuse(state, request),
        Action::LeaseLapses => state.run.lease_lapsed = true,
        Action::LeaseLapsesEarly => {
            state.left.early_expiries -= 1;
            state.run.lease_lapsed = true;
        }
        Action::Relay => relay(state),
        Action::RelayTwice => {
            state.left.duplicates -= 1;
            state.queue.send();
        }
        Action::SenderDies => {
            state.left.crashes -= 1;
            state.queue.unsent -= 1;
        }
        Action::Look(decider) => people::look(state, decider),
        Action::Decide(decider, reply) => people::decide(world, state, decider, reply),
        Action::LookToCancel => people::look_to_cancel(world, state),
        Action::Cancel => people::cancel(world, state),
        Action::DirectRetry => people::direct_retry(world, state),
        Action::DirectCancel => people::direct_cancel(state),
    }
}

/// Sends a promised message, then forgets the promise.
fn relay(state: &mut State) {
    state.queue.send();
    if state.queue.unsent > 0 {
        state.queue.unsent -= 1;
    } else {
        state.queue.outbox -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::variants::small_variant;

    /// Follows every story from a state; `true` marks states whose stories are all known to end.
    fn ends(protocol: &Protocol, state: State, known: &mut HashMap<State, bool>) -> bool {
        if let Some(ended) = known.get(&state) {
            return *ended;
        }
        known.insert(state.clone(), false);
        let all_end = protocol.next_states(&state).into_iter().all(|next| ends(protocol, next, known));
        known.insert(state, all_end);
        all_end
    }

    #[test]
    fn every_story_ends() {
        for world in small_variant().worlds {
            let protocol = Protocol(world);
            let begin = State::admitted(&protocol.0);
            assert!(ends(&protocol, begin, &mut HashMap::new()), "{} goes round in circles", protocol.0.name);
        }
    }
}
