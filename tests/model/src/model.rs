//! The state machine: the possible actions in a state, and the next state after an action.

use stateright::{Model, Property};

use crate::action::Action;
use crate::check::Explorable;
use crate::config::Config;
use crate::state::State;
use crate::{actors, properties, service, worker};

/// A configuration as a stateright model.
#[derive(Clone, Debug)]
pub(crate) struct Protocol(pub Config);

impl Explorable for Config {
    type Model = Protocol;

    fn name(&self) -> &'static str {
        self.name
    }

    fn size(&self) -> String {
        format!("{} workers, {} crashes", self.workers, self.budget.crashes)
    }

    fn model(&self) -> Protocol {
        Protocol(self.clone())
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::admitted(&self.0)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let workers = &state.workers[..usize::from(self.0.workers)];
        for (index, memory) in workers.iter().enumerate() {
            // Workers are sorted, so a worker equal to its neighbour would repeat its actions.
            if index == 0 || *memory != workers[index - 1] {
                worker::actions(&self.0, state, index, actions);
            }
        }
        service::actions(state, actions);
        lease_actions(state, actions);
        queue_actions(state, actions);
        actors::actions(&self.0, state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        apply(&self.0, &mut next, action);
        Some(next.canonical(&self.0))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

fn lease_actions(state: &State, actions: &mut Vec<Action>) {
    if !state.run.is_running() || state.run.lease_expired {
        return;
    }
    if !state.holder_is_alive() {
        actions.push(Action::LeaseExpires);
    } else if state.left.early_expiries > 0 {
        actions.push(Action::LeaseExpiresEarly);
    }
}

fn queue_actions(state: &State, actions: &mut Vec<Action>) {
    let queue = &state.queue;
    if queue.unsent > 0 && state.left.crashes > 0 {
        actions.push(Action::SenderCrashes);
    }
    if queue.outbox + queue.unsent == 0 || !queue.has_capacity() {
        return;
    }
    actions.push(Action::Relay);
    if queue.outbox > 0 && state.left.duplicates > 0 {
        actions.push(Action::RelayTwice);
    }
}

fn apply(config: &Config, state: &mut State, action: Action) {
    match action {
        Action::Receive(index, handle) | Action::Redeliver(index, handle) => {
            worker::receive(config, state, index, handle);
        }
        Action::Claim(index, reply) => worker::claim(config, state, index, reply),
        Action::ReadAgain(index) => worker::read_again(state, index),
        Action::Revoke(index) => worker::revoke(config, state, index),
        Action::Drain(index) => worker::drain(state, index),
        Action::LookUp(index) => worker::look_up(state, index),
        Action::Perform(index) => worker::perform(config, state, index),
        Action::TimeOut(index) => worker::time_out(state, index),
        Action::Commit(index, continuation, reply) => {
            worker::commit(config, state, index, continuation, reply);
        }
        Action::Delete(index) => worker::delete(state, index),
        Action::Crash(index) => worker::crash(state, index),
        Action::Deliver(request) => service::deliver(config, state, request),
        Action::Refuse(request) => service::refuse(state, request),
        Action::LeaseExpires => state.run.lease_expired = true,
        Action::LeaseExpiresEarly => {
            state.left.early_expiries -= 1;
            state.run.lease_expired = true;
        }
        Action::Relay => relay(state),
        Action::RelayTwice => {
            state.left.duplicates -= 1;
            state.queue.send();
        }
        Action::SenderCrashes => {
            state.left.crashes -= 1;
            state.queue.unsent -= 1;
        }
        Action::Load(decider) => actors::load(state, decider),
        Action::Decide(decider, reply) => actors::decide(config, state, decider, reply),
        Action::LoadToCancel => actors::load_to_cancel(config, state),
        Action::Cancel => actors::cancel(config, state),
        Action::DirectRetry => actors::direct_retry(config, state),
        Action::DirectCancel => actors::direct_cancel(state),
    }
}

/// Sends a message, then removes it from the outbox.
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

    /// Whether every trace from a state ends. `known` has the result for the states visited so far.
    fn all_traces_end(protocol: &Protocol, state: State, known: &mut HashMap<State, bool>) -> bool {
        if let Some(ended) = known.get(&state) {
            return *ended;
        }
        known.insert(state.clone(), false);
        let all_end =
            protocol.next_states(&state).into_iter().all(|next| all_traces_end(protocol, next, known));
        known.insert(state, all_end);
        all_end
    }

    #[test]
    fn every_trace_ends() {
        for config in small_variant().configs {
            let protocol = Protocol(config);
            let initial = State::admitted(&protocol.0);
            assert!(
                all_traces_end(&protocol, initial, &mut HashMap::new()),
                "{} has a cycle",
                protocol.0.name
            );
        }
    }
}
