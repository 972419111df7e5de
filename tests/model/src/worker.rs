//! The worker: receive, claim, perform, commit, delete. What it remembers is in its stage; a crash
//! at any of them loses exactly that. It keeps true that a message is deleted only when its run has
//! nothing to do, and that an effect is never repeated because a reply was lost.

use crate::action::{Action, Reply};
use crate::ledger::{self, Next, Walk};
use crate::service;
use crate::state::{Answer, Handle, Key, Plan, Stage, State, Worker};
use crate::world::{Class, Mutant, World};

/// Collects what the worker at this index may do or suffer.
pub(crate) fn actions(world: &World, state: &State, index: usize, actions: &mut Vec<Action>) {
    let worker = state.workers[index];
    if worker.stage != Stage::Idle && state.left.crashes > 0 {
        actions.push(Action::Crash(index));
    }
    if worker.unsure {
        actions.push(Action::ReadAgain(index));
        return;
    }
    match worker.stage {
        Stage::Idle => receive_actions(world, state, index, actions),
        Stage::Loaded(_) => claim_actions(state, index, actions),
        Stage::Revoking => actions.push(Action::Revoke(index)),
        Stage::Draining if service::is_drained(state, worker) => actions.push(Action::Drain(index)),
        Stage::LookingUp => actions.push(Action::LookUp(index)),
        Stage::Performing if state.service.has_room() => actions.push(Action::Perform(index)),
        Stage::Awaiting if state.left.time_outs > 0 => actions.push(Action::TimeOut(index)),
        Stage::Committing(answer) => commit_actions(state, index, answer, actions),
        Stage::Deleting => actions.push(Action::Delete(index)),
        Stage::Draining | Stage::Performing | Stage::Awaiting => {}
    }
}

/// Messages that nobody holds are interchangeable, so one stands for all of them.
fn receive_actions(world: &World, state: &State, index: usize, actions: &mut Vec<Action>) {
    // To receive a message and leave it again changes nothing.
    if ledger::plan(world, state) == Plan::Leave {
        return;
    }
    let held = |handle: &Handle| state.workers.iter().any(|other| other.message == *handle);
    if let Some(handle) = state.queue.handles().find(|handle| !held(handle)) {
        actions.push(Action::Receive(index, handle));
    }
    let again = state.queue.handles().filter(held);
    actions.extend(again.map(|handle| Action::Redeliver(index, handle)));
}

fn claim_actions(state: &State, index: usize, actions: &mut Vec<Action>) {
    let replies = if state.workers[index].current { replies(state) } else { &[Reply::Heard] };
    actions.extend(replies.iter().map(|reply| Action::Claim(index, *reply)));
}

fn commit_actions(state: &State, index: usize, answer: Answer, actions: &mut Vec<Action>) {
    let walks: &[Walk] = match answer {
        Answer::Done => &[Walk::HandOff, Walk::HandOn],
        Answer::Refused | Answer::Unknown => &[Walk::HandOff],
    };
    for walk in walks {
        actions.extend(replies(state).iter().map(|reply| Action::Commit(index, *walk, *reply)));
    }
}

fn replies(state: &State) -> &'static [Reply] {
    match state.left.lost_replies {
        0 => &[Reply::Heard],
        1.. => &[Reply::Heard, Reply::Lost, Reply::NoneToHear],
    }
}

/// Takes a message and loads its run.
pub(crate) fn receive(world: &World, state: &mut State, index: usize, handle: Handle) {
    let mut message = handle;
    if world.is(Mutant::MessageDeletedBeforeCommit) {
        delete_message(state, handle);
        message = Handle::VOID;
    }
    state.workers[index] = match ledger::plan(world, state) {
        Plan::Nothing => Worker::deleting(message),
        plan @ (Plan::Perform | Plan::LookUp | Plan::Pause | Plan::Cancel) => Worker::loaded(message, plan),
        Plan::Leave => Worker::IDLE,
    };
}

/// Writes what was decided on loading, provided that the run is still as it was loaded.
pub(crate) fn claim(world: &World, state: &mut State, index: usize, reply: Reply) {
    let worker = state.workers[index];
    if !worker.current {
        state.workers[index] = Worker::IDLE;
        return;
    }
    write(state, index, reply, |state| carry_out(world, state, worker));
}

fn carry_out(world: &World, state: &mut State, worker: Worker) -> Worker {
    match worker.stage {
        Stage::Loaded(Plan::Perform) => claim_step(world, state, worker.message, Stage::Performing),
        Stage::Loaded(Plan::LookUp) => claim_step(world, state, worker.message, first_of_look_up(world)),
        Stage::Loaded(Plan::Pause) => {
            let key = ledger::next_key(world, state);
            after(ledger::pause(state, key), state, worker)
        }
        Stage::Loaded(Plan::Cancel) => after(ledger::cancel_at_once(state), state, worker),
        Stage::Loaded(Plan::Leave | Plan::Nothing)
        | Stage::Idle
        | Stage::Revoking
        | Stage::Draining
        | Stage::LookingUp
        | Stage::Performing
        | Stage::Awaiting
        | Stage::Committing(_)
        | Stage::Deleting => Worker::IDLE,
    }
}

