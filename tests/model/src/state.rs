//! One state: the ledger, the queue, the workers' memory, the external service, and the users. It is small
//! and flat because millions of states are held in memory. It is canonical: two states that differ only in
//! the order of workers or requests are equal.

use crate::config::{Budget, Config, Step};

/// Three steps allow an effect before and after a wait.
const STEP_COUNT: u8 = 3;
pub(crate) const STEPS_MAX: usize = STEP_COUNT as usize;
/// Each step may be done and undone.
const EFFECT_COUNT: u8 = STEP_COUNT * 2;
pub(crate) const EFFECTS: usize = EFFECT_COUNT as usize;
/// Only the mutant `key per attempt` distinguishes attempts; its second attempt is enough to catch it.
const ATTEMPTS_KEYED: u8 = 3;
/// One receipt for each key.
const KEYS: usize = EFFECTS * ATTEMPTS_KEYED as usize;
/// The `ci` configurations have three workers; one of the `long` ones has four.
pub(crate) const WORKERS_MAX: usize = 4;
/// All messages are equal, so more of them add no behavior.
const MESSAGES_MAX: u8 = 3;
/// The current holder's request and two of earlier holders; a fourth waits until one has arrived.
const REQUESTS_MAX: usize = 3;

/// A number that only grows. A holder's credential is bound to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Fence(pub u8);

/// An effect in the external service: a step's action, or its undo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Effect(u8);

impl Effect {
    pub(crate) const fn new(step: u8, undo: bool) -> Self {
        Self(step * 2 + undo as u8)
    }
    pub(crate) const fn step(self) -> u8 {
        self.0 / 2
    }
    pub(crate) const fn is_undo(self) -> bool {
        self.0 % 2 == 1
    }
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..EFFECT_COUNT).map(Self)
    }
}

/// An idempotency key: names the effect, and under one mutant the attempt too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(u8);

impl Key {
    pub(crate) const fn of(effect: Effect) -> Self {
        Self(effect.0)
    }
    pub(crate) fn of_attempt(effect: Effect, attempt: u8) -> Self {
        Self(effect.0 + attempt.min(ATTEMPTS_KEYED - 1) * EFFECT_COUNT)
    }
    pub(crate) const fn effect(self) -> Effect {
        Effect(self.0 % EFFECT_COUNT)
    }
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
    pub(crate) const fn bit(self) -> u32 {
        1 << self.0
    }
}

/// The run's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Status {
    Active,
    Paused,
    Succeeded,
    Failed,
    Canceled,
}

/// The status of the run's current step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Live {
    Ready,
    Running,
    FailedRetryable,
    Waiting,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Pending,
    Succeeded,
    Failed,
    RolledBack,
    Canceled,
}

/// How a wait was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Decision {
    Open,
    Approved,
    TimedOut,
    Canceled,
}

/// The run's record. It has no version: a version is only compared for equality, so each reader stores the
/// result of that comparison instead (`current`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Run {
    pub status: Status,
    pub pointer: u8,
    pub live: Live,
    pub undoing: bool,
    pub attempt: u8,
    pub fence: Fence,
    pub lease_expired: bool,
    pub cancel_requested: bool,
    pub decision: Decision,
    pub outcomes: [Outcome; STEPS_MAX],
}

impl Run {
    /// The next effect of the current step.
    pub(crate) const fn effect(&self) -> Effect {
        Effect::new(self.pointer, self.undoing)
    }
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.status, Status::Succeeded | Status::Failed | Status::Canceled)
    }
    pub(crate) fn is_running(&self) -> bool {
        self.status == Status::Active && self.live == Live::Running
    }
    pub(crate) fn is_waiting(&self) -> bool {
        self.status == Status::Active && self.live == Live::Waiting
    }
    /// Whether a worker must act next.
    pub(crate) fn has_work(&self) -> bool {
        self.status == Status::Active && self.live != Live::Waiting
    }
}

/// The ledger's state of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Receipt {
    Absent,
    /// The first attempt is in progress, or the previous one was refused and this is the next.
    Intent,
    /// An attempt is in progress, and an earlier one may still have its effect.
    IntentAgain,
    Done,
    Failed,
    /// The outcome is unknown and a person must decide.
    Unknown,
}

impl Receipt {
    /// Whether a request with this key may have been sent and not been refused.
    pub(crate) const fn may_have_happened(self) -> bool {
        match self {
            Self::Intent | Self::IntentAgain | Self::Done | Self::Unknown => true,
            Self::Absent | Self::Failed => false,
        }
    }
}

