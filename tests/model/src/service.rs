//! The service outside, and the network before it. A request may arrive at any time after it was
//! sent, however little is left of its sender; one that is lost is one that never arrives, and every
//! beginning of such a story is explored. Answers reach a sender that still waits for them.

use crate::action::Action;
use crate::state::{Answer, Effect, Request, Service, Stage, State, Worker};
use crate::world::{Class, World};

/// Collects what may happen to requests under way.
pub(crate) fn actions(state: &State, actions: &mut Vec<Action>) {
    for request in state.service.requests() {
        actions.push(Action::Deliver(request));
        if state.left.refusals > 0 && !request.accepted {
            actions.push(Action::Refuse(request));
        }
    }
}

/// Puts the worker's request on its way.
pub(crate) fn send(state: &mut State, worker: Worker) {
    state.service.put(Request { fence: worker.fence, key: worker.key, accepted: false });
}

/// Whether the service has carried out everything it accepted from earlier holders.
pub(crate) fn is_drained(state: &State, worker: Worker) -> bool {
    let mut requests = state.service.requests();
    !requests.any(|request| request.accepted && request.fence < worker.fence)
}

/// Moves a request one step on: to the service, or from its doorstep into effect.
pub(crate) fn deliver(world: &World, state: &mut State, request: Request) {
    state.service.remove(request);
    let is_look_up = world.class(request.key.effect().step()) == Class::LookUp;
    if !is_look_up || request.accepted {
        carry_out(world, &mut state.service, request);
        answer(state, request, Answer::Done);
    } else if request.fence < state.service.revoked_below {
        turn_away(state, request);
    } else {
        let accepted = true;
        state.service.put(Request { accepted, ..request });
    }
}

/// Says no, for a reason of the service's own.
pub(crate) fn refuse(state: &mut State, request: Request) {
    state.left.refusals -= 1;
    state.service.remove(request);
    answer(state, request, Answer::Refused);
}

/// A revoked credential tells its bearer that somebody has taken over.
fn turn_away(state: &mut State, request: Request) {
    for worker in &mut state.workers {
        if worker.stage == Stage::Awaiting && worker.fence == request.fence {
            *worker = Worker::IDLE;
        }
    }
}

fn carry_out(world: &World, service: &mut Service, request: Request) {
    if happens(world, service, request) {
        service.happened[request.key.effect().index()] += 1;
    }
    service.keys_seen |= request.key.bit();
}

/// What each class of service promises about a repetition. To its sender, a repetition looks done.
fn happens(world: &World, service: &Service, request: Request) -> bool {
    match world.class(request.key.effect().step()) {
        Class::ReadOnly => false,
        Class::NativeKey => service.keys_seen & request.key.bit() == 0,
        Class::CompareAndSet => precondition_holds(service, request),
        Class::LookUp | Class::Opaque => true,
    }
}

/// Doing expects the object untouched; undoing expects it done. Either makes a new version.
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
