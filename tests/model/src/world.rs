//! What a world contains: how many workers, which steps, how much may go wrong, and which rule of
//! the protocol, if any, has been taken out. A world is the whole input of a check; nothing else
//! decides what is explored.

use serde::Serialize;

use crate::state::{STEPS_MAX, WORKERS_MAX};

/// What a tool declares about repeating its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Changes nothing outside; it has no receipt.
    ReadOnly,
    /// The service remembers the idempotency key and answers a repetition without acting.
    NativeKey,
    /// The service acts only while its object still has the version the request names.
    CompareAndSet,
    /// The service acts on every request it accepts, but can be asked whether it has acted.
    LookUp,
    /// None of these: the service acts on every request and cannot be asked.
    Opaque,
}

/// One step of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A tool call of the given class.
    Act(Class),
    /// A wait for an event or an approval, with a time-out.
    Wait,
}

/// How often each thing may still go wrong, or be said by a person. What a budget limits is never
/// needed for progress: a dead worker's lease lapses and its message returns for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Budget {
    /// A process dies and forgets everything it held in memory.
    pub crashes: u8,
    /// A lease lapses although its holder is alive: frozen, slow, or judged by a wrong clock.
    pub early_expiries: u8,
    /// A promised message is sent twice. To receive one message twice needs no budget.
    pub duplicates: u8,
    /// A write is committed and the reply to it is lost.
    pub lost_replies: u8,
    /// A worker stops waiting for a service's answer.
    pub time_outs: u8,
    /// A service says no, and has done nothing.
    pub refusals: u8,
    /// A person looks at a paused run and says what shall happen.
    pub directives: u8,
}

/// A rule taken out of the protocol. Each is one branch in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A worker's commit is accepted whatever the fence.
    NoFenceOnCommit,
    /// A claim leaves no receipt behind.
    NoIntent,
    /// The idempotency key names the attempt as well as the step.
    KeyPerAttempt,
    /// The old holder's credential still works while the service is asked.
    LookUpWithoutRevoke,
    /// The service is asked while it still has accepted requests to carry out.
    LookUpWithoutDrain,
    /// A cancel is written over whatever happened since the operator looked.
    UnguardedCancel,
    /// A message is deleted when it is received.
    MessageDeletedBeforeCommit,
    /// The wake-up message is sent by the process that committed, after its commit.
    OutboxOutsideTheTransaction,
    /// A decision is written over an earlier one.
    UnconditionalDecision,
    /// An effect that cannot be asked about is repeated when its outcome is unknown.
    RetryOnUnknownOutcome,
}

impl Mutant {
    /// Every mutant, in the order of the reports.
    pub const ALL: [Self; 10] = [
        Self::NoFenceOnCommit,
        Self::NoIntent,
        Self::KeyPerAttempt,
        Self::LookUpWithoutRevoke,
        Self::LookUpWithoutDrain,
        Self::UnguardedCancel,
        Self::MessageDeletedBeforeCommit,
        Self::OutboxOutsideTheTransaction,
        Self::UnconditionalDecision,
        Self::RetryOnUnknownOutcome,
    ];

    /// The name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoFenceOnCommit => "no fence on commit",
            Self::NoIntent => "no intent",
            Self::KeyPerAttempt => "key per attempt",
            Self::LookUpWithoutRevoke => "look-up without revoke",
            Self::LookUpWithoutDrain => "look-up without drain",
            Self::UnguardedCancel => "unguarded cancel",
            Self::MessageDeletedBeforeCommit => "message deleted before commit",
            Self::OutboxOutsideTheTransaction => "outbox outside the transaction",
            Self::UnconditionalDecision => "unconditional decision",
            Self::RetryOnUnknownOutcome => "retry on unknown outcome",
        }
    }
}

/// Everything a check is about.
#[derive(Clone, Debug, Serialize)]
pub struct World {
    /// The name used in reports.
    pub name: &'static str,
    /// How many workers share the queue.
    pub workers: u8,
    /// The steps of the one run.
    pub steps: &'static [Step],
    /// What may go wrong.
    pub budget: Budget,
    /// Whether an operator may ask for the run to be canceled, once.
    pub cancel: bool,
    /// The rule that is missing, if one is.
    #[serde(skip)]
    pub mutant: Option<Mutant>,
}

impl World {
    /// A world in which nothing goes wrong until a budget says so.
    ///
    /// # Panics
    /// If the world is larger than the state has room for.
    #[must_use]
    pub fn new(name: &'static str, workers: u8, steps: &'static [Step], budget: Budget) -> Self {
        assert!(usize::from(workers) <= WORKERS_MAX && steps.len() <= STEPS_MAX);
        Self { name, workers, steps, budget, cancel: false, mutant: None }
    }

    /// The same world with an operator in it.
    #[must_use]
    pub fn with_cancel(self) -> Self {
        Self { cancel: true, ..self }
    }

    /// The same world with a rule missing.
    #[must_use]
    pub fn without_rule_of(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    /// Whether this is the world in which the given rule is missing.
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// What the step's tool declares; a wait touches nothing.
    pub(crate) fn class(&self, step: u8) -> Class {
        match self.steps[usize::from(step)] {
            Step::Act(class) => class,
            Step::Wait => Class::ReadOnly,
        }
    }

    /// The step that waits, if the run has one.
    pub(crate) fn wait(&self) -> Option<u8> {
        (0..).zip(self.steps).find_map(|(step, kind)| (*kind == Step::Wait).then_some(step))
    }
}
