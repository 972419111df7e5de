//! The ways in which a policy can fail to give an answer. Each of them is a deny.
//!
//! There is no value here, and no setting anywhere, that turns one into anything else: the only thing that
//! can be made from a fault is a verdict that denies.

use domain::failure::bounded;
use domain::{Digest, Reason, Ruling, Verdict};
use serde::Serialize;

use crate::place::Place;

/// Error texts quote what they are about; a person reads this much.
const WHY_CHARS_MAX: usize = 200;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// There is no bundle to ask.
    #[error("there is no policy to ask: {why}")]
    NoBundle {
        /// Why there is none.
        why: String,
    },
    /// The facts cannot be put to a policy.
    #[error("the action cannot be judged: {why}")]
    Unjudgeable {
        /// Why not.
        why: String,
    },
    /// No rule said anything.
    #[error("no rule of the policy allows this, and none hands it to people")]
    Silent,
    /// A rule could not be evaluated.
    #[error("the policy could not be evaluated: {why}")]
    Evaluation {
        /// What the evaluator said.
        why: String,
        /// Where.
        place: Option<Place>,
    },
    /// A rule gave two answers where there can be one.
    #[error("the policy contradicts itself: {why}")]
    Conflict {
        /// What the evaluator said.
        why: String,
        /// Where.
        place: Option<Place>,
    },
    /// The time was up.
    #[error("the policy was still thinking when its time was up")]
    OutOfTime,
    /// The evaluator fell over.
    #[error("the evaluator fell over this policy")]
    Crashed,
    /// More answers than anybody reads.
    #[error("the policy gave {answers} answers at once")]
    TooManyAnswers {
        /// How many.
        answers: usize,
    },
    /// An answer that is not in the shape an answer has.
    #[error("a rule gave an answer that cannot be read: {why}")]
    Misshapen {
        /// The rule, if it said its name.
        rule: Option<String>,
        /// What is wrong.
        why: String,
        /// Where the rule begins.
        place: Option<Place>,
    },
}

/// Declares the kinds together with the list of all of them, so that neither can lack one.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident => $rule:literal,)*) => {
        /// The kinds of faults.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FaultKind { $($(#[$doc])* $kind,)* }

        impl FaultKind {
            /// Every kind there is.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The name under which it stands among a verdict's reasons.
            pub fn rule(self) -> &'static str {
                match self { $(Self::$kind => $rule,)* }
            }
        }
    };
}

kinds! {
    /// [`Fault::NoBundle`].
    NoBundle => "policy/no_bundle",
    /// [`Fault::Unjudgeable`].
    Unjudgeable => "policy/unjudgeable",
    /// [`Fault::Silent`].
    Silent => "policy/silent",
    /// [`Fault::Evaluation`].
    Evaluation => "policy/evaluation",
    /// [`Fault::Conflict`].
    Conflict => "policy/conflict",
    /// [`Fault::OutOfTime`].
    OutOfTime => "policy/out_of_time",
    /// [`Fault::Crashed`].
    Crashed => "policy/crashed",
    /// [`Fault::TooManyAnswers`].
    TooManyAnswers => "policy/too_many_answers",
    /// [`Fault::Misshapen`].
    Misshapen => "policy/misshapen",
}

impl Fault {
    /// Which kind it is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::NoBundle { .. } => FaultKind::NoBundle,
            Self::Unjudgeable { .. } => FaultKind::Unjudgeable,
            Self::Silent => FaultKind::Silent,
            Self::Evaluation { .. } => FaultKind::Evaluation,
            Self::Conflict { .. } => FaultKind::Conflict,
            Self::OutOfTime => FaultKind::OutOfTime,
            Self::Crashed => FaultKind::Crashed,
            Self::TooManyAnswers { .. } => FaultKind::TooManyAnswers,
            Self::Misshapen { .. } => FaultKind::Misshapen,
        }
    }

    /// Where it happened, if that is known.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Evaluation { place, .. } | Self::Conflict { place, .. } | Self::Misshapen { place, .. } => {
                place.as_ref()
            }
            Self::NoBundle { .. }
            | Self::Unjudgeable { .. }
            | Self::Silent
            | Self::OutOfTime
            | Self::Crashed
            | Self::TooManyAnswers { .. } => None,
        }
    }

    /// The verdict that a fault under `policy` is.
    pub(crate) fn verdict(&self, policy: Digest) -> Verdict {
        let place = self.place();
        let mut reason = Reason::runtime(self.kind().rule(), self.to_string());
        reason.file = place.map(|place| place.file.clone());
        reason.line = place.map(|place| place.line);
        Verdict { ruling: Ruling::Deny, because: vec![reason], policy }
    }

    /// The fault that an error of the evaluator is.
    pub(crate) fn of_evaluation(error: &str) -> Self {
        // A function hands its errors on as text, so the text is all there is to tell them apart by.
        if error.contains("exceeded time limit") {
            return Self::OutOfTime;
        }
        let (place, why) = placed(error);
        let contradiction = why.contains("multiple outputs") || why.starts_with("rule conflicts");
        if contradiction { Self::Conflict { why, place } } else { Self::Evaluation { why, place } }
    }
}

/// A verdict when there is no bundle to ask: a tenant names one that cannot be found, or that was refused.
pub fn without_bundle(policy: Digest, why: &str) -> Verdict {
    Fault::NoBundle { why: bounded(why, WHY_CHARS_MAX) }.verdict(policy)
}

/// The place and the bare message of an error of regorus, which draws both into a picture:
/// `--> file:line:column`, the line with a caret, `error: message`.
pub(crate) fn placed(error: &str) -> (Option<Place>, String) {
    let place = error.lines().find_map(|line| line.trim_start().strip_prefix("--> ")).and_then(place_in);
    let message = match error.rsplit_once("\nerror: ") {
        Some((_, message)) => message,
        None => error,
    };
    let line = message.trim().lines().next().unwrap_or_default();
    (place, bounded(line, WHY_CHARS_MAX))
}

fn place_in(text: &str) -> Option<Place> {
    let mut parts = text.trim_end().rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let line = parts.next()?.parse().ok()?;
    Some(Place { file: parts.next()?.to_owned(), line, column })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_an_error_gives_its_place_and_message() {
        let picture =
            "\n--> a/b.rego:3:14\n  |\n3 | x := y\n  |      ^\nerror: use of undefined variable `y`";
        let (place, message) = placed(picture);
        assert_eq!(place, Some(Place { file: "a/b.rego".to_owned(), line: 3, column: 14 }));
        assert_eq!(message, "use of undefined variable `y`");
        assert_eq!(placed("no picture"), (None, "no picture".to_owned()));
    }
}