/// The receipt handle by which a receiver deletes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Handle(u8);

impl Handle {
    /// The handle of a deleted message.
    pub(crate) const VOID: Self = Self(u8::MAX);

    const fn bit(self) -> u8 {
        1 << self.0
    }
}

/// Messages in the queue, messages in the outbox, and, under one mutant, messages that exist only in the
/// memory of the process that is about to send them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Queue {
    messages: u8,
    pub outbox: u8,
    pub unsent: u8,
}

impl Queue {
    pub(crate) fn handles(&self) -> impl Iterator<Item = Handle> + use<> {
        let messages = self.messages;
        (0..MESSAGES_MAX).map(Handle).filter(move |handle| messages & handle.bit() != 0)
    }
    pub(crate) fn has_capacity(&self) -> bool {
        self.handles().count() < usize::from(MESSAGES_MAX)
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.messages == 0 && self.outbox == 0
    }
    pub(crate) fn send(&mut self) {
        let free = (0..MESSAGES_MAX).map(Handle).find(|handle| self.messages & handle.bit() == 0);
        if let Some(handle) = free {
            self.messages |= handle.bit();
        }
    }
    pub(crate) fn delete(&mut self, handle: Handle) {
        if handle != Handle::VOID {
            self.messages &= !handle.bit();
        }
    }
}

/// What a worker decides to do after it has loaded the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Plan {
    /// Claim the step and perform its effect.
    Perform,
    /// Claim the step and look up whether its effect has happened.
    LookUp,
    /// Record that the outcome is unknown, and pause for a person.
    Pause,
    /// Honour a cancel while no effect can have happened.
    Cancel,
    /// Another worker holds the step; leave the message in the queue.
    Leave,
    /// There is no work; delete the message.
    Nothing,
}

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Stage {
    Idle,
    Loaded(Plan),
    Revoking,
    Draining,
    LookingUp,
    Performing,
    Awaiting,
    Committing(Answer),
    Deleting,
}

/// The outcome of the effect, as the worker knows it at commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Answer {
    Done,
    Refused,
    Unknown,
}

/// A worker's memory. A crash erases all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Worker {
    pub stage: Stage,
    /// The reply to the write that led to this stage was lost.
    pub reply_lost: bool,
    /// No other actor has written the record since this worker read or wrote it: the stored version is the
    /// loaded one, or the stored `op_id` is its own.
    pub current: bool,
    pub message: Handle,
    pub fence: Fence,
    pub key: Key,
}

impl Worker {
    pub(crate) const IDLE: Self = Self {
        stage: Stage::Idle,
        reply_lost: false,
        current: false,
        message: Handle::VOID,
        fence: Fence(0),
        key: Key(0),
    };

    pub(crate) const fn loaded(message: Handle, plan: Plan) -> Self {
        Self { stage: Stage::Loaded(plan), current: true, message, ..Self::IDLE }
    }
    pub(crate) const fn deleting(message: Handle) -> Self {
        Self { stage: Stage::Deleting, message, ..Self::IDLE }
    }
    /// A worker that did not receive the reply to its write must read the record before it continues.
    pub(crate) fn with_lost_reply(self, current: bool) -> Self {
        match self.stage {
            Stage::Idle => self,
            _ => Self { reply_lost: true, current, ..self },
        }
    }
    pub(crate) fn holds(self, fence: Fence) -> bool {
        self.fence == fence && self.is_holder()
    }
    /// Whether the worker continues as the holder of the step, rightly or not.
    pub(crate) fn is_holder(self) -> bool {
        let continues = !self.reply_lost || self.current;
        continues && !matches!(self.stage, Stage::Idle | Stage::Loaded(_) | Stage::Deleting)
    }
}

/// A request in transit to the service, or accepted and not yet carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Request {
    pub fence: Fence,
    pub key: Key,
    pub accepted: bool,
}

/// The true state of the external service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Service {
    /// How often each effect has happened.
    pub happened: [u8; EFFECTS],
    /// Keys that the service has stored, for `NativeKey`.
    pub keys_seen: u32,
    /// Credentials with smaller fences are rejected.
    pub revoked_below: Fence,
    requests: [Option<Request>; REQUESTS_MAX],
}

