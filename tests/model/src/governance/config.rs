//! A configuration: the people, the steps, the limits, and the rule removed by a mutant, if any.

use domain::EffectClass;
use domain::plan::OnReject;
use serde::Serialize;

/// How many people must approve an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Need {
    /// Policy allows the action.
    Allowed,
    One,
    Two,
}

impl Need {
    pub(crate) const fn count(self) -> u32 {
        self as u32
    }
}

/// How a step is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rollback {
    None,
    /// With the inverse that the tool recorded. Policy allows it.
    Recorded,
    /// With a call of the author. Policy requires the same as for the step.
    Declared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// Waits for a signal, whose payload is part of every later action.
    Wait,
    /// Calls a tool.
    Act(Act),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Act {
    pub class: EffectClass,
    /// Whether the external system has forgotten the key when the action is repeated.
    pub forgets: bool,
    /// Whether the step has a medium blast radius, so that an attempt after a failed one needs another approval.
    pub risky: bool,
    pub need: Need,
    pub rollback: Rollback,
}

impl Act {
    /// Whether a second request has no second effect.
    pub(crate) const fn is_repeatable(self) -> bool {
        match self.class {
            EffectClass::Pure | EffectClass::ReadOnly | EffectClass::CompareAndSet | EffectClass::LookUp => {
                true
            }
            EffectClass::NativeKey => !self.forgets,
            EffectClass::Opaque => false,
        }
    }
}

/// The second run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Second {
    None,
    /// Undoes the first run after it has ended.
    Undo,
    /// Another run of the workflow, whose actions have the same idempotency keys.
    SameKeys,
}

/// How often each of these may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Limits {
    pub signals: u8,
    pub rejections: u8,
    pub pauses: u8,
    pub resumes: u8,
    pub rollbacks: u8,
    pub cancels: u8,
    /// A step fails, and its effect did not happen.
    pub failures: u8,
    /// An attempt fails, its effect did not happen, and it is retried.
    pub retries: u8,
    /// A reply is lost, so the effect may have happened.
    pub lost_replies: u8,
    /// A worker crashes, and another takes over.
    pub crashes: u8,
    /// A person leaves the directory or comes back.
    pub directory: u8,
    pub policies: u8,
    /// The external state changes, so that the step proposes another action.
    pub external: u8,
}

/// A rule removed at one place between the domain and the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    RequesterMayApprove,
    AuthorMayApprove,
    ApplierMayApprove,
    SignalerMayApprove,
    RollbackOrdererMayApprove,
    /// The person whose rejection starts a rollback may approve it.
    RejecterMayApproveRollback,
    RetrierMayApprove,
    ResumerMayApprove,
    /// `Ada` and `ada` are two people.
    NamesNotNormalized,
    RejectionForgotten,
    DeclaredRollbackAsRecorded,
    RemovedUsersCount,
    /// An approver who left the directory after the decision still counts.
    DepartedApproversCount,
    /// An interrupted effect continues although policy now requires approvers that it does not have.
    StricterPolicyIgnored,
    OtherActionAccepted,
    /// The people who shaped a run may approve its undo.
    UndoForgetsParticipants,
    /// An unknown outcome is repeated without an approval.
    UnknownOutcomeRepeated,
    /// A risky action is repeated after a failed attempt, without another approval.
    FailedAttemptRepeated,
}

impl Mutant {
    pub(crate) const ALL: [Self; 18] = [
        Self::RequesterMayApprove,
        Self::AuthorMayApprove,
        Self::ApplierMayApprove,
        Self::SignalerMayApprove,
        Self::RollbackOrdererMayApprove,
        Self::RejecterMayApproveRollback,
        Self::RetrierMayApprove,
        Self::ResumerMayApprove,
        Self::NamesNotNormalized,
        Self::RejectionForgotten,
        Self::DeclaredRollbackAsRecorded,
        Self::RemovedUsersCount,
        Self::DepartedApproversCount,
        Self::StricterPolicyIgnored,
        Self::OtherActionAccepted,
        Self::UndoForgetsParticipants,
        Self::UnknownOutcomeRepeated,
        Self::FailedAttemptRepeated,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RequesterMayApprove => "requester may approve",
            Self::AuthorMayApprove => "author may approve",
            Self::ApplierMayApprove => "applier may approve",
            Self::SignalerMayApprove => "signaler may approve",
            Self::RollbackOrdererMayApprove => "rollback orderer may approve",
            Self::RejecterMayApproveRollback => "rejecter may approve the rollback",
            Self::RetrierMayApprove => "retrier may approve",
            Self::ResumerMayApprove => "resumer may approve",
            Self::NamesNotNormalized => "names not normalized",
            Self::RejectionForgotten => "rejection forgotten",
            Self::DeclaredRollbackAsRecorded => "declared rollback as recorded",
            Self::RemovedUsersCount => "removed users count",
            Self::DepartedApproversCount => "departed approvers count",
            Self::StricterPolicyIgnored => "stricter policy ignored",
            Self::OtherActionAccepted => "other action accepted",
            Self::UndoForgetsParticipants => "undo forgets participants",
            Self::UnknownOutcomeRepeated => "unknown outcome repeated",
            Self::FailedAttemptRepeated => "failed attempt repeated",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Config {
    pub name: &'static str,
    /// Person 0 is the author.
    pub people: u8,
    pub steps: &'static [Step],
    pub second: Second,
    pub on_reject: OnReject,
    pub limits: Limits,
    #[serde(skip)]
    pub mutant: Option<Mutant>,
}

impl Config {
    pub(crate) fn new(name: &'static str, people: u8, steps: &'static [Step], limits: Limits) -> Self {
        let (second, on_reject) = (Second::None, OnReject::Fail);
        Self { name, people, steps, second, on_reject, limits, mutant: None }
    }

    pub(crate) fn with_second(self, second: Second) -> Self {
        Self { second, ..self }
    }

    /// A rejection pauses the run, so that the action can be requested again.
    pub(crate) fn with_pause_on_reject(self) -> Self {
        Self { on_reject: OnReject::Pause, ..self }
    }

    pub(crate) fn with_mutant(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
