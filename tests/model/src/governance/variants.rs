//! The configurations for CI, the long ones, and for each mutant the smallest that catches it.

use domain::EffectClass;

use super::config::{Act, Config, Limits, Mutant, Need, Rollback, Second, Step};
use super::properties as invariant;
use crate::variants::{Experiment, Variant};

/// With fewer states the configurations are too small to be meaningful.
const UNIQUE_STATES_MIN: usize = 50_000;

const ACT: Act = Act {
    class: EffectClass::CompareAndSet,
    forgets: false,
    risky: false,
    need: Need::One,
    rollback: Rollback::None,
};
const ONE: Step = Step::Act(ACT);
const ALLOWED: Step = Step::Act(Act { need: Need::Allowed, ..ACT });
const TWO: Step = Step::Act(Act { need: Need::Two, ..ACT });
const DECLARED: Step = Step::Act(Act { rollback: Rollback::Declared, ..ACT });
const RECORDED: Step = Step::Act(Act { rollback: Rollback::Recorded, ..ACT });
const PAYMENT: Step = Step::Act(Act { class: EffectClass::Opaque, need: Need::Allowed, ..ACT });
const APPROVED_PAYMENT: Step = Step::Act(Act { class: EffectClass::Opaque, ..ACT });
const RISKY: Step = Step::Act(Act { risky: true, ..ACT });
const ALLOWED_RISKY: Step = Step::Act(Act { risky: true, need: Need::Allowed, ..ACT });
const FORGETFUL: Step =
    Step::Act(Act { class: EffectClass::NativeKey, forgets: true, need: Need::Allowed, ..ACT });

const NONE: Limits = Limits {
    signals: 0,
    rejections: 0,
    pauses: 0,
    resumes: 0,
    rollbacks: 0,
    cancels: 0,
    failures: 0,
    retries: 0,
    lost_replies: 0,
    crashes: 0,
    directory: 0,
    policies: 0,
    external: 0,
};

/// A few thousand states, for a fast test.
#[cfg(test)]
pub(crate) fn small_variant() -> Variant<Config> {
    let (lost, canceled) = (Limits { lost_replies: 1, ..NONE }, Limits { cancels: 1, ..NONE });
    let rejected = Limits { rejections: 1, resumes: 1, ..NONE };
    let configs = vec![
        Config::new("signal", 3, &[Step::Wait, ONE], Limits { signals: 2, external: 1, ..NONE }),
        Config::new("two people", 3, &[TWO], Limits { directory: 1, policies: 1, ..NONE }),
        Config::new(
            "interrupted",
            3,
            &[ALLOWED, ONE],
            Limits { crashes: 1, directory: 1, policies: 1, ..NONE },
        ),
        Config::new("rejected", 3, &[ONE], rejected).with_pause_on_reject(),
        Config::new("rejected rollback", 3, &[DECLARED, ONE], Limits { rollbacks: 1, ..rejected }),
        Config::new("recorded rollback", 3, &[RECORDED, ONE], Limits { failures: 1, ..canceled }),
        Config::new("rejected action", 3, &[DECLARED, ONE], Limits { rejections: 1, ..NONE }),
        Config::new("failed attempt", 3, &[RISKY], Limits { retries: 1, ..NONE }),
        Config::new("allowed, failed attempt", 3, &[ALLOWED_RISKY], Limits { retries: 1, ..lost }),
        Config::new("unknown outcome", 3, &[APPROVED_PAYMENT], Limits { resumes: 1, ..lost }),
        Config::new("forgotten key", 3, &[FORGETFUL], Limits { resumes: 1, ..lost }),
        Config::new("undo", 4, &[Step::Wait, DECLARED], Limits { signals: 1, ..NONE })
            .with_second(Second::Undo),
        Config::new("same keys", 3, &[PAYMENT], Limits { resumes: 1, cancels: 1, ..lost })
            .with_second(Second::SameKeys),
    ];
    Variant { name: "small", unique_states_min: UNIQUE_STATES_MIN, configs }
}

/// The configurations for every push.
pub(crate) fn ci_variant() -> Variant<Config> {
    let configs = vec![
        Config::new(
            "signal",
            4,
            &[Step::Wait, ONE],
            Limits { signals: 2, pauses: 1, resumes: 1, rejections: 1, external: 1, ..NONE },
        )
        .with_pause_on_reject(),
        Config::new("two people", 4, &[TWO], Limits { directory: 1, policies: 1, external: 1, ..NONE }),
        Config::new(
            "interrupted",
            4,
            &[ALLOWED, ONE],
            Limits { crashes: 1, lost_replies: 1, directory: 1, policies: 2, resumes: 1, ..NONE },
        ),
        Config::new(
            "declared rollback",
            3,
            &[DECLARED, ONE],
            Limits { rollbacks: 1, cancels: 1, failures: 1, rejections: 1, resumes: 1, ..NONE },
        ),
        Config::new(
            "recorded rollback",
            3,
            &[RECORDED, ONE],
            Limits { rollbacks: 1, cancels: 1, failures: 1, policies: 1, crashes: 1, ..NONE },
        ),
        Config::new(
            "unknown outcome",
            3,
            &[APPROVED_PAYMENT],
            Limits { lost_replies: 2, resumes: 2, crashes: 1, rejections: 1, cancels: 1, ..NONE },
        )
        .with_pause_on_reject(),
        Config::new(
            "failed attempt",
            3,
            &[RISKY],
            Limits { retries: 2, lost_replies: 1, crashes: 1, resumes: 1, directory: 1, ..NONE },
        ),
        Config::new(
            "allowed, failed attempt",
            3,
            &[ALLOWED_RISKY],
            Limits { retries: 2, lost_replies: 1, crashes: 1, resumes: 1, ..NONE },
        ),
        Config::new("forgotten key", 3, &[FORGETFUL], Limits { lost_replies: 2, resumes: 2, ..NONE }),
        Config::new("undo", 4, &[Step::Wait, DECLARED], Limits { signals: 1, cancels: 1, ..NONE })
            .with_second(Second::Undo),
        Config::new("same keys", 3, &[PAYMENT], Limits { lost_replies: 1, resumes: 2, cancels: 1, ..NONE })
            .with_second(Second::SameKeys),
    ];
    Variant { name: "ci", unique_states_min: UNIQUE_STATES_MIN, configs }
}