impl Service {
    pub(crate) fn happened(&self, effect: Effect) -> u8 {
        self.happened[effect.index()]
    }
    pub(crate) fn requests(&self) -> impl Iterator<Item = Request> + '_ {
        self.requests.iter().flatten().copied()
    }
    pub(crate) fn has_capacity(&self) -> bool {
        self.requests().count() < REQUESTS_MAX
    }
    pub(crate) fn add_request(&mut self, request: Request) {
        if let Some(slot) = self.requests.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(request);
        }
    }
    pub(crate) fn remove(&mut self, request: Request) {
        for slot in &mut self.requests {
            if *slot == Some(request) {
                *slot = None;
            }
        }
    }
}

/// The actors that resolve a wait, apart from the operator who cancels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Decider {
    /// Delivers the event or the approval.
    Approver,
    /// Fires the time-out.
    Timer,
}

impl Decider {
    pub(crate) const ALL: [Self; 2] = [Self::Approver, Self::Timer];

    pub(crate) const fn decision(self) -> Decision {
        match self {
            Self::Approver => Decision::Approved,
            Self::Timer => Decision::TimedOut,
        }
    }
}

/// Progress of an actor that reads the record, decides, and writes conditionally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DeciderState {
    Idle,
    Loaded { current: bool },
    Answered(Decision),
}

/// Progress of the operator with the cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operator {
    Idle,
    /// `at_once` is decided on loading: end the run at once, or ask its worker to.
    Loaded {
        current: bool,
        at_once: bool,
    },
    Finished,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) run: Run,
    pub(crate) receipts: [Receipt; KEYS],
    /// An event that arrived before its wait was open.
    pub(crate) signal: bool,
    pub(crate) queue: Queue,
    pub(crate) workers: [Worker; WORKERS_MAX],
    pub(crate) service: Service,
    pub(crate) deciders: [DeciderState; 2],
    pub(crate) operator: Operator,
    pub(crate) left: Budget,
    /// Only for the properties: how often a person decided to retry each effect.
    pub(crate) person_retries: [u8; EFFECTS],
    /// Only for the properties: a step that had ended has ended again.
    pub(crate) ended_again: bool,
}

impl State {
    /// An admitted run: its record is durable and, if a worker is needed, its message is sent.
    pub(crate) fn admitted(config: &Config) -> Self {
        let mut state = Self {
            run: new_run(config),
            receipts: [Receipt::Absent; KEYS],
            signal: false,
            queue: Queue::default(),
            workers: [Worker::IDLE; WORKERS_MAX],
            service: Service {
                happened: [0; EFFECTS],
                keys_seen: 0,
                revoked_below: Fence(0),
                requests: [None; REQUESTS_MAX],
            },
            deciders: [DeciderState::Idle; 2],
            operator: Operator::Idle,
            left: config.budget,
            person_retries: [0; EFFECTS],
            ended_again: false,
        };
        if state.run.has_work() {
            state.queue.send();
        }
        state
    }

    pub(crate) fn with(mut self, index: usize, worker: Worker) -> Self {
        self.workers[index] = worker;
        self
    }

    /// Workers are interchangeable, and so are the slots of requests.
    pub(crate) fn canonical(mut self, config: &Config) -> Self {
        self.workers[..usize::from(config.workers)].sort_unstable();
        self.service.requests.sort_unstable();
        self
    }

    /// Every write changes the version and the stored `op_id`.
    pub(crate) fn outdate_snapshots(&mut self) {
        for worker in &mut self.workers {
            worker.current = false;
        }
        for decider in &mut self.deciders {
            if let DeciderState::Loaded { current } = decider {
                *current = false;
            }
        }
        if let Operator::Loaded { current, .. } = &mut self.operator {
            *current = false;
        }
    }

    /// Whether a live worker acts as the holder of the current lease.
    pub(crate) fn holder_is_alive(&self) -> bool {
        let fence = self.run.fence;
        self.workers.iter().any(|worker| worker.holds(fence))
    }
}

fn new_run(config: &Config) -> Run {
    Run {
        status: Status::Active,
        pointer: 0,
        live: match config.steps[0] {
            Step::Act(_) => Live::Ready,
            Step::Wait => Live::Waiting,
        },
        undoing: false,
        attempt: 0,
        fence: Fence(0),
        lease_expired: false,
        cancel_requested: false,
        decision: Decision::Open,
        outcomes: [Outcome::Pending; STEPS_MAX],
    }
}
