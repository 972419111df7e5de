//! A configuration: the number of workers, the steps, the fault budget, and the rule removed by a mutant, if
//! any. It is the whole input of a check.

use serde::Serialize;

use crate::state::{STEPS_MAX, WORKERS_MAX};

/// The effect class of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Class {
    /// Has no effect, hence no receipt.
    ReadOnly,
    /// The service stores the idempotency key and answers a repetition without acting.
    NativeKey,
    /// The service acts only while its object has the version that the request names.
    CompareAndSet,
    /// The service acts on every accepted request, but reports whether it has acted.
    LookUp,
    /// The service acts on every request and cannot report whether it has acted.
    Opaque,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// A tool call.
    Act(Class),
    /// A wait for an event or an approval, with a time-out.
    Wait,
}

/// How often each fault, and each decision of a person, may still happen. Progress never depends on a budget:
/// a crashed worker's lease expires and its message returns without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct Budget {
    /// A process crashes and loses its memory.
    pub crashes: u8,
    /// A lease expires while its holder is alive: frozen, slow, or with a wrong clock.
    pub early_expiries: u8,
    /// An outbox message is sent twice. Receiving one message twice needs no budget.
    pub duplicates: u8,
    /// A write is committed and its reply is lost.
    pub lost_replies: u8,
    /// A worker stops waiting for a service's answer.
    pub time_outs: u8,
    /// A service refuses a request and has no effect.
    pub refusals: u8,
    /// A person decides about a paused run.
    pub directives: u8,
}

/// A rule removed from the protocol. Each is one branch in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A worker's commit is accepted with any fence.
    NoFenceOnCommit,
    /// A claim writes no receipt.
    NoIntent,
    /// The idempotency key includes the attempt.
    KeyPerAttempt,
    /// The previous holder's credential is not revoked before the look-up.
    LookUpWithoutRevoke,
    /// The look-up happens while the service still has accepted requests to carry out.
    LookUpWithoutDrain,
    /// A cancel overwrites changes made since the operator loaded the record.
    UnguardedCancel,
    /// A message is deleted when it is received.
    MessageDeletedBeforeCommit,
    /// The process that committed sends the wake-up message after its commit.
    OutboxOutsideTheTransaction,
    /// A decision overwrites an earlier one.
    UnconditionalDecision,
    /// An opaque effect is repeated when its outcome is unknown.
    RetryOnUnknownOutcome,
}

impl Mutant {
    pub(crate) const ALL: [Self; 10] = [
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

    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
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

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Config {
    /// The name in reports.
    pub name: &'static str,
    pub workers: u8,
    pub steps: &'static [Step],
    pub budget: Budget,
    /// Whether an operator may cancel the run, once.
    pub cancel: bool,
    /// The removed rule, if any.
    #[serde(skip)]
    pub mutant: Option<Mutant>,
}

impl Config {
    /// # Panics
    /// If the configuration does not fit into a state.
    #[must_use]
    pub(crate) fn new(name: &'static str, workers: u8, steps: &'static [Step], budget: Budget) -> Self {
        assert!(usize::from(workers) <= WORKERS_MAX && steps.len() <= STEPS_MAX);
        Self { name, workers, steps, budget, cancel: false, mutant: None }
    }

    #[must_use]
    pub(crate) fn with_cancel(self) -> Self {
        Self { cancel: true, ..self }
    }

    #[must_use]
    pub(crate) fn with_mutant(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// The effect class of the step's tool. A wait has no effect.
    pub(crate) fn class(&self, step: u8) -> Class {
        match self.steps[usize::from(step)] {
            Step::Act(class) => class,
            Step::Wait => Class::ReadOnly,
        }
    }

    pub(crate) fn wait(&self) -> Option<u8> {
        (0..).zip(self.steps).find_map(|(step, kind)| (*kind == Step::Wait).then_some(step))
    }
}
