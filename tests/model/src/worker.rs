//! The worker: receive, claim, perform, commit, delete. Its memory is in its stage, and a crash loses it. Two
//! invariants: a message is deleted only when its run has no work, and a lost reply never causes an effect to
//! be repeated.

use crate::action::{Action, Reply};
use crate::config::{Class, Config, Mutant};
use crate::ledger::{self, Continuation, Next};
use crate::service;
use crate::state::{Answer, Handle, Key, Plan, Stage, State, Worker};

/// Collects the actions and faults of the worker at this index.
pub(crate) fn actions(config: &Config, state: &State, index: usize, actions: &mut Vec<Action>) {
    let worker = state.workers[index];
    if worker.stage != Stage::Idle && state.left.crashes > 0 {
        actions.push(Action::Crash(index));
    }
    if worker.reply_lost {
        actions.push(Action::ReadAgain(index));
        return;
    }
    match worker.stage {
        Stage::Idle => receive_actions(config, state, index, actions),
        Stage::Loaded(_) => claim_actions(state, index, actions),
        Stage::Revoking => actions.push(Action::Revoke(index)),
        Stage::Draining if service::is_drained(state, worker) => actions.push(Action::Drain(index)),
        Stage::LookingUp => actions.push(Action::LookUp(index)),
        Stage::Performing if state.service.has_capacity() => actions.push(Action::Perform(index)),
        Stage::Awaiting if state.left.time_outs > 0 => actions.push(Action::TimeOut(index)),
        Stage::Committing(answer) => commit_actions(state, index, answer, actions),
        Stage::Deleting => actions.push(Action::Delete(index)),
        Stage::Draining | Stage::Performing | Stage::Awaiting => {}
    }
}

/// Messages that no worker holds are interchangeable, so one represents them all.
fn receive_actions(config: &Config, state: &State, index: usize, actions: &mut Vec<Action>) {
    // Receiving a message and leaving it changes nothing.
    if ledger::plan(config, state) == Plan::Leave {
        return;
    }
    let held = |handle: &Handle| state.workers.iter().any(|other| other.message == *handle);
    if let Some(handle) = state.queue.handles().find(|handle| !held(handle)) {
        actions.push(Action::Receive(index, handle));
    }
    let redelivered = state.queue.handles().filter(held);
    actions.extend(redelivered.map(|handle| Action::Redeliver(index, handle)));
}

fn claim_actions(state: &State, index: usize, actions: &mut Vec<Action>) {
    let replies = if state.workers[index].current { replies(state) } else { &[Reply::Received] };
    actions.extend(replies.iter().map(|reply| Action::Claim(index, *reply)));
}

fn commit_actions(state: &State, index: usize, answer: Answer, actions: &mut Vec<Action>) {
    let continuations: &[Continuation] = match answer {
        Answer::Done => &[Continuation::HandOff, Continuation::Enqueue],
        Answer::Refused | Answer::Unknown => &[Continuation::HandOff],
    };
    for continuation in continuations {
        actions.extend(replies(state).iter().map(|reply| Action::Commit(index, *continuation, *reply)));
    }
}

fn replies(state: &State) -> &'static [Reply] {
    match state.left.lost_replies {
        0 => &[Reply::Received],
        1.. => &[Reply::Received, Reply::Lost, Reply::RequestLost],
    }
}

/// Receives a message and loads its run.
pub(crate) fn receive(config: &Config, state: &mut State, index: usize, handle: Handle) {
    let mut message = handle;
    if config.has(Mutant::MessageDeletedBeforeCommit) {
        delete_message(state, handle);
        message = Handle::VOID;
    }
    state.workers[index] = match ledger::plan(config, state) {
        Plan::Nothing => Worker::deleting(message),
        plan @ (Plan::Perform | Plan::LookUp | Plan::Pause | Plan::Cancel) => Worker::loaded(message, plan),
        Plan::Leave => Worker::IDLE,
    };
}

/// Writes the decision made on loading, if the run has not changed since.
pub(crate) fn claim(config: &Config, state: &mut State, index: usize, reply: Reply) {
    let worker = state.workers[index];
    if !worker.current {
        state.workers[index] = Worker::IDLE;
        return;
    }
    write(state, index, reply, |state| execute_plan(config, state, worker));
}

