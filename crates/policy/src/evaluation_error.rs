//! The reasons why a policy returns no result. Each of them is a deny.
//!
//! No setting changes this: the only value that can be made from an [`EvaluationError`] is a verdict that denies.

use domain::failure::bounded;
use domain::{Digest, Reason, Ruling, Verdict};
use serde::Serialize;
use strum::{EnumDiscriminants, IntoStaticStr, VariantArray};

use crate::evaluate::MEMBERS_MAX;
use crate::location::PolicyLocation;

/// Error texts quote their subject; longer texts are cut.
const WHY_CHARS_MAX: usize = 200;

/// Why a policy returned no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error, EnumDiscriminants)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum_discriminants(
    name(EvaluationErrorKind),
    doc = "The kinds of [`EvaluationError`].",
    derive(PartialOrd, Ord, IntoStaticStr, VariantArray),
    strum(serialize_all = "snake_case", prefix = "policy/")
)]
pub enum EvaluationError {
    #[error("no policy is available: {why}")]
    NoBundle { why: String },
    #[error("the action cannot be evaluated: {why}")]
    InvalidAction { why: String },
    #[error("no rule of the policy allows this action or requests approval for it")]
    NoMatch,
    #[error("policy evaluation failed: {why}")]
    Evaluation {
        /// The message of the evaluator.
        why: String,
        location: Option<PolicyLocation>,
    },
    /// A complete rule returned two values.
    #[error("the policy returned conflicting values: {why}")]
    Conflict {
        /// The message of the evaluator.
        why: String,
        location: Option<PolicyLocation>,
    },
    #[error("policy evaluation timed out")]
    Timeout,
    /// The evaluator panicked.
    #[error("the policy evaluator crashed")]
    Crashed,
    #[error("the policy returned {members} members; at most {MEMBERS_MAX} are allowed")]
    TooManyMembers { members: usize },
    #[error("a rule returned an invalid member: {why}")]
    InvalidMember {
        /// Absent if the member has no `rule`.
        rule: Option<String>,
        why: String,
        /// The first line of the rule.
        location: Option<PolicyLocation>,
    },
}

impl EvaluationErrorKind {
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The rule name in the reasons of a verdict.
    pub fn rule(self) -> &'static str {
        self.into()
    }
}

impl EvaluationError {
    pub fn kind(&self) -> EvaluationErrorKind {
        self.into()
    }

    pub fn location(&self) -> Option<&PolicyLocation> {
        match self {
            Self::Evaluation { location, .. }
            | Self::Conflict { location, .. }
            | Self::InvalidMember { location, .. } => location.as_ref(),
            Self::NoBundle { .. }
            | Self::InvalidAction { .. }
            | Self::NoMatch
            | Self::Timeout
            | Self::Crashed
            | Self::TooManyMembers { .. } => None,
        }
    }

    /// The verdict for this error: a deny, under `policy`.
    pub(crate) fn verdict(&self, policy: Digest) -> Verdict {
        let location = self.location();
        let mut reason = Reason::runtime(self.kind().rule(), self.to_string());
        reason.file = location.map(|location| location.file.clone());
        reason.line = location.map(|location| location.line);
        Verdict { ruling: Ruling::Deny, reasons: vec![reason], policy }
    }

    /// Classifies an error of the evaluator.
    pub(crate) fn from_evaluator(error: &str) -> Self {
        // Functions return their errors as text, so only the text distinguishes them.
        if error.contains("exceeded time limit") {
            return Self::Timeout;
        }
        let (location, why) = split_location(error);
        let conflict = why.contains("multiple outputs") || why.starts_with("rule conflicts");
        if conflict { Self::Conflict { why, location } } else { Self::Evaluation { why, location } }
    }
}

/// The verdict when no bundle is available: the tenant's bundle is missing, or it does not parse.
pub fn without_bundle(policy: Digest, why: &str) -> Verdict {
    EvaluationError::NoBundle { why: bounded(why, WHY_CHARS_MAX) }.verdict(policy)
}

/// Splits an error of regorus into location and message. regorus renders both in one text:
/// `--> file:line:column`, the source line with a caret, `error: message`.
pub(crate) fn split_location(error: &str) -> (Option<PolicyLocation>, String) {
    let location =
        error.lines().find_map(|line| line.trim_start().strip_prefix("--> ")).and_then(parse_location);
    let message = match error.rsplit_once("\nerror: ") {
        Some((_, message)) => message,
        None => error,
    };
    let line = message.trim().lines().next().unwrap_or_default();
    (location, bounded(line, WHY_CHARS_MAX))
}

fn parse_location(text: &str) -> Option<PolicyLocation> {
    let mut parts = text.trim_end().rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let line = parts.next()?.parse().ok()?;
    Some(PolicyLocation { file: parts.next()?.to_owned(), line, column })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_text_is_split_into_location_and_message() {
        let rendered =
            "\n--> a/b.rego:3:14\n  |\n3 | x := y\n  |      ^\nerror: use of undefined variable `y`";
        let (location, message) = split_location(rendered);
        assert_eq!(location, Some(PolicyLocation { file: "a/b.rego".to_owned(), line: 3, column: 14 }));
        assert_eq!(message, "use of undefined variable `y`");
        assert_eq!(split_location("no location"), (None, "no location".to_owned()));
    }
}
