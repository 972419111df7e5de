//! The external service and the network in front of it. A request may arrive at any time after it was sent,
//! even if its sender has crashed. A lost request is one that never arrives; every prefix of such a trace is
//! explored. An answer reaches a sender that still waits for it.

use crate::action::Action;
use crate::config::{Class, Config};
use crate::state::{Answer, Effect, Request, Service, Stage, State, Worker};

/// Collects what may happen to requests in transit.
pub(crate) fn actions(state: &State, actions: &mut Vec<Action>) {
    for request in state.service.requests() {
        actions.push(Action::Deliver(request));
        if state.left.refusals > 0 && !request.accepted {
            actions.push(Action::Refuse(request));
        }
    }
}

pub(crate) fn send(state: &mut State, worker: Worker) {
    state.service.add_request(Request { fence: worker.fence, key: worker.key, accepted: false });
}

/// Whether the service has carried out everything it accepted from earlier holders.
pub(crate) fn is_drained(state: &State, worker: Worker) -> bool {
    let mut requests = state.service.requests();
    !requests.any(|request| request.accepted && request.fence < worker.fence)
}

/// Advances a request one step: accepts it, or carries it out.
pub(crate) fn deliver(config: &Config, state: &mut State, request: Request) {
    state.service.remove(request);
    let is_look_up = config.class(request.key.effect().step()) == Class::LookUp;
    if !is_look_up || request.accepted {
        execute(config, &mut state.service, request);
        answer(state, request, Answer::Done);
    } else if request.fence < state.service.revoked_below {
        reject(state, request);
    } else {
        let accepted = true;
        state.service.add_request(Request { accepted, ..request });
    }
}

/// Refuses a request, for a reason of the service's own.
pub(crate) fn refuse(state: &mut State, request: Request) {
    state.left.refusals -= 1;
    state.service.remove(request);
    answer(state, request, Answer::Refused);
}

/// A rejected credential means that another worker has taken over; the sender drops its work.
fn reject(state: &mut State, request: Request) {
    for worker in &mut state.workers {
        if worker.stage == Stage::Awaiting && worker.fence == request.fence {
            *worker = Worker::IDLE;
        }
    }
}

fn execute(config: &Config, service: &mut Service, request: Request) {
    if has_effect(config, service, request) {
        service.happened[request.key.effect().index()] += 1;
    }
    service.keys_seen |= request.key.bit();
}

/// Whether the request has an effect. To its sender, a repetition looks successful.
fn has_effect(config: &Config, service: &Service, request: Request) -> bool {
    match config.class(request.key.effect().step()) {
        Class::ReadOnly => false,
        Class::NativeKey => service.keys_seen & request.key.bit() == 0,
        Class::CompareAndSet => precondition_holds(service, request),
        Class::LookUp | Class::Opaque => true,
    }
}

/// An action expects the object unchanged; an undo expects it changed. Both make a new version.
fn precondition_holds(service: &Service, request: Request) -> bool {
    let effect = request.key.effect();
    let done = service.happened(Effect::new(effect.step(), false));
    let undone = service.happened(Effect::new(effect.step(), true));
    done + undone == u8::from(effect.is_undo())
}

fn answer(state: &mut State, request: Request, answer: Answer) {
    for worker in &mut state.workers {
        if worker.stage == Stage::Awaiting && worker.fence == request.fence {
            worker.stage = Stage::Committing(answer);
        }
    }
}