fn execute_plan(config: &Config, state: &mut State, worker: Worker) -> Worker {
    match worker.stage {
        Stage::Loaded(Plan::Perform) => claim_step(config, state, worker.message, Stage::Performing),
        Stage::Loaded(Plan::LookUp) => claim_step(config, state, worker.message, first_look_up_stage(config)),
        Stage::Loaded(Plan::Pause) => {
            let key = ledger::next_key(config, state);
            worker_after(ledger::pause(state, key), state, worker)
        }
        Stage::Loaded(Plan::Cancel) => worker_after(ledger::cancel_at_once(state), state, worker),
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

fn claim_step(config: &Config, state: &mut State, message: Handle, first: Stage) -> Worker {
    let key = ledger::claim(config, state);
    Worker { stage: first, ..claimed_worker(state, message, key) }
}

fn first_look_up_stage(config: &Config) -> Stage {
    if config.has(Mutant::LookUpWithoutRevoke) { Stage::Draining } else { Stage::Revoking }
}

/// Records the outcome, if the worker still holds the fence.
pub(crate) fn commit(
    config: &Config,
    state: &mut State,
    index: usize,
    continuation: Continuation,
    reply: Reply,
) {
    let worker = state.workers[index];
    let is_mine = state.run.is_running() && state.run.fence == worker.fence;
    if !is_mine && !config.has(Mutant::NoFenceOnCommit) {
        state.workers[index] = Worker::IDLE;
        return;
    }
    write(state, index, reply, |state| {
        let next = commit_answer(config, state, worker, continuation);
        worker_after(next, state, worker)
    });
}

fn commit_answer(config: &Config, state: &mut State, worker: Worker, continuation: Continuation) -> Next {
    match worker.stage {
        Stage::Committing(Answer::Done) => ledger::commit_done(config, state, worker.key, continuation),
        Stage::Committing(Answer::Refused) => ledger::commit_refused(state, worker.key),
        Stage::Committing(Answer::Unknown) => ledger::commit_unknown(config, state, worker.key),
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

fn worker_after(next: Next, state: &State, worker: Worker) -> Worker {
    match next {
        Next::Claimed(key) => claimed_worker(state, worker.message, key),
        Next::Retry => Worker::IDLE,
        Next::Delete => Worker::deleting(worker.message),
    }
}

fn claimed_worker(state: &State, message: Handle, key: Key) -> Worker {
    Worker { stage: Stage::Performing, message, fence: state.run.fence, key, ..Worker::IDLE }
}

/// One atomic transaction. Its worker may not learn whether it was committed, but in both cases knows its next
/// stage if it was.
fn write(state: &mut State, index: usize, reply: Reply, transaction: impl FnOnce(&mut State) -> Worker) {
    let mut written = state.clone();
    written.outdate_snapshots();
    let next = transaction(&mut written);
    state.left.lost_replies -= u8::from(reply != Reply::Received);
    written.left = state.left;
    match reply {
        Reply::Received => *state = written.with(index, next),
        Reply::Lost => *state = written.with(index, next.with_lost_reply(true)),
        Reply::RequestLost => state.workers[index] = next.with_lost_reply(false),
    }
}

/// Continues if the stored `op_id` is its own. Otherwise the write never arrived or another actor has written
/// since: the worker drops its work, and a lease that it may hold expires.
pub(crate) fn read_again(state: &mut State, index: usize) {
    let worker = &mut state.workers[index];
    *worker =
        if worker.current { Worker { reply_lost: false, current: false, ..*worker } } else { Worker::IDLE };
}

/// Sends the request without checking the lease again: a worker that froze after its check would not.
pub(crate) fn perform(config: &Config, state: &mut State, index: usize) {
    let worker = state.workers[index];
    let is_read = config.class(worker.key.effect().step()) == Class::ReadOnly;
    if is_read {
        state.workers[index].stage = Stage::Committing(Answer::Done);
        return;
    }
    service::send(state, worker);
    state.workers[index].stage = Stage::Awaiting;
}

/// Revokes the credentials of all earlier holders.
pub(crate) fn revoke(config: &Config, state: &mut State, index: usize) {
    let worker = &mut state.workers[index];
    state.service.revoked_below = state.service.revoked_below.max(worker.fence);
    worker.stage = if config.has(Mutant::LookUpWithoutDrain) { Stage::LookingUp } else { Stage::Draining };
}

/// Asks the service whether the effect has happened.
pub(crate) fn look_up(state: &mut State, index: usize) {
    let worker = &mut state.workers[index];
    let found = state.service.happened(worker.key.effect()) > 0;
    worker.stage = if found { Stage::Committing(Answer::Done) } else { Stage::Performing };
}

/// Stops waiting for the answer; the outcome of the request is unknown.
pub(crate) fn time_out(state: &mut State, index: usize) {
    state.left.time_outs -= 1;
    state.workers[index].stage = Stage::Committing(Answer::Unknown);
}

/// The service has carried out everything it had accepted from earlier holders.
pub(crate) fn drain(state: &mut State, index: usize) {
    state.workers[index].stage = Stage::LookingUp;
}

/// Erases the worker's memory. Its message becomes visible to every worker.
pub(crate) fn crash(state: &mut State, index: usize) {
    state.left.crashes -= 1;
    state.workers[index] = Worker::IDLE;
}

pub(crate) fn delete(state: &mut State, index: usize) {
    delete_message(state, state.workers[index].message);
    state.workers[index] = Worker::IDLE;
}

/// Other receivers of the message keep a handle that deletes nothing.
fn delete_message(state: &mut State, handle: Handle) {
    state.queue.delete(handle);
    for worker in &mut state.workers {
        if worker.message == handle {
            worker.message = Handle::VOID;
        }
    }
}