/// The CI configurations, and others with longer runs.
pub(crate) fn long_variant() -> Variant<Config> {
    let mut configs = ci_variant().configs;
    configs.extend([
        Config::new(
            "two people, changes",
            4,
            &[TWO],
            Limits { directory: 2, policies: 1, pauses: 1, resumes: 1, external: 1, ..NONE },
        ),
        Config::new(
            "signal, effect, rollback",
            4,
            &[Step::Wait, DECLARED, ONE],
            Limits { signals: 1, rollbacks: 1, failures: 1, resumes: 1, pauses: 1, ..NONE },
        ),
        Config::new(
            "two people, two effects",
            4,
            &[TWO, TWO],
            Limits { directory: 1, policies: 2, lost_replies: 1, resumes: 1, ..NONE },
        ),
        Config::new(
            "undo with changes",
            4,
            &[Step::Wait, DECLARED],
            Limits { signals: 2, directory: 1, policies: 1, resumes: 1, pauses: 1, ..NONE },
        )
        .with_second(Second::Undo),
    ]);
    Variant { name: "long", unique_states_min: UNIQUE_STATES_MIN, configs }
}

/// The smallest configuration in which the mutant violates its invariant.
pub(crate) fn experiment(mutant: Mutant) -> Experiment<Config> {
    let (people, steps, limits, expected): (u8, &'static [Step], Limits, &str) = match mutant {
        Mutant::RequesterMayApprove | Mutant::AuthorMayApprove | Mutant::ApplierMayApprove => {
            (3, &[ONE], NONE, invariant::NOT_SHAPED)
        }
        Mutant::SignalerMayApprove => {
            (3, &[Step::Wait, ONE], Limits { signals: 1, ..NONE }, invariant::NOT_SHAPED)
        }
        Mutant::RollbackOrdererMayApprove => {
            (3, &[DECLARED, ONE], Limits { rollbacks: 1, ..NONE }, invariant::NOT_SHAPED)
        }
        Mutant::RejecterMayApproveRollback => {
            (3, &[DECLARED, ONE], Limits { rejections: 1, ..NONE }, invariant::NOT_SHAPED)
        }
        Mutant::FailedAttemptRepeated => {
            (3, &[RISKY], Limits { retries: 1, ..NONE }, invariant::REPEAT_APPROVED)
        }
        Mutant::RetrierMayApprove => {
            (3, &[PAYMENT], Limits { lost_replies: 1, resumes: 1, ..NONE }, invariant::NOT_SHAPED)
        }
        Mutant::ResumerMayApprove => {
            (3, &[ONE], Limits { pauses: 1, resumes: 1, ..NONE }, invariant::NOT_SHAPED)
        }
        Mutant::NamesNotNormalized => (3, &[ONE], NONE, invariant::NOT_SHAPED),
        Mutant::RejectionForgotten => {
            (3, &[ONE], Limits { rejections: 1, resumes: 1, ..NONE }, invariant::REJECTION_SHOWN)
        }
        Mutant::DeclaredRollbackAsRecorded => {
            (3, &[DECLARED, ONE], Limits { rollbacks: 1, ..NONE }, invariant::APPROVED)
        }
        Mutant::RemovedUsersCount => (4, &[TWO], Limits { directory: 1, ..NONE }, invariant::PRESENT),
        Mutant::DepartedApproversCount => (3, &[ONE], Limits { directory: 1, ..NONE }, invariant::PRESENT),
        Mutant::StricterPolicyIgnored => {
            (3, &[ALLOWED], Limits { crashes: 1, policies: 1, ..NONE }, invariant::APPROVED)
        }
        Mutant::OtherActionAccepted => (3, &[ONE], Limits { external: 1, ..NONE }, invariant::EXACT_ACTION),
        Mutant::UndoForgetsParticipants => {
            (4, &[Step::Wait, DECLARED], Limits { signals: 1, ..NONE }, invariant::NOT_SHAPED)
        }
        Mutant::UnknownOutcomeRepeated => {
            (3, &[PAYMENT], Limits { lost_replies: 1, resumes: 1, ..NONE }, invariant::REPEAT_APPROVED)
        }
    };
    let config = Config::new(mutant.name(), people, steps, limits);
    let config = match mutant {
        Mutant::UndoForgetsParticipants => config.with_second(Second::Undo),
        Mutant::RejectionForgotten => config.with_pause_on_reject(),
        _ => config,
    };
    Experiment { mutated: config.clone().with_mutant(mutant), config, expected }
}