fn claim_step(world: &World, state: &mut State, message: Handle, first: Stage) -> Worker {
    let key = ledger::claim(world, state);
    Worker { stage: first, ..holding(state, message, key) }
}

fn first_of_look_up(world: &World) -> Stage {
    if world.is(Mutant::LookUpWithoutRevoke) { Stage::Draining } else { Stage::Revoking }
}

/// Records the outcome, provided that the fence is still this worker's.
pub(crate) fn commit(world: &World, state: &mut State, index: usize, walk: Walk, reply: Reply) {
    let worker = state.workers[index];
    let is_mine = state.run.is_running() && state.run.fence == worker.fence;
    if !is_mine && !world.is(Mutant::NoFenceOnCommit) {
        state.workers[index] = Worker::IDLE;
        return;
    }
    write(state, index, reply, |state| {
        let next = commit_answer(world, state, worker, walk);
        after(next, state, worker)
    });
}

fn commit_answer(world: &World, state: &mut State, worker: Worker, walk: Walk) -> Next {
    match worker.stage {
        Stage::Committing(Answer::Done) => ledger::commit_done(world, state, worker.key, walk),
        Stage::Committing(Answer::Refused) => ledger::commit_refused(state, worker.key),
        Stage::Committing(Answer::Unknown) => ledger::commit_unknown(world, state, worker.key),
        Stage::Idle
        | Stage::Loaded(_)
        | Stage::Revoking
        | Stage::Draining
        | Stage::LookingUp
        | Stage::Performing
        | Stage::Awaiting
        | Stage::Deleting => Next::Retry,
    }
}

fn after(next: Next, state: &State, worker: Worker) -> Worker {
    match next {
        Next::Claimed(key) => holding(state, worker.message, key),
        Next::Retry => Worker::IDLE,
        Next::Delete => Worker::deleting(worker.message),
    }
}

fn holding(state: &State, message: Handle, key: Key) -> Worker {
    Worker { stage: Stage::Performing, message, fence: state.run.fence, key, ..Worker::IDLE }
}

/// One transaction: all of it happens or nothing, and its worker learns which, or does not. Either way
/// it knows what it would be doing now if it had happened.
fn write(state: &mut State, index: usize, reply: Reply, transaction: impl FnOnce(&mut State) -> Worker) {
    let mut written = state.clone();
    written.outdate_snapshots();
    let next = transaction(&mut written);
    state.left.lost_replies -= u8::from(reply != Reply::Heard);
    written.left = state.left;
    match reply {
        Reply::Heard => *state = written.with(index, next),
        Reply::Lost => *state = written.with(index, next.unsure(true)),
        Reply::NoneToHear => state.workers[index] = next.unsure(false),
    }
}

/// Goes on if the stored `op_id` is its own, and otherwise drops everything: its write never arrived, or
/// somebody has written since. A lease that it may hold will lapse.
pub(crate) fn read_again(state: &mut State, index: usize) {
    let worker = &mut state.workers[index];
    *worker = if worker.current { Worker { unsure: false, current: false, ..*worker } } else { Worker::IDLE };
}

/// Sends the request. Nothing here asks whether the lease still stands: a frozen worker would not.
pub(crate) fn perform(world: &World, state: &mut State, index: usize) {
    let worker = state.workers[index];
    let is_read = world.class(worker.key.effect().step()) == Class::ReadOnly;
    if is_read {
        state.workers[index].stage = Stage::Committing(Answer::Done);
        return;
    }
    service::send(state, worker);
    state.workers[index].stage = Stage::Awaiting;
}

/// Shuts out every holder before this one.
pub(crate) fn revoke(world: &World, state: &mut State, index: usize) {
    let worker = &mut state.workers[index];
    state.service.revoked_below = state.service.revoked_below.max(worker.fence);
    worker.stage = if world.is(Mutant::LookUpWithoutDrain) { Stage::LookingUp } else { Stage::Draining };
}

/// Asks the service whether the effect has happened.
pub(crate) fn look_up(state: &mut State, index: usize) {
    let worker = &mut state.workers[index];
    let found = state.service.happened(worker.key.effect()) > 0;
    worker.stage = if found { Stage::Committing(Answer::Done) } else { Stage::Performing };
}

/// Stops waiting for the answer, not knowing what became of the request.
pub(crate) fn time_out(state: &mut State, index: usize) {
    state.left.time_outs -= 1;
    state.workers[index].stage = Stage::Committing(Answer::Unknown);
}

/// Has seen the service carry out all it had accepted from earlier holders.
pub(crate) fn drain(state: &mut State, index: usize) {
    state.workers[index].stage = Stage::LookingUp;
}

/// Forgets everything. A message nobody holds is one that anybody may receive.
pub(crate) fn crash(state: &mut State, index: usize) {
    state.left.crashes -= 1;
    state.workers[index] = Worker::IDLE;
}

/// Deletes the message and is free for another.
pub(crate) fn delete(state: &mut State, index: usize) {
    delete_message(state, state.workers[index].message);
    state.workers[index] = Worker::IDLE;
}

/// Whoever else had received the message is left with a handle that deletes nothing.
fn delete_message(state: &mut State, handle: Handle) {
    state.queue.delete(handle);
    for worker in &mut state.workers {
        if worker.message == handle {
            worker.message = Handle::VOID;
        }
    }
}
